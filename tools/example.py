"""The site that documents show: made up, of one replica for each pool."""

from __future__ import annotations

from typing import Any

VERSION = "0.32.0"  # of vLLM, whose code the catalogue's settings were checked against


def declared(known: Any, profile: str, hardware: str, fabric: str | None = None) -> tuple[dict, dict, dict]:
    """Site, nodes and groups of a replica for each pool, each of the hardware's usual size; no gate refuses it."""
    gates = known.entries["faults"].values()
    machine, model = known.find("hardware", hardware), known.find("models", "kimi-k3")
    site = {
        "site_name": "example",
        "serving_profile": profile,
        "serving_model": model.name,
        "serving_model_revision": model["commits"][0]["commit"],
        "serving_image": f"registry.example/vllm@sha256:{'0' * 64}",
        "serving_engine_version": VERSION,
        "serving_features": ["tool_calling", "reasoning"],
        "fabric_kind": fabric or ("nvlink" if machine.get("nvlink_domain_gpus") else "roce"),
        "checkpoint_path": "/srv/models",
        "checkpoint_origins": [{"kind": "hub", "url": "https://huggingface.co"}],
        "serving_gate_overrides": {gate.name: "shown" for gate in gates if gate["action"] == "refuse"},
        "licence_accepted_by": "example",
    }
    node = {"fabric_interface": "bond0", "gpu_model": hardware, "gpu_count": machine["gpus_per_node"]}
    node |= {"rdma_devices": ["mlx5_0", "mlx5_1"], "gid_index": 3}
    nodes, groups = {"service-01": {}}, {"service_hosts": ["service-01"], "gpu_nodes": []}
    for pool, layout in machine["layouts"][profile].items():
        group = known.find("profiles", profile)["pools"][pool]["group"]
        names = [f"gpu-{len(nodes) + n:02d}" for n in range(layout["nodes"])]
        nodes |= {name: {**node, "fabric_address": f"10.0.0.{int(name[4:])}"} for name in names}
        for member in {"gpu_nodes", group}:
            groups[member] = [*groups.get(member, []), *names]
    return site, nodes, groups
