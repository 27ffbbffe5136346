"""Walks through a case of the gateway: the client's half is a raw socket, the gateway is the real one."""

import asyncio
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from handspan.core.calls import new_call_id
from handspan.core.principals import OPERATOR, Principal
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.results import Failure, Success, ToolResult
from handspan.testing import RunningGateway
from tests.vectors.cases import Case, FramePatterns, lean
from tests.waiting import until

SECONDS = 60.0


class GatewayPlayer:
    """A client that says what the case says, and whoever calls its tools."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._gateway = gateway
        self._matching = FramePatterns()
        self._opened: dict[str, Any] = {}
        self._socket: ClientConnection | None = None
        self._tokens: dict[str, str] = {}
        self._session = ""
        self._refusal = 0
        self._has_begun = False
        self._waiting: list[dict[str, Any]] = []
        self._calls: dict[str, tuple[str, asyncio.Task[ToolResult]]] = {}
        self._questions: dict[str, asyncio.Task[Answer]] = {}

    async def walk(self, case: Case) -> None:
        """Do every step; an AssertionError says which one can't be done."""
        try:
            for number, step in enumerate(case.steps):
                await self._step(step, f"step {number}: {step}")
        finally:
            await self._leave()

    async def _step(self, step: dict[str, Any], where: str) -> None:
        match step:
            case {"open": dict(opened)}:
                self._opened = opened
                await self._open()
            case {"refused": status}:
                assert self._refusal == status, where
            case {"client": dict(frame)}:
                self._has_begun = self._has_begun or frame["type"] in ("connect", "message", "register_tools")
                await self._live.send(msgspec.json.encode(self._matching.filled(frame)), text=True)
            case {"text": str(text)}:
                await self._live.send(text)
            case {"expect": pattern}:
                wants_start = isinstance(pattern, dict) and pattern["type"] == "session_start"
                frame = lean(await self._heard(wants_start), "server")
                assert self._matching.matches(lean(pattern, "server"), frame), f"{where}: got {frame}"
            case {"until": pattern}:
                while not self._matching.matches(lean(pattern, "server"), lean(await self._heard(False), "server")):
                    pass
            case {"closed": code}:
                assert await self._closed() == code, where
            case {"link": "drop"}:
                self._live.transport.abort()
                await self._live.wait_closed()
            case {"goodbye": int(code)}:
                await self._live.close(code)
            case {"link": "up"}:
                await self._open()
            case {"call": {"as": str(name), "tool": str(tool), "args": dict(args)}}:
                call_id = new_call_id()
                calling = asyncio.create_task(self._gateway.call_as(call_id, tool, args, self._session))
                self._calls[name] = (call_id, calling)
                await self._begun(call_id, calling)
            case {"ends": {"as": str(name)}}:
                await self._ends(name, step["ends"], where)
            case {"login": {"as": str(name), "says": str(decision)}}:
                await self._log_in(self._calls[name][0], decision)
            case {"abort": str(name)}:
                self._calls[name][1].cancel()
            case {"ask": dict(asked)}:
                self._ask(asked)
            case {"answered": {"id": str(question_id), **wanted}}:
                async with asyncio.timeout(SECONDS):
                    answer = await self._questions[question_id]
                assert {"decision": answer.decision, "value": answer.value} == {"value": None, **wanted}, where
            case {"listed": dict(tools)}:
                await self._listed(tools, where)
            case {"grace": "over"}:
                pass  # it is short here, and `ends` waits
            case {"quiet": True}:
                assert await self._nothing_more() == [], where
            case _:
                raise AssertionError(f"{where}: no such step")

    # The socket.

    async def _open(self) -> None:
        query = "&".join(f"{key}={value}" for key, value in self._opened.get("query", {}).items())
        token = await self._token(self._opened.get("token", "chat"))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._waiting, self._refusal, self._has_begun = [], 0, False
        try:
            self._socket = await connect(
                f"{self._gateway.ws_url}?{query}", additional_headers=headers, proxy=None, compression=None
            )
        except InvalidStatus as error:
            self._refusal = error.response.status_code
            return
        first = await self._received()
        self._waiting = [first]
        self._session = first.get("session_id", "")

    async def _token(self, named: str) -> str:
        """Return the token of this name. A client that comes back comes with the token that it had (ws.md 6.1)."""
        if named not in self._tokens:
            self._tokens[named] = await self._new_token(named)
        return self._tokens[named]

    async def _new_token(self, named: str) -> str:
        auth = self._gateway.gateway.parts.auth
        match named:
            case "chat" | "device":
                return await auth.issue(OPERATOR.owner, (named,))
            case "admin":
                return await auth.issue(OPERATOR.owner, ("chat", "admin"))
            case "other":
                return await auth.issue("somebody", ("chat",))
            case "wrong":
                return "wrong"
        return ""

    async def _heard(self, wants_start: bool) -> dict[str, Any]:
        while True:
            frame = self._waiting.pop(0) if self._waiting else await self._received()
            if wants_start or frame["type"] != "session_start":
                return frame

    async def _received(self) -> dict[str, Any]:
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = msgspec.json.decode(await self._live.recv())
        return frame

    async def _closed(self) -> int | None:
        try:
            frame = await self._received()
        except ConnectionClosed:
            return self._live.close_code
        raise AssertionError(f"not closed: {frame}")

    async def _nothing_more(self) -> list[dict[str, Any]]:
        """What comes before the answer to a question that the gateway answers at once."""
        frames = [frame for frame in self._waiting if frame["type"] != "session_start"]
        self._waiting = []
        if not self._has_begun:
            async with asyncio.timeout(SECONDS):
                await (await self._live.ping())
            return frames
        await self._live.send('{"type": "get_registered_tools"}')
        while (frame := await self._received())["type"] != "registered_tools":
            frames.append(frame)
        return frames

    @property
    def _live(self) -> ClientConnection:
        assert self._socket is not None, "the link is down"
        return self._socket

    # Calls.

    async def _begun(self, call_id: str, calling: asyncio.Task[ToolResult]) -> None:
        """Wait until the tool was reached, or the call is over."""
        async with asyncio.timeout(SECONDS):
            while not calling.done() and await self._gateway.gateway.parts.store.ledger.find(call_id) is None:
                await asyncio.sleep(0.001)

    async def _ends(self, name: str, wanted: dict[str, Any], where: str) -> None:
        call_id, task = self._calls[name]
        await asyncio.wait((task,), timeout=SECONDS)
        result: Any
        if task.cancelled():
            record = await self._gateway.gateway.parts.store.ledger.find(call_id)
            assert record is not None, where
            result = record.result
        else:
            result = await task
        match result:
            case Success(value=value):
                assert self._matching.matches(wanted.get("result", object()), value), f"{where}: {value}"
            case Failure(code=code, message=message):
                assert code == wanted.get("code"), f"{where}: {code}: {message}"
            case _:
                raise AssertionError(f"{where}: {result}")

    async def _log_in(self, call_id: str, decision: str) -> None:
        """Begin the login that this call waits for, or answer whether it is done."""
        questions, owner = self._gateway.gateway.parts.questions, OPERATOR.owner

        async def asked() -> list[str]:
            return [one.id for one in await questions.open_for(owner=owner) if one.call_id == call_id]

        await until(asked)
        (question_id,) = await asked()
        if decision == "start":
            assert await questions.start_login(question_id, person(Principal(owner, ("admin",))))
        else:
            answer = Answer("allow" if decision == "allow" else "deny")
            assert await questions.answer(question_id, answer, person(Principal(owner, ("admin",))))

    def _ask(self, asked: dict[str, Any]) -> None:
        """Ask the person of this session, by no call."""
        fields = {"call_id": "", "tool": "paint", "arguments": {}, "fingerprint": "f", "expires_in": 60.0, **asked}
        fields |= {"owner": OPERATOR.owner, "session": self._session if asked.get("session", True) else ""}
        question = msgspec.convert(fields, Question)
        self._questions[question.id] = asyncio.create_task(self._gateway.gateway.parts.questions.ask(question))

    async def _listed(self, tools: dict[str, bool], where: str) -> None:
        app = self._gateway.gateway.parts.app
        agent = await app.find_agent()

        def listed() -> dict[str, bool]:
            box = app.caller(agent, OPERATOR, self._session).box
            return {name: box.find(name) is not None for name in tools}

        async with asyncio.timeout(SECONDS):
            while listed() != tools:
                await asyncio.sleep(0.001)
        assert listed() == tools, where

    async def _leave(self) -> None:
        left = [*(task for _, task in self._calls.values()), *self._questions.values()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()
