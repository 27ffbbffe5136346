"""`handspan mcp import`: the MCP servers of other programs, added one by one (SPEC U2)."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec
from msgspec import Struct, structs

from handspan.cli.door import RequestCommand, ask_at, find_gateway
from handspan.cli.mcp_program import is_path, name_program
from handspan.cli.render import print_as_json, print_done, print_rows
from handspan.cli.requests import RemoteRefused, Requests, segment, with_query
from handspan.config.mcp_file import read_servers
from handspan.core.errors import ConfigError
from handspan.wire.rest.mcp import McpServerView, NewMcpServer

if TYPE_CHECKING:
    from handspan.cli.remote import Remote

_ELSEWHERE: Final = (
    "~/Library/Application Support/Claude/claude_desktop_config.json",
    "~/.config/Claude/claude_desktop_config.json",
    "~/.claude.json",
    ".mcp.json",
    "~/.cursor/mcp.json",
    ".cursor/mcp.json",
    "~/.config/Code/User/mcp.json",
    "~/Library/Application Support/Code/User/mcp.json",
    ".vscode/mcp.json",
    "~/.config/goose/config.yaml",
)
"""Where Claude Desktop, Claude Code, Cursor, VS Code and goose keep their MCP servers."""
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


@click.command("import", cls=RequestCommand)
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--replace", is_flag=True, help="Replace servers of the same name. Without it they stay as they are.")
def import_servers(file: Path | None, replace: bool) -> None:
    """Add the MCP servers of other programs: those in FILE, or those of all programs on this computer.

    These are Claude Desktop, Claude Code, Cursor, VS Code and goose. What Handspan does not know is left out, and
    named. Of two servers with one name, the first one counts; with --replace, the last one. The exit code is 1 when a
    server or a file was skipped.
    """
    skipped: list[_Import] = []
    found = list(_read(file)) if file is not None else list(_read_all(skipped))
    if not found and not skipped:
        text = f"There is nothing to import: {_NOTHING_IN.format(file) if file else _NOTHING_HERE}."
        print_done([], text)
        return
    remote = find_gateway()

    async def add_all(requests: Requests) -> list[_Import]:
        return [await _add(requests, one, remote, replaces=replace) for one in found]

    done = [*ask_at(remote, add_all), *skipped]
    _print(done)
    if any(one.outcome == "skipped" for one in done):
        raise SystemExit(1)


def _read(file: Path) -> Iterator[_Found]:
    for name, given in read_servers(file).items():
        yield _Found(file, name, given)


def _read_all(skipped: list[_Import]) -> Iterator[_Found]:
    """Yield the servers of all programs. A file that can't be read is added to `skipped`."""
    for place in map(os.path.expanduser, _ELSEWHERE):
        try:
            yield from _read(Path(place))
        except ConfigError as error:
            skipped.append(_Import("", "skipped", place, reason=str(error)))


async def _add(requests: Requests, found: _Found, remote: "Remote | None", *, replaces: bool) -> _Import:
    """Add one server, wait until it is up or has failed, and return what became of it."""
    done = _Import(found.name, "skipped", str(found.file))
    try:
        outcome = await _put(requests, found.name, _convert(found, remote), replaces=replaces)
    except (ConfigError, RemoteRefused) as error:
        if isinstance(error, RemoteRefused) and error.code != "settings":
            raise  # the reason is not this server: the next one would be refused, too
        return structs.replace(done, reason=str(error))
    if outcome == "kept":
        return structs.replace(done, outcome=outcome, reason=_KEPT)
    added = await requests.change("POST", f"/api/mcp/{segment(found.name)}/test", McpServerView)
    return structs.replace(done, outcome=outcome, status=added.status, tools=len(added.tools), reason=added.reason)


async def _put(requests: Requests, name: str, server: NewMcpServer, *, replaces: bool) -> str:
    """Store the server at the gateway, and return the outcome. Raises `RemoteRefused`."""
    path, body = f"/api/mcp/{segment(name)}", msgspec.to_builtins(server)
    try:
        await requests.change("PUT", with_query(path, {"replace": "false"}), McpServerView, body)
        return "added"
    except RemoteRefused as refused:
        if refused.code != "exists":
            raise
    if not replaces:
        return "kept"
    await requests.change("PUT", path, McpServerView, body)
    return "replaced"


def _convert(found: _Found, remote: "Remote | None") -> NewMcpServer:
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
    return structs.replace(server, command=name_program(server.command, server.env, remote))


def _print(done: list[_Import]) -> None:
    if print_as_json(done):
        return
    rows = [(one.name, one.outcome, one.status, one.tools if one.status else "", one.file) for one in done]
    print_rows(("name", "outcome", "state", "tools", "file"), rows)
    for one in done:
        if one.reason:
            click.echo(f"{one.name}: {one.reason}" if one.name else one.reason, err=True)
