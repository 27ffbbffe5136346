"""`handspan mcp import`: the MCP servers of other programs, added one by one (SPEC U2)."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec
from msgspec import Struct, structs

from handspan.cli.door import ask_at, find_gateway, place_options
from handspan.cli.mcp_program import is_path, name_program
from handspan.cli.options import json_option
from handspan.cli.render import print_done, print_json, print_rows
from handspan.cli.requests import RemoteRefused, Requests, segment, with_query
from handspan.config.mcp_file import read_servers
from handspan.core.errors import ConfigError
from handspan.wire.rest.mcp import McpServerView, NewMcpServer

if TYPE_CHECKING:
    from handspan.cli.remote import Remote

_ELSEWHERE: Final = {
    "Claude Desktop": (
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "~/.config/Claude/claude_desktop_config.json",
    ),
    "Claude Code": ("~/.claude.json", ".mcp.json"),
    "Cursor": ("~/.cursor/mcp.json", ".cursor/mcp.json"),
    "VS Code": (
        "~/.config/Code/User/mcp.json",
        "~/Library/Application Support/Code/User/mcp.json",
        ".vscode/mcp.json",
    ),
    "goose": ("~/.config/goose/config.yaml",),
}
"""Where other programs keep their MCP servers."""
_NOTHING_IN: Final = '{} has no servers below "mcpServers"'
_NOTHING_HERE: Final = (
    'no other program has MCP servers on this computer, and FILE, with "mcpServers" in it, was not named'
)
_KEPT: Final = "A server of this name is here: it stays as it is. `--replace` replaces it."


class _Import(Struct, frozen=True):
    """What became of one server of a file."""

    name: str
    outcome: str
    """`added`, `replaced`, `kept` (one of this name was here) or `skipped`."""
    file: str
    status: str = ""
    """The state of a server that was added."""
    tools: int = 0
    reason: str = ""
    """Why it was not added, or is not ready."""


class _Found(NamedTuple):
    """A server in a file of another program."""

    file: Path
    name: str
    given: Mapping[str, Any]


@click.command("import")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace servers of the same name. Without it they stay as they are.")
@json_option
@place_options
def import_servers(file: Path | None, replace: bool, as_json: bool) -> None:
    """Add the MCP servers of other programs: those in FILE, or those of all programs on this computer.

    These are Claude Desktop, Claude Code, Cursor, VS Code and goose. What Handspan does not know is left out, and
    named. Of two servers with one name, the first one counts; with --replace, the last one. The exit code is 1 when a
    server or a file was skipped.
    """
    skipped: list[_Import] = []
    found = list(_read(file)) if file is not None else list(_read_all(skipped))
    if not found and not skipped:
        text = f"There is nothing to import: {_NOTHING_IN.format(file) if file else _NOTHING_HERE}."
        print_done([], text, as_json=as_json)
        return
    remote = find_gateway(says=not as_json)
    importer = _Importer(remote, replace)
    done = [*ask_at(remote, lambda requests: importer.add_all(requests, found)), *skipped]
    _print(done, as_json=as_json)
    if any(one.outcome == "skipped" for one in done):
        raise SystemExit(1)


def _read(file: Path) -> Iterator[_Found]:
    for name, given in read_servers(file).items():
        yield _Found(file, name, given)


def _read_all(skipped: list[_Import]) -> Iterator[_Found]:
    """Yield the servers of all programs. A file that can't be read is added to `skipped`."""
    for places in _ELSEWHERE.values():
        for place in places:
            try:
                yield from _read(Path(os.path.expanduser(place)))
            except ConfigError as error:
                skipped.append(_Import("", "skipped", os.path.expanduser(place), reason=str(error)))


class _Importer:
    """Adds servers to one gateway, one after the other."""

    def __init__(self, remote: "Remote | None", replace: bool) -> None:
        self._remote = remote
        self._replace = replace

    async def add_all(self, requests: Requests, found: list[_Found]) -> list[_Import]:
        """Add these servers, and return what became of each."""
        return [await self._add(requests, one) for one in found]

    async def _add(self, requests: Requests, found: _Found) -> _Import:
        """Add one server, wait until it is up or has failed, and return what became of it."""
        file = str(found.file)
        try:
            outcome = await self._put(requests, found)
        except ConfigError as error:
            return _Import(found.name, "skipped", file, reason=str(error))
        except RemoteRefused as refused:
            if refused.code != "settings":  # the reason is not this server: the next one would be refused, too
                raise
            return _Import(found.name, "skipped", file, reason=str(refused))
        if outcome == "kept":
            return _Import(found.name, outcome, file, reason=_KEPT)
        added = await requests.change("POST", f"/api/mcp/{segment(found.name)}/test", McpServerView)
        return _Import(found.name, outcome, file, added.status, tools=len(added.tools), reason=added.reason)

    async def _put(self, requests: Requests, found: _Found) -> str:
        """Store the server at the gateway, and return the outcome. Raises `ConfigError` and `RemoteRefused`."""
        given = _convert(found)
        server = structs.replace(given, command=name_program(given.command, given.env, self._remote))
        path, body = f"/api/mcp/{segment(found.name)}", msgspec.to_builtins(server)
        try:
            await requests.change("PUT", with_query(path, {"replace": "false"}), McpServerView, body)
            return "added"
        except RemoteRefused as refused:
            if refused.code != "exists":
                raise
        if not self._replace:
            return "kept"
        await requests.change("PUT", path, McpServerView, body)
        return "replaced"


def _convert(found: _Found) -> NewMcpServer:
    """Return the server in our form. Fields that we do not know are named to the person. Raises `ConfigError`."""
    known = {key: value for key, value in found.given.items() if key in NewMcpServer.__struct_fields__}
    if left := sorted(found.given.keys() - known.keys()):
        click.echo(f"{found.name}: left out, as it means nothing here: {', '.join(left)}", err=True)
    try:
        server = msgspec.convert(known, NewMcpServer)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The MCP server {found.name!r} can't be read: {error}. Correct it in the file.") from None
    if paths := [word for word in server.args if is_path(word)]:
        text = (
            f"{found.name}: the program runs in the workspace, so this is a path there: {', '.join(map(repr, paths))}"
        )
        click.echo(f"{text}. Write full paths in the file if you mean another folder.", err=True)
    return server


def _print(done: list[_Import], *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    rows = [(one.name, one.outcome, one.status, one.tools if one.status else "", one.file) for one in done]
    print_rows(("name", "outcome", "state", "tools", "file"), rows)
    for one in done:
        if one.reason:
            click.echo(f"{one.name}: {one.reason}" if one.name else one.reason, err=True)
