"""Logins at MCP servers (SPEC P6). `/oauth/callback` is open: it trusts only the `state` that it gets (SPEC S5)."""

import asyncio
from typing import Final
from urllib.parse import parse_qs, urlsplit

from handspan.gateway.http.message import AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.rest.errors import not_found_refusal
from handspan.gateway.rest.mcp import find_server
from handspan.gateway.rest.pairing import render_page, respond_html
from handspan.gateway.rest.route import HTML, Family, RestRequest
from handspan.sources.mcp.logins.login import LoginFailed, McpLogin, Redirected
from handspan.wire.rest.mcp import McpLoginPage, McpLoginReturn, McpLoginState, McpLogout, OauthQuery

family: Final = Family("mcp")
_WAIT_SECONDS: Final = 1.0
"""How long a program waits for news of a login, before it may bring the address by hand."""
_END_SECONDS: Final = 50.0
"""How long a browser waits for the end of its login."""

_DONE: Final = render_page(title="You are logged in", text="The tools are there now. You can close this page.")
_FAILED: Final = render_page(
    title="The login did not succeed",
    text="Nothing was changed. <code>handspan mcp login NAME</code> begins a new one and says what is wrong.",
)
_UNKNOWN: Final = render_page(
    title="This login does not work any more",
    text="A login works once, for ten minutes. <code>handspan mcp login NAME</code> begins a new one.",
)
_NOT_YET: Final = render_page(title="Not yet", text="This address is opened by a person, not ahead of one.")


@family.get("/oauth/callback", "open", media_type=HTML, also={403: AsgiResponse, 502: AsgiResponse, 503: AsgiResponse})
async def oauth_callback(request: RestRequest, query: OauthQuery) -> AsgiResponse:
    """The end of a login at an MCP server. The page shows nothing of what came in, and leads nowhere."""
    if request.asgi.method == "HEAD" or "sec-purpose" in request.asgi.headers:
        return respond_html(_NOT_YET, 503)
    login = request.app.mcp.logins.take(Redirected(query.state, query.code, query.iss, query.error))
    if login is None:
        return respond_html(_UNKNOWN, 403)
    state = await _state(login, _END_SECONDS)
    return respond_html(_DONE) if state.status == "done" else respond_html(_FAILED, 502)


@family.post("/api/mcp/{name}/login", "admin", also_refuses=(409,))
async def begin_login(request: RestRequest, name: str) -> McpLoginPage:
    """Begin a login at this server, or go on with the open one. A person opens the address in a browser."""
    try:
        login = await request.app.mcp.logins.begin(find_server(request, name), request.owner)
    except LoginFailed as error:
        raise Refusal(409, "login", f"No login at the MCP server {name!r}: {error}.") from None
    return McpLoginPage(name, login.address.result(), login.seconds_left)


@family.post("/api/mcp/{name}/login/wait", "admin")
async def wait_for_login(request: RestRequest, name: str) -> McpLoginState:
    """The state of the last login at this server, when it ends or after a few seconds."""
    return await _state(_find_login(request, name), _WAIT_SECONDS)


@family.post("/api/mcp/{name}/login/return", "admin", also_refuses=(409,))
async def return_login(request: RestRequest, name: str, body: McpLoginReturn) -> McpLoginState:
    """The end of a login whose browser can't reach the gateway: it gets the address where the browser ended."""
    query = parse_qs(urlsplit(body.address.strip()).query)
    given = {key: query[key][0] for key in ("code", "iss", "error") if len(query.get(key, ())) == 1}
    came_back = Redirected(query.get("state", [""])[0], **given)
    _find_login(request, name)
    login = request.app.mcp.logins.take(came_back, owner=request.owner, server=name)
    if login is None:
        raise Refusal(409, "login", "This address belongs to no open login: it works once, for ten minutes.")
    return await _state(login, _END_SECONDS)


@family.post("/api/mcp/{name}/logout", "admin")
async def log_out(request: RestRequest, name: str) -> McpLogout:
    """Remove the tokens and our registration of this server."""
    server = find_server(request, name)
    had_login = await request.app.mcp.logins.forget(name)
    if had_login:
        await server.reconnect(server.server.start_timeout)
        request.publish("tools")
    return McpLogout(name, had_login)


def _find_login(request: RestRequest, name: str) -> McpLogin:
    find_server(request, name)
    login = request.app.mcp.logins.find(name)
    if login is None or login.owner != request.owner:
        raise not_found_refusal("login at the MCP server", name)
    return login


async def _state(login: McpLogin, seconds: float) -> McpLoginState:
    """Return the state of a login, when it ends or after this time."""
    await asyncio.wait((login.ended,), timeout=seconds)
    name = login.server.server_name
    if not login.ended.done():
        return McpLoginState(name, "open")
    reason = login.ended.result()
    return McpLoginState(name, "failed" if reason else "done", reason)
