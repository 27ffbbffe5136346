"""The Kotlin client in a JVM, as a player of the cases in `protocol/vectors/device`."""

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.vectors.cases import Case
from tests.vectors.wired import SECONDS, WiredClient
from websockets.asyncio.server import ServerConnection

KIT_APP = Path(__file__).parents[1] / "app" / "target" / "robolectric"
"""Where Robolectric reads which resources the app has."""


class Jvm:
    """A process that obeys lines of JSON, and tells what happens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._listener: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, classpath: str, main: str, **properties: str) -> "Jvm":
        pipe = asyncio.subprocess.PIPE
        flags = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8")
        given = [f"-D{name.replace('_', '.')}={value}" for name, value in properties.items()]
        process = await asyncio.create_subprocess_exec(
            "java", *flags, *given, "-cp", classpath, main, stdin=pipe, stdout=pipe
        )
        return cls(process)

    def tell(self, **order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def ready(self) -> "Jvm":
        """The same, once its program has begun: loading Android's framework takes a busy machine a minute."""
        async with asyncio.timeout(5 * SECONDS):
            while (await self._listener.get())["event"] != "ready":
                pass
        return self

    async def event(self) -> dict[str, Any]:
        """The next thing that happened."""
        async with asyncio.timeout(SECONDS):
            return await self._listener.get()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.startswith(b"{"):  # Robolectric prints lines of its own
                self._listener.put_nowait(json.loads(line))

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reading


class KotlinClient(WiredClient):
    """A `Client` in the JVM, and the server that it is connected to."""

    def __init__(self, jvm: Jvm, case: Case, port: int, state: Path, links: "asyncio.Queue[ServerConnection]") -> None:
        self._jvm = jvm
        self._runs: dict[str, int] = {}
        self._told: list[dict[str, Any]] = []
        super().__init__(case, port, state, links)

    def _begin(self) -> None:
        given = self._case.client
        self._jvm.tell(
            do="begin",
            url=self._url,
            label=given.get("label", ""),
            concurrency=given.get("concurrency", 1),
            state=str(self._state) if given.get("state") else "",
            tools=self._case.tools,
            messages=given.get("messages", False),
        )
        self._shown = []

    async def _wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first event of this kind that was not waited for before."""
        while True:
            for one in self._told:
                if one["event"] == event and fields.items() <= one.items():
                    self._told.remove(one)
                    return one
            self._note(await self._jvm.event())

    def _note(self, event: dict[str, Any]) -> None:
        if event["event"] == "shown":
            self._shown.append({key: value for key, value in event.items() if key != "event"})
            return
        self._told.append(event)
        if event["event"] == "begun":
            self._runs[event["tool"]] = self._runs.get(event["tool"], 0) + 1

    async def sent(self) -> dict[str, Any]:
        """The next frame. JSON has one kind of numbers, and org.json writes 60.0 as 60."""
        frame = await super().sent()
        for tool in frame.get("tools", ()):
            if "timeout" in tool:
                tool["timeout"] = float(tool["timeout"])
        return frame

    async def nothing_more(self) -> list[dict[str, Any]]:
        frames = await super().nothing_more()
        self._jvm.tell(do="sync")
        await self._wait_for("synced")
        return frames

    async def end(self, call_id: str, how: dict[str, Any]) -> None:
        if how.get("stopped"):
            await self._wait_for("stopped", id=call_id)
        else:
            self._jvm.tell(do="order", **how)

    async def decide(self, permission: str, decision: str, how_to_enable: str) -> None:
        assert await self.nothing_more() == []  # the client has read what was sent: the person is asked now
        self._jvm.tell(do="decide", permission=permission, says=decision, how_to_enable=how_to_enable)

    async def login_begun(self, call_id: str) -> str:
        return str((await self._wait_for("login", call_id=call_id))["intent"])

    async def shown(self, count: int) -> list[Any]:
        while len(self._shown) < count:
            self._note(await self._jvm.event())
        return self._shown

    async def unregister(self, name: str) -> None:
        assert await self.nothing_more() == []
        self._jvm.tell(do="unregister", name=name)

    def runs(self, tool: str) -> int:
        return self._runs.get(tool, 0)

    async def close(self) -> None:
        self._jvm.tell(do="end")
        self._jvm.tell(do="sync")
        await self._wait_for("synced")
