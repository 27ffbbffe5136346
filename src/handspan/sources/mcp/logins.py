"""Logins at MCP servers: begun by a person or by a server that refuses us, ended at `/oauth/callback` (SPEC P6, S5).

A server is there for all owners, so its login is too: it belongs to the operator, and every call uses it.
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from handspan.core.principals import OPERATOR
from handspan.core.questions import Question, QuestionAction, Questions
from handspan.net.guard import NetGuard
from handspan.sources.mcp.login_files import LoginFailed, LoginFiles, Redirected, StoredLogin

_log = logging.getLogger(__name__)

LOGIN_SECONDS: Final = 600.0
"""How long a login may take. After that its `state` is worth nothing."""
_BEGIN_SECONDS: Final = 40.0
"""How long the servers of a login may take until they have an address for the person."""
CALLBACK: Final = "/oauth/callback"


class LoginServer(Protocol):
    """A server at which a person can log in."""

    server_name: str

    @property
    def login_url(self) -> str:
        """Its address; empty if it takes no login."""
        ...

    async def reconnect(self, seconds: float) -> None:
        """Open the link anew, and wait so long for it."""
        ...


class McpLogin:
    """A login that has begun. It has an `address` for the person, and ends once."""

    def __init__(self, server: LoginServer, owner: str) -> None:
        self.server = server
        self.owner = owner
        self.ends_at = time.monotonic() + LOGIN_SECONDS
        loop = asyncio.get_running_loop()
        self.address: asyncio.Future[str] = loop.create_future()
        self.came_back: asyncio.Future[Redirected] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        """Empty after a success, else the reason."""
        self.task: asyncio.Task[None] | None = None

    @property
    def seconds_left(self) -> float:
        """How long the person may still take."""
        return max(0.0, self.ends_at - time.monotonic())

    def end(self, reason: str) -> None:
        """Say how it ended. The first word counts."""
        if not self.ended.done():
            self.ended.set_result(reason)


class McpLogins:
    """The logins at MCP servers: those that are stored, and those that a person is at."""

    def __init__(self, folder: Path, guard: NetGuard, base_url: str) -> None:
        """`base_url`: where a browser finds this gateway, or would find it if it listened."""
        self._files = LoginFiles(folder)
        self._guard = guard
        self._base_url = base_url
        self._questions: Questions | None = None
        self._withdraw: Callable[[str], Awaitable[object]]
        self._last: dict[str, McpLogin] = {}
        self._states: dict[str, McpLogin] = {}
        self._next_question: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def open(self, questions: Questions, withdraw: Callable[[str], Awaitable[object]], base_url: str) -> None:
        """Ask people for logins, now that a browser can come back. `withdraw` ends a question by its id."""
        self._questions = questions
        self._withdraw = withdraw
        self._base_url = base_url

    async def close(self) -> None:
        """End the logins that are open."""
        tasks = [*self._asking.values(), *(one.task for one in self._last.values() if one.task)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def make_auth(self, name: str, url: str) -> Any:
        """Return the authentication of a link to this server."""
        owner = OPERATOR.owner
        sdk = await asyncio.to_thread(_import_oauth)
        return sdk.LoginAuth(url, await self._files.read(owner, name, url), partial(self._save, owner, name))

    async def forget(self, name: str) -> bool:
        """Remove tokens and registration, and end a login that is open. Return False if there was nothing.

        The person who does that is not asked to log in again.
        """
        self._next_question[name] = float("inf")
        self._cancel(name, "it was taken back")
        return await self._files.remove(OPERATOR.owner, name)

    def renew(self, name: str) -> None:
        """Allow a question about this server again: it is new, or was changed."""
        self._next_question.pop(name, None)

    def find(self, name: str) -> McpLogin | None:
        """Return the last login at this server, open or ended."""
        return self._last.get(name)

    async def begin(self, server: LoginServer, owner: str) -> McpLogin:
        """Return a login with its address, the open one if there is one. Raises `LoginFailed`."""
        name = server.server_name
        login = self._last.get(name)
        if login is None or login.ended.done() or login.owner != owner:
            self._cancel(name, "another one has begun")
            login = self._last[name] = McpLogin(server, owner)
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
        for key in [key for key, one in self._states.items() if one is login]:
            del self._states[key]

    # One login, in its own task.

    async def _run(self, login: McpLogin) -> None:
        name = login.server.server_name
        try:
            async with asyncio.timeout(LOGIN_SECONDS):
                stored = await self._log_in(login)
                await self._save(login.owner, name, stored)
                await login.server.reconnect(_BEGIN_SECONDS)
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
        async def show(address: str, state: str) -> Redirected:
            self._states[_key(state)] = login
            login.address.set_result(address)
            came_back = await login.came_back
            if came_back.error or not came_back.code:
                raise LoginFailed(f"the login page says {came_back.error[:60] or 'nothing'!r}")
            return came_back

        server, owner = login.server, login.owner
        name, url = server.server_name, server.login_url
        if not url:
            raise LoginFailed("only a server at an address, without an Authorization header, takes a login")
        sdk = await asyncio.to_thread(_import_oauth)
        known = await self._files.read(owner, name, url)
        redirect = f"{self._base_url}{CALLBACK}"
        found: StoredLogin = await sdk.log_in(url, self._guard, redirect, known, show, partial(self._save, owner, name))
        return found

    async def _save(self, owner: str, name: str, login: StoredLogin | None) -> None:
        if login is None:
            await self._files.remove(owner, name)
        else:
            await self._files.write(owner, name, login)

    async def _forget_registration(self, login: McpLogin) -> None:
        known = await self._files.read(login.owner, login.server.server_name, login.server.login_url)
        if known is not None and known.tokens is None:
            await self._files.remove(login.owner, login.server.server_name)

    # The question to the operator.

    def ask(self, server: LoginServer) -> None:
        """Ask the operator to log in at this server, unless that was done lately or refused."""
        name, now = server.server_name, time.monotonic()
        if self._questions is None or name in self._asking or now < self._next_question.get(name, 0.0):
            return
        self._next_question[name] = now + LOGIN_SECONDS
        task = self._asking[name] = asyncio.create_task(self._ask(self._questions, server))
        task.add_done_callback(lambda _: self._asking.pop(name, None))

    async def _ask(self, questions: Questions, server: LoginServer) -> None:
        name = server.server_name
        try:
            login = await self.begin(server, OPERATOR.owner)
        except LoginFailed as error:
            _log.warning("MCP server %s wants a login, but it can't be begun: %s", name, error)
            return
        question = _question(login)
        asking = asyncio.ensure_future(questions.ask(question))
        try:
            await asyncio.wait((asking, login.ended), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await self._withdraw(question.id)
                self._next_question.pop(name, None)
            answer = await asking
        finally:
            asking.cancel()
        if answer is not None and answer.decision in ("deny", "deny_forever") and not login.ended.done():
            self._next_question[name] = float("inf")
            self._cancel(name, "it was refused")


def _import_oauth() -> Any:
    from handspan.sources.mcp import oauth  # noqa: PLC0415 - a heavy library, loaded with the first server

    return oauth


def _question(login: McpLogin) -> Question:
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
    )


def _key(state: str) -> str:
    """Return the key of a state. It is a hash, so that the time of a look-up says nothing about a state."""
    return hashlib.sha256(state.encode(errors="replace")).hexdigest()
