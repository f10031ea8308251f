# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the bytes of one file get from a source to its part."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..proof.faults import SourceFault
from ..proof.manifest import Entry
from ..proof.part import BLOCK_BYTES, Part
from .sources import Drive, Peer, Stream, Web

# A stream slower than the floor for so long is made anew: a new connection may take a better way.
_FLOOR_SECONDS = 120
Got = Callable[[Entry, str, int], None]


def receive(part: Part, entry: Entry, source: Web | Drive | Peer, floor: float, got: Got) -> None:
    """Get the rest of a file from one source; raise SourceFault, WrongBytes or OSError (the local disk).

    `got` is told of each block: file, source, bytes. `floor`: bytes per second that are worth waiting for.
    """
    if part.size < entry.size:
        with source.open(entry, part.size, part.tags.get(source.name, "")) as stream:
            if stream.offset != part.size:
                part.reset()  # the source does not know Range, or has another copy, and starts again
            part.suspects.add(source.name)
            part.tags[source.name] = stream.tag
            _drain(part, entry, stream, floor, got)
    if part.size < entry.size:
        raise SourceFault(f"{source.name} closed the connection after {part.size} of {entry.size} bytes")
    part.prove(entry)


def _drain(part: Part, entry: Entry, stream: Stream, floor: float, got: Got) -> None:
    view, start, before = memoryview(bytearray(BLOCK_BYTES)), time.monotonic(), part.size
    while count := stream.readinto(view[: entry.size - part.size]):
        part.write(view[:count])
        got(entry, stream.source, count)
        if (now := time.monotonic()) - start > _FLOOR_SECONDS:
            if (part.size - before) / (now - start) < floor:
                raise SourceFault(f"{stream.source} gave less than {floor:g} bytes per second")
            start, before = now, part.size
