"""`handspan provider`: make a provider, test it, install it, and see which ones a bridge would find (SPEC D, U2)."""

import asyncio
import os
import stat
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from handspan.cli.options import CommandGroup, json_option
from handspan.cli.provider_starter import write_starter
from handspan.cli.render import print_as_json, print_done, print_json, print_rows
from handspan.core.errors import ConfigError, WireError
from handspan.core.names import did_you_mean
from handspan.core.values import Json
from handspan.provider.check import CheckResult, Verdict, check_provider, is_valid
from handspan.provider.connection import CallFailed, ProviderSocket
from handspan.provider.launch import is_listening, start_program, wait_until_listening
from handspan.provider.manifests import (
    FoundManifest,
    find_manifests,
    install_manifest,
    load_manifest,
    remove_manifest,
)
from handspan.wire.cetp import LIST_TOOLS, CetpError, CetpRequest, ProviderTools, prefixed_name, read_tools
from handspan.wire.cetp_manifest import ManifestError, ProviderManifest

_MARKS: Final[dict[Verdict, str]] = {"ok": "ok  ", "warning": "warn", "wrong": "FAIL"}
_LIST_SECONDS: Final = 5.0
_SECONDS_TO_END: Final = 15.0
"""How long a provider that was started for a check may take to end."""


class ListedProvider(Struct, frozen=True):
    """A provider as `list` shows it."""

    id: str
    manifest: str
    name: str = ""
    version: int | None = None
    socket: str = ""
    is_running: bool = False
    can_start: bool = False
    tools: list[str] | None = None
    """The names that agents see. None: the provider does not run, or does not answer."""
    left_out: dict[str, str] = {}
    """Tools that a bridge would not offer, with the reason."""
    problem: str = ""
    """Why a bridge would skip this provider."""


@click.group("provider", cls=CommandGroup)
def command() -> None:
    """Offer an app's data to agents: make a provider, test it, install it."""


@command.command("list")
@json_option
def list_providers() -> None:
    """List the providers that a bridge would find here, and why it would skip some. Starts none of them."""
    found = asyncio.run(_list_all())
    if print_as_json(found):
        return
    if not found:
        click.echo("No app offers its data here. Make a provider: handspan provider new NAME", err=True)
        return
    rows = [(one.id, one.name, _state(one), "?" if one.tools is None else len(one.tools)) for one in found]
    print_rows(("id", "name", "state", "tools"), rows)
    for one in found:
        if one.problem:
            click.echo(f"{one.manifest}: skipped: {one.problem}", err=True)
        for name, reason in one.left_out.items():
            click.echo(f"{one.id}: {name!r} is not offered: {reason}", err=True)


async def _list_all() -> list[ListedProvider]:
    return list(await asyncio.gather(*(_list_one(found) for found in find_manifests(os.environ))))


async def _list_one(found: FoundManifest) -> ListedProvider:
    """Return what is known of this provider; of one that runs also its tools."""
    manifest, socket = found.manifest, found.socket
    shown = ListedProvider(found.id, str(found.path), problem=found.problem)
    if manifest is None:
        return shown
    shown = replace(shown, name=manifest.name, version=manifest.version)
    if socket is None:
        return shown
    is_running = not found.problem and is_listening(socket)
    shown = replace(shown, socket=str(socket), is_running=is_running, can_start=bool(manifest.exec))
    return await _with_tools(shown, manifest, socket) if is_running else shown


async def _with_tools(shown: ListedProvider, manifest: ProviderManifest, path: Path) -> ListedProvider:
    """Return the provider with the names of its tools, or with why they can't be listed."""
    calls = ProviderSocket(shown.id, path)
    try:
        answer = await calls.call(CetpRequest(LIST_TOOLS), _LIST_SECONDS)
        tools = ProviderTools(()) if isinstance(answer, CetpError) else read_tools(answer.data)
        problem = answer.text if isinstance(answer, CetpError) else ""
    except WireError as error:
        return replace(shown, problem=str(error))
    finally:
        calls.close()
    left_out = {tool.name: tool.reason for tool in tools.left_out}
    left_out |= {tool.name: "it says that it writes (cetp.md 3.4)" for tool in tools.tools if not tool.only_reads}
    names = [prefixed_name(manifest.prefix, tool.name) for tool in tools.tools if tool.only_reads]
    return replace(shown, tools=names, left_out=left_out, problem=problem)


def _state(shown: ListedProvider) -> str:
    if shown.problem:
        return "skipped"
    return "running" if shown.is_running else "starts on demand" if shown.can_start else "not running"


@command.command("check")
@click.argument("target")
@click.option("--call", "tool", help="Also call this tool and print its answer.")
@click.option("--args", "arguments", default="{}", help="The arguments of that call, as a JSON object.")
@json_option
def check(target: str, tool: str | None, arguments: str) -> None:
    """Test a provider against the protocol. TARGET is an id, a manifest file or a socket.

    A provider that does not run is started, and ended after the test. Exit code 1: something is wrong.
    """
    if tool is not None and not _is_object(arguments):
        raise click.UsageError("--args takes a JSON object, such as '{\"limit\": 5}'.")
    results, answer = asyncio.run(_check(target, tool, arguments))
    if not print_as_json({"valid": is_valid(results), "results": results, **({"answer": answer} if tool else {})}):
        for result in results:
            click.echo(f"{_MARKS[result.verdict]}  {result.clause:<4}  {result.text}")
        if tool:
            print_json(answer)
        if not is_valid(results):
            click.echo("The numbers are clauses of protocol/cetp.md.", err=True)
    sys.exit(0 if is_valid(results) else 1)


def _is_object(text: str) -> bool:
    with suppress(msgspec.DecodeError):
        return isinstance(msgspec.json.decode(text), dict)
    return False


async def _check(target: str, tool: str | None, arguments: str) -> tuple[list[CheckResult], Json]:
    """Return the results of all checks and, with a tool, the answer of a call."""
    found = _find_target(target)
    if found.socket is None or found.problem:
        return [CheckResult("6.3", "wrong", f"{found.path}: {found.problem}")], None
    async with AsyncExitStack() as stack:
        try:
            await _start_if_needed(found, found.socket, stack)
        except CallFailed as error:
            return [CheckResult("6.8", "wrong", str(error))], None
        calls = ProviderSocket(found.id, found.socket)
        stack.callback(calls.close)
        results = [result async for result in check_provider(calls, found.socket)]
        return results, await _call(calls, tool, arguments) if tool else None


async def _call(calls: ProviderSocket, tool: str, arguments: str) -> Json:
    extras: dict[str, Json] = {"tool_name": tool, "args": arguments, "request_id": "handspan-provider-check"}
    answer: Json = msgspec.to_builtins(await calls.call(CetpRequest("execute_tool", extras), 60))
    return answer


async def _start_if_needed(found: FoundManifest, path: Path, stack: AsyncExitStack) -> None:
    """Start a provider that does not run; `stack` ends it. Raises `CallFailed` when it can't be started."""
    if is_listening(path):
        return
    if found.manifest is None or not found.manifest.exec:
        raise CallFailed(f"no process listens on {str(path)!r}, and no manifest says how to start one")
    process = await start_program(found.manifest.exec, path, os.environ)
    stack.push_async_callback(process.end, _SECONDS_TO_END)
    await wait_until_listening(path, process)


def _find_target(target: str) -> FoundManifest:
    """Return the manifest of this id or file; for a socket, one that has only its path. Raises `ConfigError`."""
    path = Path(target)
    if path.is_file():
        return load_manifest(path.absolute(), os.environ)
    if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
        return FoundManifest(path, ProviderManifest(path.stem), path.absolute())
    found = {one.id: one for one in reversed(find_manifests(os.environ))}
    if target not in found:
        hint = did_you_mean(target, found) or " `handspan provider list` shows those that are installed."
        raise ConfigError(f"There is no provider, manifest or socket {target!r}.{hint}")
    return found[target]


@command.command("new")
@click.argument("name")
@click.option("--id", "provider_id", help="The app's id, as in org.example.notes. Default: local.NAME.")
@click.option("--in", "folder", type=click.Path(path_type=Path), default=Path(), help="Where to make the folder.")
@click.option("--install", "installs", is_flag=True, help="Also put its manifest where bridges find it.")
@json_option
def new(name: str, provider_id: str | None, folder: Path, installs: bool) -> None:
    """Make a starter project NAME: a provider of one file, its manifest and its test."""
    try:
        files = write_starter(folder.absolute(), name, provider_id or f"local.{name}")
    except (ValueError, ManifestError) as error:
        raise click.UsageError(str(error)) from None
    manifest = next(file for file in files if file.suffix == ".json")
    if installs:
        _install(manifest)
    text = f"""Made {manifest.parent}: {", ".join(file.name for file in files)}
Test it:     cd {manifest.parent} && {sys.executable} -m unittest
Check it:    handspan provider check {manifest}
{"Installed." if installs else f"Install it:  handspan provider install {manifest}"}
Then start `handspan bridge`, and ask an agent."""
    print_done([str(file) for file in files], text)


@command.command("install")
@click.argument("manifest", type=click.Path(path_type=Path))
@json_option
def install(manifest: Path) -> None:
    """Put a MANIFEST where bridges find it. An earlier one of the same id is replaced."""
    provider_id, path = _install(manifest)
    print_done({"id": provider_id, "path": str(path)}, f"Installed {provider_id}: {path}")


def _install(manifest: Path) -> tuple[str, Path]:
    """Install this manifest. Returns its id and its new place. Raises `ManifestError` when no bridge would take it."""
    found = load_manifest(manifest.absolute(), os.environ)
    if found.manifest is None or found.problem:
        raise ManifestError(f"{manifest}: {found.problem}")
    return found.id, install_manifest(found.manifest, os.environ)


@command.command("remove")
@click.argument("provider_id", metavar="ID")
@json_option
def remove(provider_id: str) -> None:
    """Take a manifest that you have installed away again. The app itself stays."""
    path = remove_manifest(provider_id, os.environ)
    if path is None:
        known = [one.id for one in find_manifests(os.environ)]
        raise ConfigError(f"You have installed no provider {provider_id!r}.{did_you_mean(provider_id, known)}")
    print_done({"id": provider_id, "path": str(path)}, f"Removed {provider_id}: {path}")
