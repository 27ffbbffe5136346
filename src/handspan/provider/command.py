"""The command line of a provider: `python my_app.py serve | authorize | install | remove`."""

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from handspan.core.errors import ConfigError, HandspanError
from handspan.provider.access import Grants
from handspan.provider.launch import is_listening
from handspan.provider.manifests import install_manifest, remove_manifest
from handspan.provider.server import AlreadyServed, ProviderServer
from handspan.wire.cetp_manifest import ProviderManifest, encode_manifest, socket_path

if TYPE_CHECKING:
    from handspan.provider.provider import Provider

_TAKEOVER_SECONDS = 5.0
"""How long a process that is about to end may still hold the socket."""


def run_command(provider: "Provider", argv: Sequence[str] | None = None, before: Sequence[str] = ()) -> int:
    """Run the command that the person or a consumer gave. Return the exit code."""
    options = _parser(provider).parse_args(argv)
    options.before = before
    try:
        return int(options.run(provider, options))
    except (HandspanError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a command
        return 1


def _parser(provider: "Provider") -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(description=f"{provider.manifest.name}: read-only tools for AI agents (CETP).")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="answer consumers until stopped")
    serve.add_argument("--socket", type=Path, help="the path to listen on")
    serve.add_argument("--idle", type=float, help="end after so many seconds without a call (0: never)")
    serve.set_defaults(run=_serve)
    authorize = commands.add_parser("authorize", help="decide which programs may read")
    authorize.add_argument("program", nargs="?", help="the program; without it, those that have asked")
    authorize.add_argument("--yes", action="store_true", help="allow without asking")
    authorize.add_argument("--coarse", action="store_true", help="allow coarser data only")
    authorize.add_argument("--revoke", action="store_true", help="take it back")
    authorize.add_argument("--list", action="store_true", help="show what is allowed")
    authorize.set_defaults(run=_authorize)
    commands.add_parser("install", help="let consumers find this app").set_defaults(run=_install)
    commands.add_parser("remove", help="take it back").set_defaults(run=_remove)
    commands.add_parser("manifest", help="print what install would write").set_defaults(run=_print_manifest)
    return parser


def manifest_of(provider: "Provider", before: Sequence[str] = ()) -> ProviderManifest:
    """Return a manifest that starts this program, with these arguments before the command. Raises `ConfigError`."""
    started = vars(sys.modules["__main__"]).get("__file__")
    if started is None:
        raise ConfigError("No consumer can start this provider: save the program in a file, and run that.")
    file = os.path.abspath(started)
    program = [sys.executable, file, *before] if file.endswith(".py") else [file, *before]
    asks = [*program, "authorize"] if provider.access.others == "ask" else []
    return msgspec.structs.replace(provider.manifest, exec=[*program, "serve"], authorize=asks)


def _serve(provider: "Provider", options: argparse.Namespace) -> int:
    """Serve on the socket of the consumer that started us or, without one, on the app's own."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    given = os.environ.get("CETP_SOCKET", "")  # set by a consumer that starts us: then end when there are no calls
    path = options.socket or (Path(given) if given else socket_path(provider.manifest, os.environ))
    idle = options.idle if options.idle is not None else provider.idle if given else 0.0
    try:
        asyncio.run(_serve_until_stopped(provider, path, idle))
    except AlreadyServed as error:  # cetp.md 6.8
        logging.getLogger(__name__).info("%s", error)
    return 0


async def _serve_until_stopped(provider: "Provider", path: Path, idle: float) -> None:
    """Serve until a signal comes or, with `idle`, until no call has come for so many seconds."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(provider.close)
        server = await stack.enter_async_context(await _open_server(provider, path))
        logging.getLogger(__name__).info("%s listens on %s", provider.manifest.id, path)
        waits: list[asyncio.Task[object]] = [asyncio.create_task(stop.wait())]
        if idle:
            waits.append(asyncio.create_task(server.wait_until_idle(idle)))
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


async def _open_server(provider: "Provider", path: Path) -> ProviderServer:
    """Return a server that has the socket. A process that is about to end gets a moment to release it."""
    until = time.monotonic() + _TAKEOVER_SECONDS
    while True:
        server = ProviderServer(provider, path)
        try:
            server.open_socket()
            return server
        except AlreadyServed:
            if is_listening(path) or time.monotonic() > until:
                raise
        await asyncio.sleep(0.05)


def _authorize(provider: "Provider", options: argparse.Namespace) -> int:
    """Let the person decide which programs may read. Return the exit code."""
    grants = provider.grants
    if options.list:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(grants.load()), indent=2).decode() + "\n")
        return 0
    programs = [options.program] if options.program else list(grants.load().waiting)
    if not programs:
        sys.stderr.write("No program has asked: name one, or let it call first.\n")
        return 1
    if options.revoke:
        outcomes = [grants.remove(program) for program in programs]
    else:
        outcomes = [_decide(provider, grants, program, options) for program in programs]
    return 0 if all(outcomes) else 1


def _decide(provider: "Provider", grants: Grants, program: str, options: argparse.Namespace) -> bool:
    """Allow one program, if the person says so. Return whether it is allowed."""
    if not options.yes and not _ask(f"May {program} read from {provider.manifest.name}?"):
        return False
    grants.add(program, provider.access.valid_for, is_coarse=options.coarse)
    return True


def _ask(question: str) -> bool:
    """Ask the person: in the terminal, or in a window where there is no terminal."""
    if sys.stdin.isatty():
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    for argv in (["zenity", "--question", "--no-markup", f"--text={question}"], ["kdialog", "--yesno", question]):
        if shutil.which(argv[0]) and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return subprocess.run(argv, check=False).returncode == 0
    sys.stderr.write(f"{question} There is no terminal and no window to ask in: run this with --yes to allow it.\n")
    return False


def _install(provider: "Provider", options: argparse.Namespace) -> int:
    sys.stdout.write(f"{install_manifest(manifest_of(provider, options.before), os.environ)}\n")
    return 0


def _remove(provider: "Provider", _: argparse.Namespace) -> int:
    if remove_manifest(provider.manifest.id, os.environ) is None:
        sys.stderr.write("It is not installed.\n")
        return 1
    return 0


def _print_manifest(provider: "Provider", options: argparse.Namespace) -> int:
    sys.stdout.write(encode_manifest(manifest_of(provider, options.before)).decode())
    return 0
