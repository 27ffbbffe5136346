"""Walks through a case of the graph API: the runner is the client, the gateway is the real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect

from handspan.core.principals import OPERATOR
from handspan.core.schema import Validator
from handspan.testing import RunningGateway
from tests.vectors.cases import PROTOCOL, Case
from tests.vectors.graph_patterns import GraphPatterns

SECONDS = 60.0
METHODS = ("get", "post", "put", "delete", "patch", "options")
DONE = {"event": "updates", "data": {"status": "done"}}


class GraphPlayer:
    """A client that asks what the case says."""

    def __init__(self, gateway: RunningGateway, http: httpx2.AsyncClient) -> None:
        self._gateway = gateway
        self._http = http
        self._patterns = GraphPatterns()
        self._tokens: dict[str, str] = {}
        self._socket: ClientConnection | None = None
        self._asked_calls: list[str] = []

    async def walk(self, case: Case) -> None:
        """Do every step; an AssertionError says which one can't be done."""
        if case.tools:
            await self._step({"post": "/v1/graph/setup", "body": {"tools": case.tools}}, "tools of the case")
        try:
            for number, step in enumerate(case.steps):
                await self._step(step, f"step {number}: {step}")
        finally:
            if self._socket is not None:
                await self._socket.close()
        once = sorted(set(self._asked_calls))
        assert sorted(self._asked_calls) == once, "graph.md 4.5: an id stands in one remote_tool_call, and never again"

    async def _step(self, step: dict[str, Any], where: str) -> None:
        if step.get("restart"):
            await self._gateway.restart()
        elif "socket" in step:
            await self._over_socket(step, where)
        elif step.get("until"):
            async with asyncio.timeout(SECONDS):
                while wrong := await self._wrong(step):
                    assert not wrong[0].startswith("status 5"), wrong
                    await asyncio.sleep(0.01)
        else:
            wrong = await self._wrong(step)
            assert not wrong, f"{where}:\n" + "\n".join(wrong)

    async def _wrong(self, step: dict[str, Any]) -> list[str]:
        """What is not as the step says."""
        answer = await self._asked(step)
        status = step.get("status", 200)
        if answer.status_code != status:
            return [f"status {answer.status_code}, not {status}: {answer.text[:2000]}"]
        if "chunks" in step:
            return self._wrong_chunks(step["chunks"], [msgspec.json.decode(line) for line in answer.text.splitlines()])
        wrong_headers = self._patterns.differences(step.get("shows", {}), _shown_headers(answer, step.get("shows", {})))
        if status == 204:
            return wrong_headers
        if "holds" in step:
            return self._patterns.differences(step["holds"], answer.text)
        shown = answer.json()
        known = shown if isinstance(shown, dict) else {}
        if "data" in known and "metadata" in known:
            self._note_calls((known["data"] or {}).get("messages", []) if isinstance(known["data"], dict) else [])
        return [
            *wrong_headers,
            *_wrong_by_schema(step, status, shown),
            *([] if step.get("get") == "/ping" else _wrong_headers(answer, known)),  # graph.md 1.4: always the same
            *self._patterns.differences(step.get("answer", "$any"), shown),
        ]

    async def _asked(self, step: dict[str, Any]) -> httpx2.Response:
        method = next(method for method in METHODS if method in step)
        token = await self._token(step.get("token", "chat"))
        headers = {**({"authorization": f"Bearer {token}"} if token else {}), **step.get("headers", {})}
        content: bytes | None = None
        if "body" in step:
            content = msgspec.json.encode(self._patterns.filled(step["body"]))
        elif "text" in step:
            content = step["text"].encode()
        elif "bytes" in step:
            content = b'"' + b"x" * (step["bytes"] - 2) + b'"'
        if content is not None:
            headers.setdefault("content-type", "application/json")
        url = f"{self._gateway.url}{self._patterns.filled(step[method])}"
        if "file" in step:
            file = step["file"]
            files = {"file": (file["name"], file["text"].encode(), file["type"])}
            return await self._http.request(method.upper(), url, files=files, headers=headers)
        return await self._http.request(method.upper(), url, content=content, headers=headers)

    async def _over_socket(self, step: dict[str, Any], where: str) -> None:
        if self._socket is None:
            self._socket = await self._opened(step.get("token", "chat"))
        sent = step["socket"]
        text = sent if isinstance(sent, str) else msgspec.json.encode(self._patterns.filled(sent)).decode()
        chunks: list[Any] = []
        async with asyncio.timeout(SECONDS):
            await self._socket.send(text)
            while not chunks or GraphPatterns().differences(DONE, chunks[-1]):
                chunks.append(msgspec.json.decode(await self._socket.recv()))
        wrong = self._wrong_chunks(step["chunks"], chunks)
        assert not wrong, f"{where}:\n" + "\n".join(wrong)

    async def _opened(self, named: str) -> ClientConnection:
        # The way of a browser, which can send no header: the token is the entry after the sub-protocol (graph.md 7.1).
        token: Any = await self._token(named)
        url = self._gateway.url.replace("http", "ws", 1) + "/v1/graph/ws"
        socket = await connect(url, subprotocols=["agentflow-bearer", token], proxy=None, compression=None)  # type: ignore[list-item]  # names of sub-protocols are plain texts
        assert socket.subprotocol == "agentflow-bearer"
        return socket

    def _wrong_chunks(self, wanted: list[Any], chunks: list[Any]) -> list[str]:
        of_run = [chunk for chunk in chunks if GraphPatterns().differences(DONE, chunk)]
        messages = [chunk["message"] for chunk in of_run if chunk["message"]]
        self._note_calls(messages)
        return [
            *(f"{chunk}: {problem}" for chunk in of_run for problem in _validator("answer", "chunk").problems(chunk)),
            *_wrong_deltas(messages),
            *self._patterns.differences(wanted, [chunk for chunk in chunks if not _is_delta(chunk)]),
        ]

    def _note_calls(self, messages: list[Any]) -> None:
        blocks = (block for message in messages for block in message["content"])
        self._asked_calls += [block["id"] for block in blocks if block["type"] == "remote_tool_call"]

    async def _token(self, named: str) -> str:
        auth = self._gateway.gateway.parts.auth
        if named not in self._tokens:
            match named:
                case "chat" | "second":
                    self._tokens[named] = await auth.issue(OPERATOR.owner, ("chat",))
                case "device":
                    self._tokens[named] = await auth.issue(OPERATOR.owner, ("device",))
                case "other":
                    self._tokens[named] = await auth.issue("somebody", ("chat",))
                case "wrong":
                    self._tokens[named] = "wrong"
                case _:
                    self._tokens[named] = ""
        return self._tokens[named]


@contextlib.asynccontextmanager
async def playing(gateway: RunningGateway) -> AsyncIterator[GraphPlayer]:
    """A player with its own connections."""
    async with httpx2.AsyncClient(timeout=SECONDS, trust_env=False) as http:
        yield GraphPlayer(gateway, http)


def _wrong_by_schema(step: dict[str, Any], status: int, shown: Any) -> list[str]:
    if "schema" in step and step["schema"] is None:
        return []
    whole = "success" if status < 400 else "failure"
    found = _validator("answer", whole).problems(shown)
    if not found and status < 400 and (named := step.get("schema") or _answer_of(step)):
        found = _validator("answer", named).problems(shown["data"])
    return [f"{whole}: {problem}" for problem in found]


def _answer_of(step: dict[str, Any]) -> str:
    path = step.get("post", "")
    last = path.rpartition("/")[2]
    return last if last in ("invoke", "setup", "stop", "fix") else ""


def _shown_headers(answer: httpx2.Response, named: dict[str, Any]) -> dict[str, str | None]:
    return {name: answer.headers.get(name) for name in named}


def _wrong_headers(answer: httpx2.Response, known: dict[str, Any]) -> list[str]:
    said = known.get("metadata", {})
    pairs = (("x-request-id", said.get("request_id")), ("x-timestamp", said.get("timestamp")))
    return [
        f"the header {name} says {answer.headers.get(name)!r}, not {value!r}"
        for name, value in pairs
        if known and answer.headers.get(name, None if answer.is_success else value) != value
    ]


def _wrong_deltas(messages: list[Any]) -> list[str]:
    """graph.md 7.3: words only, and the whole message follows under the same id."""
    deltas = [message for message in messages if message["delta"]]
    wrong = [f"a delta holds more than words: {message}" for message in deltas if _calls(message)]
    whole = {message["message_id"]: _text(message) for message in messages if not message["delta"]}
    said: dict[str, str] = {}
    for message in deltas:
        said[message["message_id"]] = said.get(message["message_id"], "") + _text(message)
    return wrong + [
        f"the deltas of {message_id} say {text!r}, the whole message {whole.get(message_id)!r}"
        for message_id, text in said.items()
        if whole.get(message_id) != text
    ]


def _is_delta(chunk: dict[str, Any]) -> bool:
    return bool((chunk.get("message") or {}).get("delta"))


def _text(message: dict[str, Any]) -> str:
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def _calls(message: dict[str, Any]) -> bool:
    return any(block["type"] not in ("text", "reasoning") for block in message["content"])


def _validator(folder: str, name: str) -> Validator:
    key = f"{folder}/{name}"
    if key not in _VALIDATORS:
        path = PROTOCOL / "schema" / "graph" / folder / f"{name}.json"
        _VALIDATORS[key] = Validator(msgspec.json.decode(path.read_bytes()))
    return _VALIDATORS[key]


_VALIDATORS: dict[str, Validator] = {}
