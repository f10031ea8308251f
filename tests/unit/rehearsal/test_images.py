"""The key under which images are kept."""

import shutil

import pytest

from rehearsal import images


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    copy = tmp_path / "images"
    shutil.copytree(images.RECIPES, copy)
    monkeypatch.setattr(images, "RECIPES", copy)
    return copy


def test_the_same_recipes_in_the_same_week_give_the_same_key(recipes):
    assert images.key("2026-48") == images.key("2026-48")


def test_another_week_gives_another_key(recipes):
    assert images.key("2026-48") != images.key("2026-49")


@pytest.mark.parametrize("name", ["node.txt", "offered.txt", "Containerfile.host", "init.sh"])
def test_a_change_of_any_recipe_gives_another_key(recipes, name):
    before = images.key("2026-48")
    with (recipes / name).open("a") as file:
        file.write("\n")

    assert images.key("2026-48") != before


def test_a_recipe_that_moves_text_to_another_file_gives_another_key(recipes):
    before = images.key("2026-48")
    (recipes / "init.sh").rename(recipes / "start.sh")

    assert images.key("2026-48") != before
