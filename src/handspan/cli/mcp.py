"""`handspan mcp`: MCP servers whose tools agents can use; and our tools for other MCP clients (SPEC C, U2)."""

import sys
from typing import Any, Final

import click
import msgspec

from handspan.cli.call import call_once
from handspan.cli.door import (
    RequestGroup,
    ask_at,
    ask_gateway,
    change,
    fetch,
    find_gateway,
    place_options,
    say_aside,
)
from handspan.cli.mcp_clients import config, serve
from handspan.cli.mcp_import import import_servers
from handspan.cli.mcp_login import login, logout
from handspan.cli.mcp_program import full_path, name_command
from handspan.cli.options import is_json
from handspan.cli.render import print_as_json, print_done, print_rows
from handspan.cli.requests import Requests, segment
from handspan.core.names import outside_name
from handspan.core.values import Json, encode
from handspan.wire.rest.mcp import (
    McpEnvelope,
    McpServerList,
    McpServerView,
    NewMcpOauth,
    NewMcpServer,
    RemovedMcpServer,
    TrustedTools,
)

_NO_SERVERS: Final = "No MCP server yet: `handspan mcp add NAME -- COMMAND` or `handspan mcp add NAME URL` adds one."


@click.group("mcp", cls=RequestGroup)
def command() -> None:
    """List the MCP servers: state, number of tools, how each is reached."""
    servers = fetch("/api/mcp", McpServerList).servers
    if print_as_json(servers):
        return
    rows = [
        (one.name, f"{one.status}{', hidden' if one.internal_only else ''}", len(one.tools), one.where, one.node)
        for one in servers
    ]
    columns = ("name", "state", "tools", "where", "node")
    shown = len(columns) if any(one.node for one in servers) else len(columns) - 1
    print_rows(columns[:shown], [row[:shown] for row in rows], _NO_SERVERS)
    for one in servers:
        for problem in (one.reason, *one.problems):
            if problem:
                click.echo(f"{one.name}: {problem}", err=True)
        if one.waiting:
            click.echo(f"{one.name}: {_describe_waiting(one)}", err=True)


for other in (serve, config, import_servers, login, logout):
    command.add_command(other)


def _describe_waiting(server: McpServerView) -> str:
    names = ", ".join(server.waiting)
    return f"new or changed, and not accepted yet: {names}. Accept them: handspan mcp trust {server.name}"


@command.command("add")
@click.argument("name")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="A variable for the program.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header for the address.")
@click.option("--client-id", default="", help="Our id at its login, where it registers no programs by themselves.")
@click.option("--client-secret", default="", help="The secret of that id: env:NAME or file:PATH.")
@click.option("--internal", is_flag=True, help="Hide its tools until a skill names them.")
@click.option("--trusted", is_flag=True, help="Take changed tool definitions without asking.")
def add(
    name: str, program: tuple[str, ...], variables: tuple[str, ...], headers: tuple[str, ...], **given: Any
) -> None:
    """Add the MCP server NAME, or change it. PROGRAM is a command line after `--`, or the address of a server.

    \b
    handspan mcp add time -- uvx mcp-server-time
    handspan mcp add issues https://tracker.example.com/mcp --header "Authorization=env:TRACKER_AUTH"
    """
    url = program[0] if program[0].startswith(("http://", "https://")) else ""
    if url and len(program) > 1:
        raise click.UsageError(f"{url!r} is an address: no arguments can follow it.")
    remote = find_gateway()
    env = {key: full_path(value, finds_names=False) for key, value in _pairs(variables).items()}
    command, *args = [""] if url else name_command(program, env, remote)
    server = NewMcpServer(
        command=command,
        args=tuple(args),
        env=env,
        url=url,
        headers=_pairs(headers),
        oauth=NewMcpOauth(given["client_id"], given["client_secret"]),
        internal_only=given["internal"],
        trusted=given["trusted"],
    )
    if not is_json():
        say_aside(f"Connects to {name!r}, which may take a while …")
    added = ask_at(remote, lambda requests: _add(requests, name, server))
    print_done(added, _describe(added))
    if added.status != "ready":
        text = f"It is stored, and the gateway tries it again. To remove it: handspan mcp remove {name}"
        click.echo(text, err=True)
        raise SystemExit(1)


async def _add(requests: Requests, name: str, server: NewMcpServer) -> McpServerView:
    path, body = f"/api/mcp/{segment(name)}", msgspec.to_builtins(server)
    await requests.change("PUT", path, McpServerView, body)
    return await requests.change("POST", f"{path}/test", McpServerView)


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    if wrong := [name for name, sign, _ in pairs if not sign or not name]:
        raise click.UsageError(f"{wrong[0]!r} has no value: write NAME=VALUE.")
    return {name: value for name, _, value in pairs}


def _describe(server: McpServerView) -> str:
    if server.status != "ready":
        reason = f": {server.reason.rstrip('.')}" if server.reason else ""
        return f"The MCP server {server.name!r} is not ready ({server.status}){reason}."
    hidden = " They are hidden until a skill names them." if server.internal_only else ""
    waiting = f"\nBut {_describe_waiting(server)}" if server.waiting else ""
    return f"The MCP server {server.name!r} is ready. Its tools: {', '.join(server.tools) or 'none'}.{hidden}{waiting}"


@command.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Stop the MCP server NAME and forget it."""
    gone = change("DELETE", f"/api/mcp/{segment(name)}", RemovedMcpServer)
    print_done(gone, f"The MCP server {gone.name!r} is removed.")


@command.command("test")
@click.argument("name")
def test(name: str) -> None:
    """Connect to the MCP server NAME and list its tools."""
    found = change("POST", f"/api/mcp/{segment(name)}/test", McpServerView)
    print_done(found, _describe(found))
    if found.status != "ready":
        raise SystemExit(1)


@command.command("trust")
@click.argument("name")
def trust(name: str) -> None:
    """Accept the tools of the MCP server NAME as they are now."""
    trusted = change("POST", f"/api/mcp/{segment(name)}/trust", TrustedTools)
    print_done(trusted, f"Accepted: {', '.join(trusted.tools) or 'nothing was waiting'}.")


@command.command("call", cls=click.Command)
@click.argument("name")
@click.argument("tool")
@click.argument("arguments", default="{}")
@place_options
def call(name: str, tool: str, arguments: str) -> None:
    """Run TOOL of the MCP server NAME, also a hidden one, with ARGUMENTS, a JSON object ('-': from standard input).

    Output and exit codes are those of `handspan call`.
    """
    path = f"/api/mcp/{segment(name)}/call"

    async def run(requests: Requests) -> int:
        async def send(args: Json) -> bytes:
            return encode((await requests.change("POST", path, McpEnvelope, {"tool": tool, "args": args})).result)

        return await call_once(outside_name(tool, name), arguments, send)

    sys.exit(ask_gateway(run))
