# Each target does the set-up that it needs and says what it installs.
SHELL := /bin/bash
PYTHON := .venv/bin/python
SITE ?= lima
# A site is given by its name, which inventories has before tests/sites, or by its folder.
SITE_FOLDER = $(firstword $(wildcard inventories/$(SITE) tests/sites/$(SITE) $(SITE)))

# Tools that call ansible-playbook find the one of this project, and leave nothing in the user's home.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_HOME := $(CURDIR)/.cache/ansible

.DEFAULT_GOAL := help
.PHONY: help rehearse airgap drills test plan clean

help: ## Show this list
	@echo 'Usage: make TARGET'
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

rehearse: ## Build a simulated site on this machine, deploy to it and print the model's answer
	@tools/setup simulation
	@$(PYTHON) -m rehearsal run

airgap: ## Simulate a site without a route out, from an empty drive to the model's answer
	@tools/setup simulation
	@$(PYTHON) -m pytest -v tests/rehearsal/test_airgap.py

drills: ## Fail agents, nodes, disks and the hub while a simulated site fetches its checkpoint
	@tools/setup simulation
	@$(PYTHON) -m tests.drills $(DRILLS)

test: ## Run every check and test but airgap and most drills, as CI does
	@tools/setup simulation
	@$(PYTHON) -m tools.checks

plan: ## Print what would run on each node of a site: make plan SITE=lima
	@test -n '$(SITE)' || { echo "SITE is empty: say which site, as in make plan SITE=lima" >&2; exit 2; }
	@test -n '$(SITE_FOLDER)' || { echo "There is no site '$(SITE)' in inventories or tests/sites: give the name of a folder there, or a path without blanks" >&2; exit 2; }
	@tools/setup python
	@ansible-playbook playbooks/plan.yml -i '$(SITE_FOLDER)'

clean: ## Remove all that the other targets made; Debian packages that they installed stay
	@tools/clean
