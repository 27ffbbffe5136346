"""`handspan mcp login` and `logout`: the login of a person at an MCP server (SPEC P6)."""

import asyncio
import sys
from collections.abc import Callable

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import json_option
from handspan.cli.render import print_done, print_json
from handspan.cli.requests import RemoteRefused, Requests, segment
from handspan.client.threads import CallThreads
from handspan.wire.rest.mcp import McpLoginPage, McpLoginState, McpLogout


@click.command("login")
@click.argument("name")
@json_option
@place_options
def login(name: str, as_json: bool) -> None:
    """Log in at the MCP server NAME: print an address for a browser, and wait until the person has logged in there.

    The login belongs to the operator, and the calls of all owners use it. The browser may run on another computer: it
    ends at an address that does not load there. Paste that address here. With --json, the first document has the
    address, and the second one says how it ended.
    """
    show = print_json if as_json else _show
    ended = ask_gateway(lambda requests: _log_in(requests, name, show), says=not as_json)
    text = f"You are logged in at {name!r}." if ended.status == "done" else f"No login at {name!r}: {ended.reason}."
    print_done(ended, text, as_json=as_json)
    if ended.status != "done":
        raise SystemExit(1)


def _show(page: McpLoginPage) -> None:
    click.echo(f"Open this address in a browser and log in, within {page.expires_in / 60:.0f} minutes:\n")
    click.echo(f"{page.address}\n")
    click.echo("If the browser ends at an address that does not load, paste that address here and press Enter.")


async def _log_in(requests: Requests, name: str, show: Callable[[McpLoginPage], None]) -> McpLoginState:
    """Begin a login, show its page, and wait for its end. A pasted address is passed on."""
    path, threads = f"/api/mcp/{segment(name)}/login", CallThreads()
    show(await requests.change("POST", path, McpLoginPage))
    pasting = asyncio.ensure_future(threads.run(sys.stdin.readline))
    try:
        while True:
            state = await requests.change("POST", f"{path}/wait", McpLoginState)
            if state.status != "open":
                return state
            if pasting.done() and (line := pasting.result().strip()):
                pasting = asyncio.ensure_future(threads.run(sys.stdin.readline))
                await _send_address(requests, path, line)
    finally:
        pasting.cancel()
        threads.close()


async def _send_address(requests: Requests, path: str, address: str) -> None:
    """Send the pasted address to the gateway. The refusal of a wrong one is printed: the person may paste again."""
    try:
        await requests.change("POST", f"{path}/return", McpLoginState, {"address": address})
    except RemoteRefused as error:
        click.echo(str(error), err=True)


@click.command("logout")
@click.argument("name")
@json_option
@place_options
def logout(name: str, as_json: bool) -> None:
    """Remove the tokens of the MCP server NAME and our registration there. Its tools go until the next login."""
    path = f"/api/mcp/{segment(name)}/logout"
    gone = ask_gateway(lambda requests: requests.change("POST", path, McpLogout), says=not as_json)
    text = f"The login at {name!r} is removed." if gone.had_login else f"There was no login at {name!r}."
    print_done(gone, text, as_json=as_json)
