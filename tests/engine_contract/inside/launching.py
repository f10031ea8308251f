"""`vllm serve` up to the moment in which it would start a process: vLLM's own code, with that moment taken out."""
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import os
import re
import subprocess
import types
from collections.abc import Iterator

# Where these functions stand has moved between releases.
PARSERS = ("common.cli_args", "launchers.cli_args", "openai.cli_args")
CHECKERS = ("common.cli_args", "launchers.launcher", "openai.api_server")
# What the Rust front end says once it has read and accepted its arguments: there is no engine to talk to.
NO_ENGINE = "failed to connect to engine core"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FRONT_END_SECONDS = 20

# An open file, for code that passes its number on.
NOTHING = types.SimpleNamespace(fileno=functools.partial(int, os.open(os.devnull, os.O_RDONLY)))

accepted_arguments: set[str] = set()


class Launched(Exception):
    """vLLM accepted the line and would start processes now."""

    def __init__(self, entry: str, config: object) -> None:
        super().__init__(entry)
        self.entry, self.config = entry, config


class Rejected(Exception):
    """A part of vLLM refused the line; the text is its own."""


def find(name: str, places: tuple[str, ...]) -> object:
    """The first of vLLM's entry point modules that has `name`."""
    for place in places:
        with contextlib.suppress(ImportError, AttributeError):
            return getattr(importlib.import_module(f"vllm.entrypoints.{place}"), name)
    raise ImportError(f"no {name} in {', '.join(places)}: vLLM has moved it, say where to in {__file__}")


class Serve:
    """The `serve` command of the installed vLLM."""

    def __init__(self) -> None:
        import vllm.entrypoints.cli.serve as command
        import vllm.v1.engine.utils as engines
        from vllm.model_executor.models import registry

        self.make_parser = find("make_arg_parser", PARSERS)
        self.validate = find("validate_parsed_serve_args", PARSERS)
        self.check_server = find("validate_api_server_args", CHECKERS)
        self.command = command
        self.config = None
        # A process of its own would not see the simulated GPUs.
        registry._run_in_subprocess = lambda look: look()
        engines.bind_engine_zmq_listeners = engines.get_engine_zmq_addresses = lambda *_, **__: nowhere()
        command.setup_server = self.set_up
        command.run_server = self.serve_alone
        command.uvloop = types.SimpleNamespace(run=lambda nothing: nothing)
        command.signal = types.SimpleNamespace(signal=lambda *_: None, SIGTERM=15, SIGINT=2)
        command.launch_core_engines = self.launch_engines
        command.MultiprocExecutor = lambda config, **_: self.launched("headless worker", config)
        command.CoreEngineProcManager = lambda **known: self.launched("headless engines", known["vllm_config"])
        command.APIServerProcessManager = lambda **_: self.launched("api servers", self.config)
        command.RustFrontendProcessManager = self.launch_rust

    def __call__(self, argv: list[str]) -> Launched:
        """Take a command line as far as the start of processes. Raises whatever vLLM raises."""
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        arguments = self.make_parser(FlexibleArgumentParser(prog="vllm serve")).parse_args(argv)
        arguments.subparser = "serve"
        self.validate(arguments)
        try:
            self.command.ServeSubcommand.cmd(arguments)
        except Launched as launched:
            return launched
        raise Rejected("vLLM took a way through its serve command that the judge does not know")

    def launched(self, entry: str, config: object) -> None:
        raise Launched(entry, config)

    def set_up(self, arguments: argparse.Namespace, **_: object) -> tuple[str, types.SimpleNamespace]:
        """Everything that vLLM does before it opens a port, without the port."""
        self.check_server(arguments)
        return "nowhere", NOTHING

    def serve_alone(self, arguments: argparse.Namespace) -> None:
        """One API server, in the process of the command itself."""
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext

        self.check_server(arguments)
        engine = AsyncEngineArgs.from_cli_args(arguments)
        self.launched("api server", engine.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER))

    @contextlib.contextmanager
    def launch_engines(self, config: object, *_: object, **__: object) -> Iterator[Engines]:
        self.config = config
        yield Engines()

    def launch_rust(self, **known: object) -> None:
        """The real front end reads its arguments, and ends because there is no engine."""
        from vllm.v1.utils import RustFrontendProcessManager

        command: list[str] = []
        start, subprocess.Popen = subprocess.Popen, lambda words, **_: command.extend(words)
        # What vLLM does with the process once it runs is of no interest here.
        with contextlib.suppress(AttributeError):
            try:
                RustFrontendProcessManager(**known)
            finally:
                subprocess.Popen = start
        run_front_end(tuple(command))
        self.launched("rust front end", self.config)


def run_front_end(command: tuple[str, ...]) -> None:
    """Let it read its arguments; the same ones are not tried twice. Raises Rejected."""
    arguments = command[command.index("--args-json") + 1]
    if arguments not in accepted_arguments:
        try_front_end(command)
        accepted_arguments.add(arguments)


def try_front_end(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=[NOTHING.fileno()],
        timeout=FRONT_END_SECONDS,
        check=False,
    )
    said = COLOUR.sub("", done.stdout + done.stderr)
    if NO_ENGINE not in said:
        raise Rejected(" ".join(said.split()) or f"the Rust front end ended with code {done.returncode}")


@functools.cache
def nowhere() -> types.SimpleNamespace:
    """What engines and API servers would talk through, by the shapes of all releases."""
    listener = types.SimpleNamespace(socket=NOTHING, close=lambda: None, cleanup=lambda: None)
    addresses = types.SimpleNamespace(inputs=["nowhere"], outputs=["nowhere"])
    return types.SimpleNamespace(addresses=addresses, inputs=[listener], outputs=[listener])


class Engines(tuple):
    """Engines that were not started; older releases unpack it, newer ones ask it by name."""

    engine_manager = coordinator = tensor_queue = None
    addresses = nowhere().addresses

    def __new__(cls) -> Engines:
        return super().__new__(cls, (None, None, cls.addresses, None))
