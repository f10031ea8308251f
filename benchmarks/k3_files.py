# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of the 118 files of moonshotai/Kimi-K3, for calculations only.

Sources: total, number of files and sizes of config and index from the catalogue and its sources; shards from the audit
of ModelScope's listing in cl-vv-h/AI_Infra_Tutor_Page (744fe2e, kimi-checkpoint-audit.json, 2026-09-15). Shard n holds
layer n - 1; layers 3, 7, ... 91 and 92 are MLA, the others KDA; KDA shards of layers 1 to 9 have shorter tensor names.
Derived: the first shard is what the shards' total leaves (the audit says 2.34 GB); 18 small files share theirs evenly.
"""

from __future__ import annotations

TOTAL, SHARDS_TOTAL, FILES = 1_560_998_984_390, 1_560_936_091_448, 118
KDA, SHORT_KDA, MLA = 16_990_916_912, 16_990_911_504, 16_567_507_176
LAST = (4_697_664_072, 92_289_328, 802_448_352)  # embedding and head, projector, vision tower
LAYERS = 93
SMALL = (59_764_096, 2_795_286, 7_006, 53)  # index, tokenizer, config, generation config


def sizes() -> list[int]:
    """The shards in order, then the small files."""
    layers = [_layer(number) for number in range(1, LAYERS)]
    first = SHARDS_TOTAL - sum(layers) - sum(LAST)
    rest = FILES - 1 - len(layers) - len(LAST) - len(SMALL)
    left = TOTAL - SHARDS_TOTAL - sum(SMALL)
    small = [left // rest + (number < left % rest) for number in range(rest)]
    return [first, *layers, *LAST, *SMALL, *small]


def _layer(number: int) -> int:
    if number % 4 == 3 or number == LAYERS - 1:
        return MLA
    return SHORT_KDA if number < 10 else KDA
