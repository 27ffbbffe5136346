"""The question to the operator whether to log in at an MCP server (SPEC P6)."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit

from handspan.core.questions import Decision, Question, QuestionAction, Questions
from handspan.sources.mcp.logins.login import LOGIN_SECONDS, LoginFailed, LoginServer, McpLogin

_log = logging.getLogger(__name__)

WithdrawQuestion: TypeAlias = Callable[[str, Decision], Awaitable[object]]
"""Ends the question of this id: the person has logged in (`allow`), or can't any more (`deny`)."""


class LoginQuestions:
    """Asks for logins: about one server at most every ten minutes, and not again after a no."""

    def __init__(
        self,
        questions: Questions,
        withdraw: WithdrawQuestion,
        begin: Callable[[LoginServer], Awaitable[McpLogin]],
        cancel: Callable[[str, str], None],
    ) -> None:
        """`begin` begins a login. `cancel` ends the login at the server of this name, for this reason."""
        self._questions = questions
        self._withdraw = withdraw
        self._begin = begin
        self._cancel = cancel
        self._next: dict[str, float] = {}
        """When the next question about each server is allowed; infinite: never."""
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def close(self) -> None:
        """Withdraw the questions that are open."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def allow(self, name: str) -> None:
        """Allow the next question about this server at once."""
        self._next.pop(name, None)

    def silence(self, name: str) -> None:
        """Ask no more about this server, until `allow`."""
        self._next[name] = float("inf")

    def ask(self, server: LoginServer) -> None:
        """Ask for a login at this server, unless a question is open, was asked lately, or is not wanted."""
        name, now = server.server_name, time.monotonic()
        if name in self._asking or now < self._next.get(name, 0.0):
            return
        self._next[name] = now + LOGIN_SECONDS
        task = self._asking[name] = asyncio.create_task(self._ask(server))
        task.add_done_callback(lambda _: self._asking.pop(name, None))

    async def _ask(self, server: LoginServer) -> None:
        name = server.server_name
        try:
            login = await self._begin(server)
        except LoginFailed as error:
            _log.warning("MCP server %s wants a login, but it can't be begun: %s", name, error)
            return
        question = login_question(login)
        asking = asyncio.ensure_future(self._questions.ask(question))
        try:
            await asyncio.wait((asking, login.ended), return_when=asyncio.FIRST_COMPLETED)
            if login.ended.done():
                if self._next[name] != float("inf"):
                    self.allow(name)
            elif (answer := asking.result()) is not None and answer.decision in ("deny", "deny_forever"):
                self.silence(name)
                self._cancel(name, "it was refused")
        finally:
            if not asking.done():
                is_done = login.ended.done() and not login.ended.result()
                await self._withdraw(question.id, "allow" if is_done else "deny")
            asking.cancel()


def login_question(login: McpLogin) -> Question:
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
