"""What works while nodes fail: devices of both SDKs, callers over REST, chats over WebSocket, pages over the graph API.

Every parcel is lifted for one caller. Who was cut off asks again, at any node, under the same key or message id.
"""

import asyncio
import contextlib
import json
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random
from typing import Any, Final

import httpx2
from msgspec import Struct
from websockets.exceptions import WebSocketException

from handspan.client import Client
from handspan.client.ws import Backoff
from handspan.testing import FakeDevice, NotSaid
from tests.chaos.nodes.fleet import PATIENCE, ROOT, Fleet, node_program, wait_for
from tests.chaos.pages import Page

_AGAIN: Final = 0.05
_BACKOFF: Final = Backoff(0.1, 1.0, 0.5)


class Amount(Struct, frozen=True):
    """How many of each there are."""

    devices: int = 4
    """Of the Python SDK; one more is of the TypeScript SDK."""
    callers: int = 4
    chats: int = 3
    pages: int = 2


class NodesLoad:
    """Everything that works, and what each part saw."""

    def __init__(self, fleet: Fleet, amount: Amount, seed: int) -> None:
        self._fleet = fleet
        self._amount = amount
        self._chance = Random(f"{seed}/load")
        self.labels = [f"arm{number}" for number in range(amount.devices)]
        self.ran: Counter[str] = Counter()
        self.results: dict[str, Any] = {}
        self.codes: Counter[str] = Counter()
        self.said: dict[str, list[str]] = {}
        """What each session was told, and has answered to its end."""
        self.unanswered: set[str] = set()
        """What is being said."""
        self.pages = [
            Page(fleet.url, fleet.token, f"tab-{number}", Random(f"{seed}/{number}")) for number in range(amount.pages)
        ]
        self._may_work = asyncio.Event()
        self._is_over = asyncio.Event()
        self._at_work = 0

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Everything is connected inside, and works while `go_on` was called last."""
        async with contextlib.AsyncExitStack() as stack:
            for label in self.labels:
                await stack.enter_async_context(self._device(label))
            if node_program() is not None:
                await stack.enter_async_context(self._node_device("js"))
                self.labels.append("js")
            works = (
                *map(self._caller, range(self._amount.callers)),
                *map(self._chat, range(self._amount.chats)),
                *map(self._page, self.pages),
            )
            tasks = [asyncio.create_task(work) for work in works]
            try:
                yield
            finally:
                self._is_over.set()
                self._may_work.set()
                done = await asyncio.gather(*tasks, return_exceptions=True)
            for error in done:
                if error is not None:
                    raise error

    def go_on(self) -> None:
        """Let everything work."""
        self._may_work.set()

    async def pause(self) -> None:
        """Let everything end what it does, and wait."""
        self._may_work.clear()
        async with asyncio.timeout(PATIENCE):
            while self._at_work:
                await asyncio.sleep(_AGAIN)

    async def end_runs(self) -> None:
        """Let every page say something more. A page leaves a run whose answer it lost: its calls would wait for it."""
        await asyncio.gather(*(page.run_once(self._is_over) for page in self.pages))

    async def works(self, more: int = 10) -> None:
        """Wait until so many more parcels are lifted."""
        wanted = self.ran.total() + more
        while self.ran.total() < wanted:
            before = self.ran.total()
            await wait_for("one more parcel is lifted", partial(self._has_lifted, before))

    def _has_lifted(self, before: int) -> bool:
        return self.ran.total() > before

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[bool]:
        """Whether there is one more thing to do. It counts as at work inside."""
        await self._may_work.wait()
        self._at_work += 1
        try:
            yield not self._is_over.is_set()
        finally:
            self._at_work -= 1

    # Devices.

    @asynccontextmanager
    async def _device(self, label: str) -> AsyncIterator[None]:
        client = Client(self._fleet.url, self._fleet.token, label=label, concurrency=8, backoff=_BACKOFF)

        @client.tool(timeout=60)
        async def lift(parcel: str) -> str:
            """Lift a parcel."""
            self.ran[parcel] += 1
            await asyncio.sleep(self._chance.random() * 0.3)
            return parcel

        running = asyncio.create_task(client.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    @asynccontextmanager
    async def _node_device(self, label: str) -> AsyncIterator[None]:
        """A device of the TypeScript SDK, in a process of Node."""
        sdk = ROOT / "src/handspan/assets/sdk/device.js"
        words = [str(ROOT / "tests/chaos/nodes/device.mjs"), str(sdk), self._fleet.url, self._fleet.token, label]
        process = await asyncio.create_subprocess_exec(str(node_program()), *words, stdout=PIPE)
        reading = asyncio.create_task(self._read(process))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            await reading

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.ran[line.decode().strip()] += 1

    # Callers.

    async def _caller(self, number: int) -> None:
        async with httpx2.AsyncClient(timeout=30, trust_env=False) as requests:
            count = 0
            while not self._is_over.is_set():
                async with self._turn() as is_wanted:
                    if is_wanted:
                        count += 1
                        await self.call(requests, f"r{number}-{count}", self._chance.choice(self.labels))

    async def call(self, requests: httpx2.AsyncClient, parcel: str, label: str, place: int | None = None) -> Any:
        """Return the result of one call, at this node or at any. Raises `TimeoutError` when it never has one."""
        self.results[parcel] = None
        async with asyncio.timeout(PATIENCE):
            while self.results[parcel] is None:
                at = self._chance.randrange(len(self._fleet.nodes)) if place is None else place
                with contextlib.suppress(httpx2.TransportError):
                    self.results[parcel] = await self._try(requests, parcel, label, self._fleet.nodes[at].url)
                if self.results[parcel] is None:
                    await asyncio.sleep(_AGAIN)
        self.codes[self.results[parcel].get("code", "success")] += 1
        return self.results[parcel]

    async def _try(self, requests: httpx2.AsyncClient, parcel: str, label: str, url: str) -> Any:
        headers = {"Authorization": f"Bearer {self._fleet.token}", "Idempotency-Key": parcel}
        body = {"args": {"parcel": parcel}}
        answer = await requests.post(f"{url}/api/tools/{label}__lift/call", json=body, headers=headers)
        if answer.status_code == 200:
            return answer.json()
        if answer.status_code == 202:
            location = answer.headers["location"].rpartition("/")[2]
            shown = await requests.get(f"{url}/api/calls/{location}?wait=2", headers=headers)
            return shown.json().get("result") if shown.status_code == 200 else None
        return None

    # Chats.

    async def _chat(self, number: int) -> None:
        session, count = f"chat-{number}", 0
        self.said[session] = []
        async with FakeDevice(self._fleet.url, self._fleet.token) as chat:
            while not self._is_over.is_set():
                async with self._turn() as is_wanted:
                    if is_wanted:
                        count += 1
                        label = self._chance.choice(self.labels)
                        parcel = f"{session}-{count}"
                        text = f'call {label}__lift {{"parcel": "{parcel}"}}\nthen\n<{parcel}> gave {{results}}'
                        self.unanswered.add(parcel)
                        await self.say(chat, session, parcel, text)
                        self.unanswered.discard(parcel)
                        self.said[session].append(text)

    async def say(self, chat: FakeDevice, session: str, parcel: str, text: str) -> str:
        """Return the answer, over as many connections as it takes. Raises `NotSaid` when it never comes."""
        end, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < end:
            try:
                if not chat.is_connected:
                    await chat.connect(role="chat", session_id=session, capabilities=["resume"])
                await chat.send({"type": "message", "content": text, "id": parcel})
                return await self._answer(chat, f"<{parcel}>")
            except (OSError, WebSocketException, NotSaid, TimeoutError) as error:
                last += f" | {error!r}"
            await chat.drop()
            await asyncio.sleep(_AGAIN)
        raise NotSaid(f"{session}: {parcel} was not answered within {PATIENCE} s: {last[-3000:]}")

    async def _answer(self, chat: FakeDevice, mark: str) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):  # the node may be frozen: the person tries another one
                while (frame := await chat.next()) is not None:
                    if frame["type"] == "error":
                        break  # it could not begin: say it again
                    if frame["type"] == "done" and mark in str(frame["full_response"]):
                        return str(frame["full_response"])
        raise NotSaid(f"{mark} was not answered: {json.dumps(chat.heard[-3:])[:500]}")

    # Pages.

    async def _page(self, page: Page) -> None:
        async with page:
            while not self._is_over.is_set():
                async with self._turn() as is_wanted:
                    if is_wanted:
                        await page.run_once(self._is_over)
