# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Argument lists as people read them: a flag and its value together."""

from __future__ import annotations

# Follows from all other arguments, so it says nothing about what changed.
DERIVED = "--label=sovereign.kimi_k3.release="


def folded(words):
    """Groups of one or two words: `[["--max-num-seqs", "4"], ["--enforce-eager"]]`."""
    groups = []
    for word in words:
        last = groups[-1] if groups else []
        if len(last) == 1 and last[0].startswith("--") and "=" not in last[0] and not word.startswith("--"):
            last.append(word)
        else:
            groups.append([word])
    return groups


def difference(running, wanted):
    """What a process must be started again for, such as `--max-num-seqs 4 becomes --max-num-seqs 3`; else empty."""
    if running == wanted:
        return ""
    before, after = ([" ".join(group) for group in folded(words)] for words in (running, wanted))
    gone = [text for text in before if text not in after and not text.startswith(DERIVED)]
    come = [text for text in after if text not in before and not text.startswith(DERIVED)]
    changes = []
    for text in gone:
        twin = next((other for other in come if _name(other) == _name(text)), None)
        changes.append(f"{text} becomes {twin}" if twin else f"{text} goes")
        come = [other for other in come if other != twin]
    return ", ".join(changes + [f"{text} comes" for text in come]) or "another release or order of arguments"


def _name(text):
    """The flag that a group sets, or the variable of `--env=NAME=value`."""
    head = text.split(" ")[0]
    return "=".join(head.split("=")[: 2 if head.startswith("--env=") else 1])
