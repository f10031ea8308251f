"""A folder that looks like Kimi-K3 to a configuration builder: its shapes, no weights.

The sizes are those of the published config.json; what it holds beside them is left at vLLM's own defaults.
"""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import shutil
from pathlib import Path

from rehearsal.model.build import HERE as TINY

LAYERS = 93
FULL_ATTENTION = [*range(4, LAYERS, 4), LAYERS]

TEXT = {
    "model_type": "kimi_linear",
    "dtype": "bfloat16",
    "vocab_size": 163840,
    "hidden_size": 7168,
    "head_dim": 128,
    "intermediate_size": 33792,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 96,
    "num_key_value_heads": 96,
    "rms_norm_eps": 1e-5,
    "moe_intermediate_size": 3072,
    "num_experts": 896,
    "num_experts_per_token": 16,
    "num_shared_experts": 2,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mla_use_nope": True,
    "mla_use_output_gate": True,
    "max_position_embeddings": 1048576,
    "routed_expert_hidden_size": 3584,
    "latent_moe_use_norm": True,
    "attn_res_block_size": 8,
    "hidden_act": "situ",
    "activation_situ_beta": 4.0,
    "activation_situ_linear_beta": 25.0,
    "linear_attn_config": {
        "full_attn_layers": FULL_ATTENTION,
        "kda_layers": [layer for layer in range(1, LAYERS + 1) if layer not in FULL_ATTENTION],
        "num_heads": 96,
        "head_dim": 128,
        "short_conv_kernel_size": 4,
    },
}

CONFIG = {
    "architectures": ["KimiK3ForConditionalGeneration"],
    "model_type": "kimi_k3",
    "dtype": "bfloat16",
    "text_config": TEXT,
    "vision_config": {"model_type": "kimi_k3_vision", "text_hidden_size": 7168},
    "media_placeholder_token_id": 11,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}

# Draft models, each by the feature that serves it. Their kind is known, and what a draft shares with the model; other
# sizes are made up, so only what a line says of a draft is judged.
SHARED = {"vocab_size": 163840, "hidden_size": 7168, "dtype": "bfloat16", "max_position_embeddings": 1048576}
DRAFTS = {
    "dspark": {
        "architectures": ["Qwen3DSparkModel"],
        "model_type": "speculators",
        "speculators_model_type": "dspark",
        "speculators_config": {
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 8}],
            "verifier": {"name_or_path": "moonshotai/Kimi-K3"},
        },
        "aux_hidden_state_layer_ids": [2, 46, 90],
        "block_size": 8,
        "mask_token_id": 3,
        "markov_rank": 256,
        "transformer_layer_config": {
            **SHARED,
            "model_type": "qwen3",
            "head_dim": 128,
            "intermediate_size": 14336,
            "num_attention_heads": 64,
            "num_key_value_heads": 16,
            "num_hidden_layers": 5,
        },
    },
    "dspark_mla": {
        **SHARED,
        "architectures": ["K3DSparkModel"],
        "model_type": "k3_dspark",
        "intermediate_size": 14336,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "num_hidden_layers": 5,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "block_size": 7,
        "target_layer_ids": [1, 45, 89],
        "num_target_layers": 3,
        "mask_token_id": 3,
        "markov_rank": 256,
    },
}

# Code that the checkpoint brings, as Kimi-K3's does; --trust-remote-code lets vLLM load it.
PROCESSOR = """\
from transformers import BaseImageProcessor


class KimiK3VisionProcessor(BaseImageProcessor):
    def __init__(self, media_proc_cfg=None, **known):
        super().__init__(**known)
        self.media_proc_cfg = media_proc_cfg

    def media_tokens_calculator(self, media):
        return 1
"""

IMAGES = {
    "image_processor_type": "KimiK3VisionProcessor",
    "auto_map": {"AutoImageProcessor": "kimi_k3_vision_processing.KimiK3VisionProcessor"},
    "media_proc_cfg": {
        "patch_size": 14,
        "merge_kernel_size": 2,
        "temporal_merge_kernel_size": 1,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "in_patch_limit": 4096,
        "patch_limit_on_one_side": 512,
        "in_patch_limit_each_frame": None,
        "in_patch_limit_video": None,
        "fixed_output_tokens": None,
        "sample_fps": 2.0,
        "timestamp_mode": "hh:mm:ss.fff",
    },
}


def write(folder: Path) -> Path:
    """Make `folder` a checkpoint without weights and return it; its draft models stand beside it."""
    for name, draft in DRAFTS.items():
        (folder.parent / name).mkdir(parents=True)
        (folder.parent / name / "config.json").write_text(json.dumps(draft))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "preprocessor_config.json").write_text(json.dumps(IMAGES))
    (folder / "kimi_k3_vision_processing.py").write_text(PROCESSOR)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TINY / name, folder)
    return folder
