"""`handspan mcp login` and `logout`: the login of a person at an MCP server (SPEC P6)."""

import asyncio
import sys
from typing import Final

import click

from handspan.cli.door import RequestCommand, ask_gateway, change
from handspan.cli.render import print_done
from handspan.cli.requests import RemoteRefused, Requests, segment
from handspan.core.threads import CallThreads
from handspan.wire.rest.mcp import McpLoginPage, McpLoginState, McpLogout

_HOW_TO_LOG_IN: Final = """Open this address in a browser and log in, within {minutes:.0f} minutes:

{address}

If the browser ends at an address that does not load, paste that address here and press Enter."""


@click.command("login", cls=RequestCommand)
@click.argument("name")
def login(name: str) -> None:
    """Log in at the MCP server NAME: print an address for a browser, and wait until the person has logged in there.

    The login belongs to the operator, and the calls of all owners use it. The browser may run on another computer: it
    ends at an address that does not load there. Paste that address here. With --json, the first document has the
    address, and the second one says how it ended.
    """
    ended = ask_gateway(lambda requests: _log_in(requests, name))
    text = f"You are logged in at {name!r}." if ended.status == "done" else f"No login at {name!r}: {ended.reason}."
    print_done(ended, text)
    if ended.status != "done":
        raise SystemExit(1)


async def _log_in(requests: Requests, name: str) -> McpLoginState:
    """Begin a login, show its page, and wait for its end. A pasted address is passed on."""
    path, threads = f"/api/mcp/{segment(name)}/login", CallThreads()
    page = await requests.change("POST", path, McpLoginPage)
    print_done(page, _HOW_TO_LOG_IN.format(minutes=page.expires_in / 60, address=page.address))
    pasting = asyncio.ensure_future(threads.run(sys.stdin.readline))
    try:
        while True:
            state = await requests.change("POST", f"{path}/wait", McpLoginState)
            if state.status != "open":
                return state
            if pasting.done() and (line := pasting.result().strip()):
                pasting = asyncio.ensure_future(threads.run(sys.stdin.readline))
                try:
                    await requests.change("POST", f"{path}/return", McpLoginState, {"address": line})
                except RemoteRefused as error:  # a wrong address: the person may paste again
                    click.echo(str(error), err=True)
    finally:
        pasting.cancel()
        threads.close()


@click.command("logout", cls=RequestCommand)
@click.argument("name")
def logout(name: str) -> None:
    """Remove the tokens of the MCP server NAME and our registration there. Its tools go until the next login."""
    gone = change("POST", f"/api/mcp/{segment(name)}/logout", McpLogout)
    text = f"The login at {name!r} is removed." if gone.had_login else f"There was no login at {name!r}."
    print_done(gone, text)
