# Copyright (c) 2026 the sovereign.kimi_k3 authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the agent: asks the scheduler what to do, has threads do it (they suffice: all of it frees the GIL)."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

from ..proof.faults import Fault, SourceFault, Stopped, WrongBytes
from ..proof.manifest import Entry, Manifest
from ..proof.part import Part
from ..proof.store import Store, alone
from .config import COMPLETE, DISK, FAILED, NO_SPACE, STOPPED, UNUSABLE, Config, place
from .scheduler import Have, Job, Scheduler
from .server import Server
from .sources import Peer, origins
from .status import STATUS_SECONDS, Status
from .transfer import receive

_OUT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CPUS = os.cpu_count() or 1
_REMEDY = "see to the origin, or name another in checkpoint_origins, and run again"
# What is to be decided is taken in bundles. An agent goes when all have heard that it is done; they may just be told.
_REST_SECONDS, _FAREWELL_SECONDS = 0.02, 0.3


class Agent:
    """Fetches one checkpoint revision and hands it on; `run` returns the exit code."""

    def __init__(self, config: Config, manifest: Manifest):
        self._config, self._files, self._store = config, manifest.files, Store(config, manifest)
        self._status, self._stop, self._end = Status(config.file("status"), manifest), threading.Event(), COMPLETE
        self.digest, self.abandoned = manifest.digest.partition(":")[2], set()
        ways_in = {source.name: source for source in origins(config, manifest)}
        self._peers = {name: Peer(name, config, manifest) for name in config.nodes if name != config.node}
        self._names = {place(config.nodes[name])[0]: name for name in self._peers}
        self._sources = {**ways_in, **self._peers}
        self._changed = threading.Condition()  # guards all below
        sizes = [entry.size for entry in manifest.files]
        self._scheduler = Scheduler(config, sizes, list(ways_in), time.monotonic())
        self._parts: dict[int, Part] = {}
        self._unproved = set(range(len(self._files))) if config.read_back and not self._store.is_proved() else set()
        self._reading, self._told, self._said = set(), set(), Have()
        self._nonce, self._version, self._events, self._sending = os.urandom(4).hex(), 0, 0, 0

    def run(self) -> int:
        """Make all files whole and hand them on, until no node wants anything any more."""
        for folder in (self._config.published, self._config.parts):
            folder.mkdir(parents=True, exist_ok=True)
        self._status.write(orphans_removed=self._store.remove_orphans(), unknown_files=self._store.unknown_files())
        for index, entry in enumerate(self._files):
            if self._store.is_whole(entry):
                self._scheduler.whole.add(index)
                self._status.file(entry, "done", entry.size)
            elif os.path.lexists(self._store.target(entry)):
                self._scheduler.held.add(index)
        if self._peers:
            self._listen()
        self._direct_until_settled()
        self._stop.set()
        if self._end == COMPLETE and self._said.settled != "complete":
            self._end = FAILED
        if self._end == COMPLETE:
            shutil.rmtree(self._config.parts, ignore_errors=True)
        words = {COMPLETE: "complete", STOPPED: "stopped"}
        self._status.write(state=words.get(self._end, "failed"), exit_code=self._end)
        return self._end

    def _listen(self) -> None:
        try:
            server = Server(self._config.node, self._config.nodes, self)
        except OSError as error:
            address = self._config.nodes[self._config.node]
            remedy = "see what listens there (ss -ltnp), or choose another checkpoint_port"
            self._status.fail(Fault("listening", f"{address} for this agent", str(error.strerror), remedy))
            return self.end(UNUSABLE)
        self._begin(server.serve_forever)
        for peer in self._peers.values():
            self._begin(peer.watch, self._saw, self._stop)
        return None

    def _begin(self, work: Callable, *about: object) -> None:
        # Daemons: a thread that waits for a silent source must not keep a stopped agent alive.
        threading.Thread(target=work, args=about, daemon=True).start()

    def end(self, code: int = STOPPED) -> None:
        """End soon, keeping all parts. Takes no lock: signals call it in the middle of anything."""
        self._end = max(self._end, code)

    def _direct_until_settled(self) -> None:
        written = settled = 0.0
        while self._end == COMPLETE:
            now = time.monotonic()
            with self._changed:
                seen = self._events
                self._direct(now)
                have = self._have(now)
                wanted = self._sending or any(self._scheduler.unsettled(now, self._config.linger_seconds))
            if now - written > STATUS_SECONDS or (have.settled and not settled):
                self._report(have, now)
                written = now
            settled = (settled or now) if have.settled else 0.0
            patience = _FAREWELL_SECONDS if len(self._told) >= len(self._peers) else self._config.silence_seconds
            if settled and not wanted and (not self._peers or now - settled > patience):
                return
            time.sleep(_REST_SECONDS)
            with self._changed:
                self._changed.wait_for(lambda seen=seen: self._events != seen, STATUS_SECONDS)

    def _direct(self, now: float) -> None:
        """Begin what can begin: look at files that are there, bring some over the link, get some from nodes."""
        scheduler, missing = self._scheduler, len(self._scheduler.whole) < len(self._files)
        due = scheduler.held if missing else self._unproved
        for index in sorted(due - self._reading)[: max(0, _CPUS - len(self._reading))]:
            self._reading.add(index)
            self._begin(self._read, index)
        free = self._config.streams - sum(source not in scheduler.seen for source in scheduler.active.values())
        most = max(32, min(128, self._config.streams * len(self._config.nodes)))  # as may grow on the site at once
        for pick, slots in ((scheduler.pick_origin, free), (scheduler.pick_peer, most - len(scheduler.active))):
            for job in itertools.takewhile(bool, (pick(now) for _ in range(slots))):
                self._begin(self._work, job)
                self._tell()

    def _have(self, now: float) -> Have:
        have = self._scheduler.have(now, self._sending, self._status.bytes_done)
        if self._reading or (have.settled == "complete" and self._unproved):
            have = replace(have, settled="")
        if (have.settled, have.given_up) != (self._said.settled, self._said.given_up):
            self._tell()
        self._said = have
        return have

    def _tell(self) -> None:
        self._version += 1
        self._events += 1
        self._changed.notify_all()

    def _report(self, have: Have, now: float) -> None:
        reasons: dict[str, list[Entry]] = {}  # one fault for all files that cannot be had for the same reason
        with self._changed:
            missing = [index for index in range(len(self._files)) if index not in self._scheduler.whole]
            for index in missing if have.settled else ():
                reasons.setdefault(self._scheduler.reasons(index), []).append(self._files[index])
            site = self._site(have, now)
        for reason, (entry, *more) in reasons.items():
            files = f"{entry.path} and {len(more)} more" if more else entry.path
            self._status.fail(Fault(files, f"{entry.size} bytes with SHA-256 {entry.sha256}", reason, _REMEDY))
        if have.settled == "complete" and self._config.read_back and not self._store.is_proved():
            self._store.prove()
        self._status.write(state=have.settled or ("running" if missing else "verifying"), site=site)

    def _site(self, have: Have, now: float) -> dict:
        """The site as this node sees it. `leads`: the first that is not settled speaks for all."""
        said = {name: self._scheduler.peers.get(name, have) for name in self._config.nodes}
        busy = [name for name in said if not said[name].settled]
        unseen = [name for name in busy if not self._scheduler.is_alive(name, now)]
        return {
            "nodes": len(said),
            "complete": sum(one.settled == "complete" for one in said.values()),
            "failed": [name for name, one in said.items() if one.settled == "failed"],
            "unseen": unseen,
            "bytes_done": sum(one.bytes for one in said.values()),
            "bytes_total": len(said) * self._store.manifest.bytes,
            "leads": [name for name in busy if name not in unseen][:1] == [self._config.node],
        }

    def _read(self, index: int) -> None:
        """Look at a file that is there: adopt it, prove it, or put it aside to be fetched again."""
        entry, prove = self._files[index], index in self._scheduler.whole
        self._status.file(entry, "verifying" if prove else "checking")
        with self._own_faults(entry):
            fault = self._store.check(entry, prove, prove, lambda count: self._got(entry, "", count))
            if fault and os.path.lexists(self._store.target(entry)):
                self._status.note(str(fault))
                self._store.quarantine(entry)
            self._status.file(entry, "waiting" if fault else "done", 0 if fault else entry.size)
            with self._changed:
                (self._scheduler.whole.discard if fault else self._scheduler.whole.add)(index)
                self._scheduler.held.discard(index)
                self._reading.discard(index)
                if prove and not fault:
                    self._unproved.discard(index)
                self._tell()

    def _work(self, job: Job) -> None:
        """Get one file from one source, as far as that source gives it."""
        entry, source = self._files[job.index], self._sources[job.source]
        with self._own_faults(entry):
            part = self._part(job.index, entry)
            before, ended = part.size, self._scheduler.ended
            try:
                receive(part, entry, source, self._config.floor_bytes_per_second, self._got)
                self._store.publish(entry)
                ends, about = ended, (True,)
            except WrongBytes as error:
                ends, about = self._scheduler.wrong, (error.suspects or {job.source}, str(error))
            except SourceFault as error:
                ends, about = ended, (part.size > before, str(error), error.final, error.retry_after)
            if whole := about == (True,):
                self._status.file(entry, "done", entry.size)
            else:
                self._status.file(entry, "waiting", part.size)
                if self._scheduler.is_guilty(job):
                    self._status.note(f"{entry.path}: {about[1]}")
            with self._changed:
                ends(job, time.monotonic(), *about)
                if whole:
                    self._parts.pop(job.index).close()
                self._tell()

    def _part(self, index: int, entry: Entry) -> Part:
        if not (part := self._parts.get(index)):
            part = Part(self._store.part(entry), self.abandoned)
            with self._changed:
                self._parts[index] = part
            part.resume(lambda: self._got(entry, "", 0))
        self._status.file(entry, "fetching", part.size)
        return part

    def _got(self, entry: Entry, source: str, count: int) -> None:
        if self._end != COMPLETE:
            raise Stopped
        self._status.received(entry, source, count)

    @contextlib.contextmanager
    def _own_faults(self, entry: Entry) -> Iterator[None]:
        """What a source is not guilty of ends the agent, by name."""
        try:
            yield
        except Stopped:
            pass
        except OSError as error:
            if self._end != COMPLETE:
                return  # said already, of another file
            full = error.errno in _OUT_OF_SPACE
            found = f"{error.strerror} at {error.filename or self._config.parts}"
            remedy = "free space there and run again: what is fetched is kept" if full else "mend the filesystem"
            self._status.fail(Fault(entry.path, f"room for {entry.size} bytes", found, remedy))
            self.end(NO_SPACE if full else DISK)
        except Exception as error:
            traceback.print_exc()
            self._status.fail(Fault(entry.path, "no fault in the agent", repr(error), "report it with the journal"))
            self.end(FAILED)

    def _saw(self, name: str, have: Have) -> None:
        with self._changed:
            new = have.doubted.items() - self._scheduler.peers[name].doubted.items()
            # What another node found wrong is read from the disk, whatever its stamp says.
            self._unproved |= {index for index, node in new if node == self._config.node} & self._scheduler.whole
            self._scheduler.saw(name, have, time.monotonic())
            self._events += 1
            self._changed.notify_all()

    def news(self, since: str, seconds: float, host: str) -> dict:
        """What this node has, as soon as it is not what it had at version `since`, for somebody at `host`."""
        with self._changed:
            if name := self._names.get(host):  # who asks is alive; who begins to ask may want something again
                self._scheduler.seen[name], known = time.monotonic(), self._scheduler.peers[name]
                self._scheduler.peers[name] = known if since else replace(known, settled="")
            patience = min(seconds, self._config.silence_seconds / 3)
            self._changed.wait_for(lambda: since != f"{self._nonce}.{self._version:x}", patience)
            have = self._have(time.monotonic())
            version = f"{self._nonce}.{self._version:x}"
            if have.settled:
                self._told.add(host)
        return {**have.__dict__, "whole": list(have.whole), "given_up": list(have.given_up), "version": version}

    def copy(self, place: int) -> tuple[int, int, str, Part | None] | None:
        """(descriptor, size, name of the copy, the part that still grows) of a file that may be read."""
        with self._changed:
            if place in self._scheduler.active and (part := self._parts.get(place)):
                return (*part.reader(), self._files[place].size, part)
            if place not in self._scheduler.whole:
                return None
            entry, flags = self._files[place], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            if self._store.is_whole(entry):
                return os.open(self._store.target(entry), flags), "whole", entry.size, None
            self._scheduler.whole.discard(place)  # somebody changed it since it was proved
            self._scheduler.held.add(place)
            self._tell()
        return None

    def sending(self, change: int) -> None:
        """Count those who are being served."""
        with self._changed:
            self._sending += change


def fetch(config: Config, manifest: Manifest) -> int:
    """Run the agent, alone on this node for this model; return its exit code."""
    with alone(config.lock, config.published):
        agent = Agent(config, manifest)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: agent.end())
        return agent.run()
