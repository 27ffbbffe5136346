"""Clients of a real gateway for the tests of the graph API: what a page does, by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from handspan.core.context import ToolContext
from handspan.core.principals import Origin
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from handspan.models.model import Model
from handspan.testing.gateway import RunningGateway, running_gateway
from handspan.testing.spoken import Spoken

TAKE_JSON = [
    ("POST", "/v1/graph/setup"),
    ("POST", "/v1/graph/invoke"),
    ("POST", "/v1/graph/stream"),
    ("POST", "/v1/graph/stop"),
    ("POST", "/v1/graph/fix"),
    ("PUT", "/v1/threads/t/state"),
    ("POST", "/v1/threads/t/messages"),
    ("POST", "/v1/store/memories"),
    ("POST", "/v1/store/search"),
    ("POST", "/v1/store/memories/list"),
    ("POST", "/v1/store/memories/forget"),
    ("PUT", "/v1/store/memories/m"),
]
"""The routes that read a body of JSON."""
ECHO = {"node_name": "tools", "name": "echo", "description": "", "parameters": {}}


def tool(name: str, node: str = "tools", **more: Any) -> dict[str, Any]:
    """A tool as the unmodified client sends it when the page says nothing about it."""
    return {"node_name": node, "name": name, "description": "", "parameters": {}, **more}


def said(text: str) -> dict[str, Any]:
    """A person's message, as the unmodified client sends it."""
    return {"role": "user", "message_id": "0", "content": [{"type": "text", "text": text}]}


def result(call_id: str, output: Any = None, **more: Any) -> dict[str, Any]:
    """A result, in a message of its own."""
    block = {"type": "tool_result", "call_id": call_id, "output": output, "is_error": False, "status": "completed"}
    return {"role": "tool", "message_id": "0", "content": [{**block, **more}]}


class Answer:
    """An answer of the gateway."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.text = response.text

    @property
    def json(self) -> Any:
        """The whole body."""
        return json.loads(self.text)

    @property
    def data(self) -> Any:
        """What came of it; it has to have come."""
        assert self.status == 200, self.text
        assert self.json["metadata"]["message"] == "OK"
        return self.json["data"]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.data["messages"])

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.data["meta"])

    @property
    def error(self) -> dict[str, Any]:
        """What went wrong; it has to have gone wrong, in the one form (graph.md 1.2)."""
        assert self.status >= 400, self.text
        assert set(self.json) == {"error", "metadata"}, self.text
        assert set(self.json["error"]) == {"code", "message", "details"}
        assert set(self.json["metadata"]) == {"request_id", "timestamp", "message"}
        return dict(self.json["error"])

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The lines of a stream."""
        assert self.status == 200, self.text
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the client is asked to run, in an answer or a stream."""
        shown = (
            [chunk["message"] for chunk in self.chunks if chunk["message"]]
            if "ndjson" in self.headers["content-type"]
            else self.messages
        )
        return [block for message in shown for block in message["content"] if block["type"] == "remote_tool_call"]

    @property
    def words(self) -> str:
        """What the model said last."""
        texts = [
            block["text"]
            for message in self.messages
            if message["role"] == "assistant"
            for block in message["content"]
            if block["type"] == "text"
        ]
        return texts[-1] if texts else ""


class Page:
    """One client: a token, and nothing that it remembers."""

    def __init__(self, url: str, token: str) -> None:
        self.token = token
        self.url = url
        self.http = httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=60)

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Any request."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        return Answer(await self.http.request(method, path, content=content, headers=headers, **more))

    async def set_up(self, *tools: Mapping[str, Any]) -> Answer:
        """Say which tools it has."""
        return await self.ask("POST", "/v1/graph/setup", {"tools": list(tools)})

    async def say(self, text: str, thread: str = "", **more: Any) -> Answer:
        """Begin a run."""
        return await self.invoke([said(text)], thread, **more)

    async def answer(self, *results: Mapping[str, Any], thread: str = "", **more: Any) -> Answer:
        """Bring results."""
        return await self.invoke(results, thread, **more)

    async def invoke(self, messages: Sequence[Mapping[str, Any]], thread: str = "", **more: Any) -> Answer:
        config = {"config": {"thread_id": thread}} if thread else {}
        headers = more.pop("headers", {})
        body = {"messages": list(messages), **config, **more}
        return await self.ask("POST", "/v1/graph/invoke", body, headers=headers)

    async def stream(self, messages: Sequence[Mapping[str, Any]], **more: Any) -> Answer:
        return await self.ask("POST", "/v1/graph/stream", {"messages": list(messages), **more})


class Waiting:
    """A tool of the gateway that is at work until it is stopped."""

    spec = ToolSpec("wait", "Waits.", {"type": "object", "properties": {}}, timeout=60)

    def __init__(self) -> None:
        self.is_at_work = asyncio.Event()

    async def run(self, arguments: Arguments, ctx: ToolContext) -> None:
        self.is_at_work.set()
        await asyncio.Event().wait()


class Held:
    """A tool of the gateway that is at work until the test lets it end."""

    spec = ToolSpec("hold", "Holds.", {"type": "object", "properties": {}}, timeout=60)

    def __init__(self) -> None:
        self.is_at_work = asyncio.Event()
        self.may_end = asyncio.Event()

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        self.is_at_work.set()
        await self.may_end.wait()
        return "held"


class Graph:
    """A gateway and its clients."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.page = Page(gateway.url, gateway.token)
        self._pages = [self.page]

    async def another(self, owner: str = "operator", scopes: tuple[str, ...] = ("chat",)) -> Page:
        """A client with a token of its own."""
        token = await self.gateway.gateway.parts.auth.issue(owner, scopes, "a page")
        page = Page(self.gateway.url, token)
        self._pages.append(page)
        return page

    def let_it_wait(self) -> Waiting:
        """Give the gateway a tool that does not end."""
        waiting = Waiting()
        self.gateway.gateway.parts.app.registry.register(waiting, Origin("plugin", "tests"))
        return waiting

    def let_it_hold(self) -> Held:
        """Give the gateway a tool that ends when it may."""
        held = Held()
        self.gateway.gateway.parts.app.registry.register(held, Origin("plugin", "tests"))
        return held

    async def close(self) -> None:
        for page in self._pages:
            await page.http.aclose()


@asynccontextmanager
async def graph_gateway(folder: Path, model: Model | None = None, **settings: Any) -> AsyncIterator[Graph]:
    """A gateway with this model, or with one that does what it is told."""
    async with running_gateway(folder, model=model or Spoken(), **settings) as gateway:
        there = Graph(gateway)
        try:
            yield there
        finally:
            await there.close()
