"""`handspan mcp serve` and `handspan mcp config`: the tools of an agent for other MCP clients (SPEC C5, U2)."""

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Final

import click
import msgspec

from handspan.cli import late
from handspan.cli.door import find_gateway, gateway_options, place_options
from handspan.cli.operator import as_operator
from handspan.cli.options import json_option, read_place
from handspan.cli.render import print_as_json
from handspan.cli.requests import segment
from handspan.core.values import Json, JsonObject
from handspan.wire.rest.status import SettingsInForce
from handspan.wire.rest.tokens import MadeToken

_NAME: Final = "handspan"
"""The name of this server in the settings of other programs."""
_RANDOM_PORT: Final = (
    "Note: this gateway listens on a random port (--port 0), so {url} and the entries end with it. Start it with a "
    "port of its own: `handspan serve --port 8321`, or the setting gateway.port."
)


@click.command("serve")
@click.option("--agent", default="", help="The agent whose tools are offered; default: the default agent.")
@place_options
def serve(agent: str) -> None:
    """Offer an agent's tools to the program that starts this one: MCP over standard input and output.

    The tools are those of the gateway that runs, of devices too. Without one, a gateway inside this process has them.
    It ends when standard input is closed.
    """
    asyncio.run(late.mcp_serve.serve_stdio(find_gateway(), _path(agent)))


# Entries for the settings of other programs.


def _http_entry(url: str, token: str) -> JsonObject:
    return {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}


def _desktop(url: str, token: str, agent: str, state: str = "") -> str:
    """Return an entry that starts a program: Claude Desktop does not take addresses with a header.

    `state`: the state folder of a gateway on this computer. The program finds that gateway wherever it listens; while
    none runs, the program has the tools itself.
    """
    program = shutil.which("handspan") or sys.argv[0]
    args: list[Json] = ["mcp", "serve", *(["--agent", agent] if agent else [])]
    where: JsonObject = {"HANDSPAN_STATE": state} if state else {"HANDSPAN_URL": url}
    environment: JsonObject = {**where, "HANDSPAN_TOKEN": token}
    return _file("mcpServers", {"command": program, "args": args, "env": environment})


def _code(url: str, token: str, agent: str) -> str:
    address = f"{url}{_path(agent)}"
    return f'claude mcp add --transport http {_NAME} {address} --header "Authorization: Bearer {token}"'


def _cursor(url: str, token: str, agent: str) -> str:
    entry = _http_entry(f"{url}{_path(agent)}", token)
    del entry["type"]  # Cursor tells by the address
    return _file("mcpServers", entry)


def _vscode(url: str, token: str, agent: str) -> str:
    return _file("servers", _http_entry(f"{url}{_path(agent)}", token))


def _file(key: str, entry: JsonObject) -> str:
    return msgspec.json.format(msgspec.json.encode({key: {_NAME: entry}}), indent=2).decode()


def _path(agent: str) -> str:
    return f"/mcp/{segment(agent)}" if agent else "/mcp"


_CLIENTS: Final[dict[str, tuple[str, str, Callable[[str, str, str], str]]]] = {
    "claude-desktop": (
        "Claude Desktop",
        "into claude_desktop_config.json (Settings, Developer, Edit Config)",
        _desktop,
    ),
    "claude-code": ("Claude Code", "run", _code),
    "cursor": ("Cursor", "into ~/.cursor/mcp.json", _cursor),
    "vscode": ("VS Code", "into mcp.json (command `MCP: Open User Configuration`)", _vscode),
}
"""The clients: their names, where an entry belongs, and the function that makes it."""


@click.command("config")
@click.option("--agent", default="", help="Bind the token to this agent: it can use no other one's tools.")
@click.option(
    "--client", "clients", multiple=True, type=click.Choice(list(_CLIENTS)), help="Only for this client; default: all."
)
@json_option
@gateway_options
def config(agent: str, clients: tuple[str, ...]) -> None:
    """Make a token for MCP clients, and print the entries for their settings.

    The token can list and call tools, and nothing else. It holds until `handspan tokens revoke` ends it.
    """
    wanted = clients or tuple(_CLIENTS)
    label = f"MCP: {_CLIENTS[wanted[0]][0]}" if len(wanted) == 1 else "MCP clients"
    wanted_token: JsonObject = {"label": label, "scopes": ["tools"], "agents": [agent] if agent else []}
    with as_operator() as remote:
        made = remote.change("POST", "/api/tokens", MadeToken, wanted_token)
        entries = {name: _CLIENTS[name][2](remote.url, made.token, agent) for name in wanted}
        if remote.find_again is not None and "claude-desktop" in entries:
            entries["claude-desktop"] = _desktop(remote.url, made.token, agent, str(read_place().state))
        in_force = remote.get("/api/settings", SettingsInForce).settings
    if any(setting.key == "gateway.port" and setting.value == 0 for setting in in_force):
        click.echo(_RANDOM_PORT.format(url=remote.url), err=True)
    if print_as_json({"url": remote.url, **msgspec.to_builtins(made), "clients": entries}):
        return
    _print_entries(entries)
    click.echo(
        f"This holds a new token: keep it to yourself. To end it: handspan tokens revoke {made.id}\n"
        "Tokens of earlier entries stay valid: `handspan tokens` lists them.",
        err=True,
    )


def _print_entries(entries: Mapping[str, str]) -> None:
    """Print each entry below its title. The title of a single entry is on standard error: a file gets JSON alone."""
    is_single = len(entries) == 1
    for name, entry in entries.items():
        title, where, _ = _CLIENTS[name]
        click.echo(f"# {title}: {where}", err=is_single)
        click.echo(entry if is_single else f"{entry}\n")
