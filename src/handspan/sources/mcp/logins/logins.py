"""Logins at MCP servers: begun by a person or by a server that refuses us, ended at `/oauth/callback` (SPEC P6, S5).

A server is there for all owners, and so is its login: the login belongs to the operator, and every call uses it.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlsplit

from handspan.config.tool_settings import McpOauth
from handspan.core.errors import ToolError
from handspan.core.late_imports import LATE_IMPORTS
from handspan.core.principals import OPERATOR
from handspan.core.questions import Decision, Question, QuestionAction, Questions
from handspan.core.tasks import outlast
from handspan.net.guard import NetGuard
from handspan.sources.mcp.logins.files import LoginFiles, StoredLogin
from handspan.sources.mcp.logins.login import LOGIN_SECONDS, LoginFailed, McpLogin, Redirected, ScopeMissing

if TYPE_CHECKING:
    from handspan.sources.mcp.connection import McpConnection

_BEGIN_SECONDS: Final = 40.0
"""How long the servers of a login may take until they have an address for the person."""
_TOOLS_SECONDS: Final = 10.0
"""How long a person who has logged in waits for the tools."""
_OWNER: Final = OPERATOR.owner
"""The owner of all logins that are stored."""
CALLBACK: Final = "/oauth/callback"
_log = logging.getLogger(__name__)

WithdrawQuestion: TypeAlias = Callable[[str, Decision], Awaitable[object]]
"""Ends the question of this id: the person has logged in (`allow`), or can't any more (`deny`)."""


class McpLogins:
    """The logins at MCP servers: those that are stored, and those that have begun.

    The operator is asked for a login at one server at most every ten minutes, and not again after a no.
    """

    def __init__(self, folder: Path, guard: NetGuard, base_url: str) -> None:
        """`base_url`: where a browser finds this gateway, or would find it if it listened."""
        self._files = LoginFiles(folder, _OWNER)
        self._guard = guard
        self._base_url = base_url
        self._last: dict[str, McpLogin] = {}
        """The last login at each server, open or ended."""
        self._states: dict[str, McpLogin] = {}
        """The open logins, by the keys of their states (`_key`)."""
        self._people: tuple[Questions, WithdrawQuestion] | None = None
        """Asks people, and ends questions; None: no person can be asked yet."""
        self._next_question: dict[str, float] = {}
        """When the next question about each server is allowed; infinite: never."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._missing: dict[str, str] = {}
        """Scopes that servers want and their logins lack; the next login asks for them, too."""
        self._in_use: dict[str, Any] = {}
        """The authentication of the link to each server."""

    def open(self, questions: Questions, withdraw: WithdrawQuestion, base_url: str) -> None:
        """Ask people for logins, now that a browser can come back to this address."""
        self._people = questions, withdraw
        self._base_url = base_url

    async def close(self) -> None:
        """Withdraw the questions and end the logins that are open. From now on no person is asked."""
        self._people = None
        for tasks in list(self._asking.values()), [one.task for one in self._last.values() if one.task]:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def ask(self, server: "McpConnection") -> None:
        """Ask the operator to log in, unless a question is open, was asked lately, is not wanted, or can't be asked."""
        name, now = server.server_name, time.monotonic()
        if self._people is None or name in self._asking or now < self._next_question.get(name, 0.0):
            return
        self._next_question[name] = now + LOGIN_SECONDS
        task = self._asking[name] = asyncio.create_task(self._ask(server, *self._people))
        task.add_done_callback(lambda _: self._asking.pop(name, None))

    async def _ask(self, server: "McpConnection", questions: Questions, withdraw: WithdrawQuestion) -> None:
        """Ask the operator, until the login has ended or is refused. After a refusal, it is not asked again (`inf`)."""
        name = server.server_name
        try:
            login = await self.begin(server, _OWNER)
        except LoginFailed as error:
            _log.warning("MCP server %s wants a login, but it can't be begun: %s", name, error)
            return
        question = _login_question(login)
        asking = asyncio.ensure_future(questions.ask(question))
        try:
            await asyncio.wait((asking, login.ended), return_when=asyncio.FIRST_COMPLETED)
            if login.ended.done():
                if self._next_question.get(name) != inf:
                    self._next_question.pop(name, None)
            elif (answer := asking.result()) is not None and answer.decision in ("deny", "deny_forever"):
                self._next_question[name] = inf
                self._cancel(name, "it was refused")
        finally:
            try:
                if not asking.done():
                    is_done = login.ended.done() and not login.ended.result()
                    await withdraw(question.id, "allow" if is_done else "deny")
            finally:  # also when this task is cancelled meanwhile: nothing may ask when the store is closed
                asking.cancel()
                await outlast(asking)
                if not asking.cancelled():
                    asking.exception()  # marks it as read

    async def make_auth(self, name: str, url: str, client: McpOauth) -> Any:
        """Return the authentication of a link to this server, where we are known as this client."""
        sdk = await asyncio.to_thread(_import_oauth)
        login = await self._files.read(name, url, client)
        self._in_use[name] = sdk.LoginAuth(url, login, partial(self._files.save, name, client))
        return self._in_use[name]

    def add_scope(self, name: str, scope: str) -> None:
        """Let the next login at this server ask for this scope, too."""
        self._missing[name] = " ".join(dict.fromkeys(f"{self._missing.get(name, '')} {scope}".split()))

    async def widen(self, server: "McpConnection", missing: ScopeMissing) -> None:
        """Let the operator log in again with a scope that a call needs, while the call waits.

        Raises `ToolError` when that does not succeed. Only a call of the operator waits.
        """
        name, ctx = server.server_name, missing.ctx
        self.add_scope(name, missing.scope)
        if ctx.who.owner != _OWNER:
            self.ask(server)
            raise missing
        try:
            login = await self.begin(server, _OWNER)
        except LoginFailed as error:
            raise ToolError("permission_denied", f"{missing.message} It can't be begun: {error}.") from None
        reason = await self._ask_for_call(login, missing)
        if reason:
            raise ToolError("permission_denied", f"{missing.message} That has failed: {reason}.")

    async def _ask_for_call(self, login: McpLogin, missing: ScopeMissing) -> str:
        """Ask the person of the call to log in. Return why the login failed; empty after a success."""
        about = _login_question(login)
        subject = f"{about.subject} A call needs the scope {missing.scope!r}."
        asking = asyncio.ensure_future(
            missing.ctx.ask("login", subject, action=about.action, expires_in=login.seconds_left, for_admin=True)
        )
        try:
            await asyncio.wait((asking, login.ended), return_when=asyncio.FIRST_COMPLETED)
            if not login.ended.done() and asking.result().decision != "allow":
                self._cancel(login.server.server_name, "the person did not log in")
            return await asyncio.shield(login.ended)
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def forget(self, name: str) -> bool:
        """Remove tokens and registration, and end a login that is open. Return False if there was nothing.

        The person who does that is not asked to log in again.
        """
        self._next_question[name] = inf
        self._cancel(name, "it was taken back")
        return await self._files.remove(name)

    def renew(self, name: str) -> None:
        """End an open login, and allow a question again: this server is new, or was changed."""
        self._cancel(name, "its server was changed")
        self._next_question.pop(name, None)

    def find(self, name: str) -> McpLogin | None:
        """Return the last login at this server, open or ended."""
        return self._last.get(name)

    async def begin(self, server: "McpConnection", owner: str) -> McpLogin:
        """Return a login with its address, the open one if there is one. Raises `LoginFailed`."""
        name = server.server_name
        login, scope = self._last.get(name), self._missing.get(name, "")
        if login is None or login.ended.done() or (login.owner, login.scope) != (owner, scope):
            self._cancel(name, "another one has begun")
            login = self._last[name] = McpLogin(server, owner, scope)
            login.task = asyncio.create_task(self._run(login), name=f"login at {name}")
        begun = (login.address, login.ended)
        await asyncio.wait(begun, timeout=_BEGIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if login.ended.done():
            raise LoginFailed(login.ended.result() or "it has ended already")
        if not login.address.done():
            self._cancel(name, "its server does not answer in time")
            raise LoginFailed(login.ended.result())
        return login

    def take(self, came_back: Redirected, *, owner: str = "", server: str = "") -> McpLogin | None:
        """Return the login that began with this `state`, and let it go on; None if the state is not valid.

        A state is valid once, for ten minutes. `owner` and `server`, if they are given, have to be those of the login.
        """
        key = _key(came_back.state)
        login = self._states.get(key)
        if login is None or owner not in ("", login.owner) or server not in ("", login.server.server_name):
            return None
        del self._states[key]
        if login.seconds_left <= 0 or login.came_back.done():
            return None
        login.came_back.set_result(came_back)
        return login

    def _cancel(self, name: str, reason: str) -> None:
        login = self._last.get(name)
        if login is not None and login.task is not None:
            login.end(reason)
            login.task.cancel()
            self._drop_state(login)

    def _drop_state(self, login: McpLogin) -> None:
        self._states = {key: one for key, one in self._states.items() if one is not login}

    # One login, in its own task.

    async def _run(self, login: McpLogin) -> None:
        """Run a login to its end, and use it for the server's link. The outcome is in `login.ended`."""
        name = login.server.server_name
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                stored = await self._log_in(login)
                await self._files.save(name, login.server.opener.login_client, stored)
                self._missing.pop(name, None)
                auth = self._in_use.get(name)
                if login.scope and auth is not None and not auth.is_refused:  # the link is open, and calls run on it
                    auth.take(stored)
                else:
                    await login.server.reconnect(_TOOLS_SECONDS)
            login.end("")
        except TimeoutError:
            login.end(f"no person has logged in within {LOGIN_SECONDS / 60:.0f} minutes")
        except Exception as error:  # answers of other servers: whatever they say, the gateway goes on
            if login.came_back.done():  # our registration may be the cause
                await self._forget_registration(login)
            login.end(str(error).rstrip("."))
        finally:
            login.end("it was cancelled")
            self._drop_state(login)

    async def _log_in(self, login: McpLogin) -> StoredLogin:
        """Return the login, once the person has come back from its page. Raises `LoginFailed`."""

        async def show(address: str, state: str) -> Redirected:
            self._states[_key(state)] = login
            login.address.set_result(address)
            came_back = await login.came_back
            if came_back.error or not came_back.code:
                raise LoginFailed(f"the login page says {came_back.error[:60] or 'nothing'!r}")
            return came_back

        name, opener = login.server.server_name, login.server.opener
        url = opener.login_url
        if not url:
            raise LoginFailed("only a server at an address, without an Authorization header, takes a login")
        sdk = await asyncio.to_thread(_import_oauth)
        client = opener.login_client
        known, save = await self._files.read(name, url, client), partial(self._files.save, name, client)
        redirect = f"{self._base_url}{CALLBACK}"
        flow = sdk.LoginFlow(url, redirect, client, known, show=show, save=save, scope=login.scope)
        found: StoredLogin = await flow.run(self._guard)
        return found

    async def _forget_registration(self, login: McpLogin) -> None:
        """Remove the stored registration of our client at the server, so that the next login registers again.

        A login with tokens stays: its registration has worked.
        """
        name = login.server.server_name
        known = await self._files.read(name, login.server.opener.login_url, McpOauth())
        if known is not None and known.tokens is None:
            await self._files.remove(name)


def _login_question(login: McpLogin) -> Question:
    """Return the question whether to log in."""
    name, address = login.server.server_name, login.address.result()
    return Question(
        id=f"login-{name}-{secrets.token_hex(8)}",
        kind="login",
        call_id="",
        tool=f"mcp({name})",
        arguments={},
        subject=f"The MCP server {name!r} needs a login at {urlsplit(address).hostname}.",
        owner=login.owner,
        session="",
        fingerprint="",
        expires_in=login.seconds_left,
        action=QuestionAction(
            url=address,
            hint=f"Open the address in a browser and log in. On another computer: handspan mcp login {name}",
        ),
        for_admin=True,
    )


def _import_oauth() -> Any:
    with LATE_IMPORTS:
        from handspan.sources.mcp.logins import oauth  # noqa: PLC0415 - a heavy library, loaded with the first server

    return oauth


def _key(state: str) -> str:
    """Return the key of a state. It is a hash, so that the time of a look-up says nothing about a state."""
    return hashlib.sha256(state.encode(errors="replace")).hexdigest()
