"""The inventory of the drills' site: nodes without GPU and one service host that plays the hub."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.drills import model

HEADER = "# Written by the drills. Read like any site's; only the sizes are theirs.\n"
# Faults are noticed sooner than on a real site, so that a drill takes seconds.
PATIENCE = {"checkpoint_stall_seconds": 5, "checkpoint_patience_seconds": 60, "checkpoint_linger_seconds": 600}


def nodes(count: int) -> list[str]:
    """Names of the nodes."""
    return [f"node-{number:02d}" for number in range(1, count + 1)]


def hosts(count: int, total: int) -> dict:
    """Groups and hosts. Each node has a disk with room for the checkpoint twice, less a little."""
    disk = {"simulated_disk_mib": max(300, round(2.2 * total / (1 << 20)))}
    rows = {name: {"fabric_address": f"10.213.0.{11 + index}"} for index, name in enumerate(nodes(count))}
    about = {"gpu_model": "cpu", "gpu_count": 1, "fabric_interface": "eth0", "simulated_image_role": "host"}
    service = {"fabric_address": f"10.213.0.{11 + count}", "simulated_image_role": "service"}
    return {
        "gpu_nodes": {"hosts": rows, "vars": about | disk},
        "service_hosts": {"hosts": {"service-01": service}},
    }


def site(total: int) -> dict:
    """What the site serves, and where its checkpoint comes from."""
    return {
        "site_name": "drills",
        "serving_profile": "single_node_tp",
        "serving_model": model.NAME,
        "serving_model_revision": model.commit(total),
        "serving_engine_version": "0.32.0",
        "serving_image": "{{ simulated_image }}",
        "fabric_kind": "ethernet",
        "checkpoint_path": "/srv/models",
        "checkpoint_origins": [{"kind": "hub", "url": "{{ simulated_hub }}"}],
        "licence_accepted_by": "Drills",
        **PATIENCE,
    }


def entry() -> dict:
    """The row of the catalogue that the site lays over the collection's."""
    return {
        "name": model.NAME,
        "source": "made by tests/drills/model.py",
        "date": "2026-12-01",
        "repo": model.REPOSITORY,
        "served_name": model.NAME,
        "licence": {"name": "Kimi-K3-drill licence", "text": "Random numbers; you may use and copy them freely."},
        "files": None,
        "bytes": None,
        "commits": [],
        "shapes": {"layers": 2, "attention_heads": 4},
        "minimum_engine_version": "0.27.1",
        "settings": [],
    }


def write(folder: Path, count: int, total: int) -> None:
    """Write the inventory, unless it is there as it would be written."""
    documents = {
        "hosts.yml": hosts(count, total),
        "site.yml": {"all": {"vars": site(total)}},
        f"catalogue/models/{model.NAME}.yml": entry(),
    }
    for name, content in documents.items():
        path, text = folder / name, HEADER + yaml.safe_dump(content, sort_keys=False, width=110)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
