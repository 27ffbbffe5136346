"""kill -9 of the gateway while pages have tools: their runs are suspended, and go on in another life of it.

A page knows what it was answered, and nothing else. What it was asked to run it can answer, whatever happened
meanwhile; what was taken is in the journal as it was sent.
"""

import asyncio
import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx2
from msgspec import Struct

from handspan.testing import GatewayProcess
from handspan.testing.process import SPOKEN
from tests.chaos.figures import Figure, none_of, percentile
from tests.chaos.kills import PLAIN_PROCESS, started
from tests.chaos.witness import journal_of, kept
from tests.stores import store_settings
from tests.waiting import until

_TOOLS: Final = [{"node_name": "tools", "name": "lift", "description": "", "parameters": {}}]
_SCRIPT: Final = "call lift\ncall lift\nthen\ncall lift\nthen\nAll is lifted: {results}"


class Scale(Struct, frozen=True):
    """How much of it."""

    kills: int = 20
    pages: int = 12


SHORT: Final = Scale(2, 4)


class Page:
    """One tab: says something, runs what it is asked to, and begins anew."""

    def __init__(self, url: str, token: str, name: str, chance: Random) -> None:
        self._http = httpx2.AsyncClient(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=30)
        self._thread = name
        self._chance = chance
        self.asked: Counter[str] = Counter()
        """How often each call was asked of it."""
        self.taken: dict[str, str] = {}
        """What it answered, and was told that it counts."""
        self.unknown: list[str] = []
        """Calls that it was asked, and that nobody knew when it answered."""
        self.broken: list[str] = []
        self.finished = 0
        self.tries = 0

    async def __aenter__(self) -> "Page":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def run(self, is_over: asyncio.Event) -> None:
        """Run after run, until it is enough."""
        async with self:
            while not is_over.is_set():
                await self.run_once(is_over)

    async def run_once(self, is_over: asyncio.Event) -> None:
        """One run, from the first words to its end; it is left when the gateway refuses what is said."""
        message = {"role": "user", "message_id": "0", "content": [{"type": "text", "text": _SCRIPT}]}
        answer = await self._post({"messages": [message], "config": {"thread_id": self._thread}}, is_over)
        while answer is not None:
            calls = self._calls_in(answer)
            if not calls:
                self.finished += answer["data"]["meta"]["status"] == "completed"
                return
            await asyncio.sleep(self._chance.random() * 0.1)
            answer = await self._answered({call: f"lifted {call}" for call in calls}, is_over)

    def _calls_in(self, answer: dict[str, Any]) -> list[str]:
        blocks = [block for message in answer["data"]["messages"] for block in message["content"]]
        calls = [str(block["id"]) for block in blocks if block["type"] == "remote_tool_call"]
        self.asked.update(calls)
        return calls

    async def _answered(self, outputs: dict[str, str], is_over: asyncio.Event) -> dict[str, Any] | None:
        """Bring these results; None when the run is over for this page: it was taken before, and cut off then."""
        results = [
            {"type": "tool_result", "call_id": call, "output": output, "status": "completed"}
            for call, output in outputs.items()
        ]
        answer = await self._post({"messages": [{"role": "tool", "content": results}]}, is_over)
        if answer is not None:
            self.taken.update(outputs)
        return answer

    async def _post(self, body: dict[str, Any], is_over: asyncio.Event) -> dict[str, Any] | None:
        while True:
            try:
                response = await self._http.post("/v1/graph/invoke", json={**body, "tools": _TOOLS})
            except httpx2.TransportError:
                if is_over.is_set():
                    return None
                self.tries += 1
                await asyncio.sleep(0.05)
                continue
            if response.status_code == 503:  # the gateway is being stopped: say it again
                self.tries += 1
                await asyncio.sleep(0.05)
                continue
            told = json.loads(response.content)
            if response.status_code == 200:
                return dict(told)
            code = told["error"]["code"]
            if code == "GRAPH_UNKNOWN_CALL":
                self.unknown.append(told["error"]["message"])
            elif code not in ("GRAPH_ANSWERED_CALL", "GRAPH_BUSY"):
                self.broken.append(f"{response.status_code} {told['error']}")
            return None


async def pages(folder: Path, scale: Scale, seed: int) -> list[Figure]:
    """The figures of one run."""
    chance = Random(f"{seed}/pages")
    ready: list[float] = []
    is_over = asyncio.Event()
    store = json.dumps(store_settings(folder / "state"))
    async with GatewayProcess(folder, "--set", f"store={store}", model=SPOKEN, environ=PLAIN_PROCESS) as gateway:
        tabs = [
            Page(gateway.url, gateway.token, f"tab-{number}", Random(f"{seed}/{number}"))
            for number in range(scale.pages)
        ]
        async with asyncio.TaskGroup() as group:
            for tab in tabs:
                group.create_task(tab.run(is_over))
            for _ in range(scale.kills):
                await asyncio.sleep(0.2 + chance.random())
                await gateway.kill()
                ready.append(await started(gateway))
            await until(lambda: _enough(tabs, scale))
            is_over.set()
        code = await gateway.terminate()
        log = gateway.log
    journal = kept(await journal_of(gateway.state))
    return [
        Figure("kills", len(ready)),
        Figure("runs that came to their end", sum(tab.finished for tab in tabs), at_least=scale.pages),
        Figure("requests that broke and were sent again", sum(tab.tries for tab in tabs), at_least=1),
        Figure("calls that pages were asked", sum(len(tab.asked) for tab in tabs), at_least=scale.kills),
        Figure("results that were taken", sum(len(tab.taken) for tab in tabs), at_least=scale.kills),
        Figure("ready again, max", percentile(ready, 1.0) * 1000, "ms", at_most=3000),
        none_of("calls asked twice", (call for tab in tabs for call, count in tab.asked.items() if count > 1)),
        none_of("calls asked that nobody knew later", (text for tab in tabs for text in tab.unknown)),
        none_of("taken results lost", _lost(tabs, journal)),
        none_of("other refusals", (text for tab in tabs for text in tab.broken)),
        none_of("tracebacks in the log", [log[log.index("Traceback") :][:4000]] if "Traceback" in log else []),
        Figure("exit code at the end", code, at_most=0, at_least=0),
    ]


def _enough(tabs: list[Page], scale: Scale) -> bool:
    """As many runs and results as the figures ask for."""
    return sum(tab.finished for tab in tabs) >= scale.pages and sum(len(tab.taken) for tab in tabs) >= scale.kills


def _lost(tabs: list[Page], journal: Any) -> list[str]:
    """Results that were taken, and are not in the journal as they were sent."""
    return [
        f"{call}: {found and found.envelope}"
        for tab in tabs
        for call, output in tab.taken.items()
        if (found := journal.get(call)) is None or (found.envelope or {}).get("result") != output
    ]
