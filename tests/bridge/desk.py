"""A person's computer with apps, and a bridge that runs on it."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from handspan.bridge import Bridge, BridgeMemory, DesktopTransport
from handspan.bridge.memory import AppSwitches
from handspan.bridge.transport import Transport
from handspan.client import Backoff
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question
from handspan.core.results import Failure, Success
from handspan.provider.manifests import install_manifest, remove_manifest
from handspan.testing import FakeProvider, RunningGateway
from handspan.wire.cetp_manifest import ProviderManifest, socket_path
from tests.waiting import soon, until

QUICK = Backoff(0.01, 0.05)


class Desk:
    """The folders of a person."""

    def __init__(self, home: Path, run_folder: Path) -> None:
        home.mkdir()
        self.home = home
        self.environment = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(run_folder),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_DATA_DIRS": str(home / "system"),
            "PATH": "/usr/bin:/bin",
        }
        self.memory = home / "bridge.json"
        self.switches = AppSwitches(home / "bridge.disabled")

    def install(self, app_id: str, **fields: Any) -> Path:
        """Write a manifest. Returns the path of the app's socket."""
        manifest = ProviderManifest(app_id, **fields)
        install_manifest(manifest, self.environment)
        return socket_path(manifest, self.environment)

    def remove(self, app_id: str) -> None:
        assert remove_manifest(app_id, self.environment) is not None

    def provider(self, app_id: str, tools: Sequence[str], **fields: Any) -> FakeProvider:
        """An app with a manifest, which runs in this process when it is entered."""
        return FakeProvider(self.install(app_id, **fields), tools)

    def process(self, app_id: str, *tools: str) -> list[str]:
        """Install an app that is started on demand, in a process of its own. Returns its command."""
        argv = [sys.executable, "-m", "handspan.testing.provider"]
        socket = self.install(app_id)
        self.install(app_id, exec=[*argv, str(socket), *tools])
        return [*argv, str(socket), *tools]

    def processes(self, app_id: str = "") -> list[int]:
        """The processes of this app, or of all apps: their commands name a socket of this desk."""
        begin = f"{self.environment['XDG_RUNTIME_DIR']}/handspan/{app_id}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if any(word.startswith(begin) for word in (folder / "cmdline").read_bytes().split(b"\0")):
                    found.append(int(folder.name))
        return found

    def end_programs(self) -> None:
        """Kill the apps that run on after their bridge."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @asynccontextmanager
    async def bridged(
        self, gateway: RunningGateway, *, trusts_all: bool = True, transport: Transport | None = None
    ) -> AsyncIterator[Bridge]:
        """A bridge that runs."""
        bridge = Bridge(
            gateway.url,
            gateway.token,
            memory=BridgeMemory(self.memory),
            switches=self.switches,
            trusts_all=trusts_all,
            backoff=QUICK,
        )
        bridge.add(transport or DesktopTransport(self.environment, bridge.may_start, scan_seconds=0.02))
        running = asyncio.create_task(bridge.run())
        try:
            yield bridge
        finally:
            bridge.close()
            await soon(running)


async def offered(gateway: RunningGateway, *names: str) -> None:
    """Wait until exactly these tools of bridged apps can be called."""
    app = gateway.gateway.parts.app
    agent = await app.find_agent()
    wanted = sorted(names)

    def listed() -> bool:
        box = app.caller(agent, OPERATOR, "").box
        return sorted(spec.name for spec in box.specs() if "__" in spec.name) == wanted

    await until(listed)


async def value(gateway: RunningGateway, name: str, **arguments: Any) -> Any:
    """The value of a call that succeeds."""
    result = await soon(gateway.call(name, **arguments))
    assert isinstance(result, Success), result
    return result.value


async def failure(gateway: RunningGateway, name: str, **arguments: Any) -> Failure:
    """The failure of a call that fails."""
    result = await soon(gateway.call(name, **arguments))
    assert isinstance(result, Failure), result
    return result


async def question(gateway: RunningGateway, kind: str) -> Question:
    """The one open question, once it is there."""
    found: list[Question] = []

    async def asked() -> bool:
        found[:] = await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner)
        return bool(found)

    await until(asked)
    assert [one.kind for one in found] == [kind]
    return found[0]


async def answer(gateway: RunningGateway, kind: str, decision: Any) -> Question:
    """Answer the one open question."""
    asked = await question(gateway, kind)
    assert await gateway.gateway.parts.questions.answer(asked.id, Answer(decision), person(OPERATOR))
    return asked


async def devices(gateway: RunningGateway) -> dict[str, Any]:
    """What REST says of the devices, by label."""
    headers = {"authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, trust_env=False, timeout=60) as rest:
        listed = (await rest.get("/api/devices")).json()
    return {one["label"]: one for one in listed["devices"]}
