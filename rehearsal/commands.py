"""Running commands so that Ctrl-C never leaves one half done, and root only where it is needed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType


class RehearsalError(Exception):
    """One message for the operator: what failed, and what to do."""


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM reached the tool."""


class _Signals:
    """Turns SIGINT and SIGTERM into Interrupted, but not while a short command is running."""

    depth = 0
    received: int | None = None

    def handle(self, number: int, _frame: FrameType | None) -> None:
        self.received = number
        if self.depth == 0:
            raise Interrupted

    @contextmanager
    def held(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
        if self.received is not None and self.depth == 0:
            raise Interrupted


signals = _Signals()


def listen() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signals.handle)


def as_root(argv: Sequence[str]) -> list[str]:
    """The command itself for root, else through sudo, which would forget the proxies."""
    return list(argv) if os.geteuid() == 0 else ["sudo", "--preserve-env=http_proxy,https_proxy,no_proxy", *argv]


def run(argv: Sequence[str], *, check: bool = True, stdin: bytes | None = None) -> subprocess.CompletedProcess[str]:
    """Run a short command to its end, whatever signal arrives meanwhile.

    It gets its own process group, so a Ctrl-C on the terminal does not reach it.
    """
    with signals.held():
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        out, err = process.communicate(stdin)
    texts = (stream.decode(errors="replace") for stream in (out, err))
    done = subprocess.CompletedProcess(argv, process.returncode, *texts)
    if check and done.returncode:
        raise RehearsalError(f"exit code {done.returncode} of: {' '.join(argv)}\n{done.stdout}{done.stderr}".rstrip())
    return done


class Job:
    """A long command in a process group of its own; its output goes to a log file."""

    def __init__(
        self, argv: Sequence[str], log: Path, *, stdout: Path | None = None, directory: Path | None = None
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.argv, self.log = list(argv), log
        with log.open("ab") as errors, (stdout or log).open("ab") as output:
            self.process = subprocess.Popen(
                self.argv, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, process_group=0
            )

    def wait(self) -> None:
        """Raise RehearsalError with the end of the log unless the command succeeds."""
        try:
            code = self.process.wait()
        except BaseException:
            self.end()
            raise
        if code:
            what = f"exit code {code} of: {' '.join(self.argv)}"
            raise RehearsalError(f"{what}\n{tail(self.log)}\nThe whole log: {self.log}")

    def end(self) -> None:
        """End the whole group: politely, so that it can undo its mounts, then for good."""
        for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
            if self.process.poll() is not None:
                return
            subprocess.run(as_root(["kill", f"-{int(number)}", "--", f"-{self.process.pid}"]), check=False)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def tail(path: Path, lines: int = 15) -> str:
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def tool(name: str) -> str:
    """A program of the Python environment that runs this one, such as ansible-inventory."""
    return str(Path(sys.executable).with_name(name))
