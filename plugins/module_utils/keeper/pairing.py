# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which worker must start again: the rule, without clocks or systemd.

A headless worker never leaves when its head goes (measured), so its own exit cannot be waited for. A worker is paired
with the first start of the head that it sees; when the head has been started again since, the worker must be, too.
"""

from __future__ import annotations


class Pairing:
    """Pairs of starts: `{worker start: head start}`, each named by systemd's invocation id."""

    def __init__(self, pairs=None):
        self.pairs = dict(pairs or {})

    def must_restart(self, own, head):
        """Whether the worker, now in start `own`, belongs to an earlier start of the head than `head`.

        An empty id is an engine that does not run: a head that is down is no reason to stop a worker that waits
        for it, and a worker that is down starts by itself.
        """
        if not own or not head:
            return False
        return self.pairs.setdefault(own, head) != head

    def forget_all_but(self, own):
        """Drops the pairs of earlier starts of the worker."""
        self.pairs = {start: head for start, head in self.pairs.items() if start == own}
