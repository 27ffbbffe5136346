"""Tools of other apps: what a call through the bridge costs beside its two parts, and how fast fifty apps are there.

Gateway, bridge and apps are one process on one event loop, so the CPU time is that of all ends together.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from bench.figures import Case, Figure, best_cpu
from handspan.bridge import Bridge, DesktopTransport
from handspan.client import Client
from handspan.core.principals import OPERATOR
from handspan.core.results import Success
from handspan.provider.connection import ProviderSocket
from handspan.provider.manifests import install_manifest
from handspan.testing import FakeProvider, RunningGateway, running_gateway
from handspan.wire.cetp import CetpSuccess, execute_request
from handspan.wire.cetp_manifest import ProviderManifest, socket_path

APPS = 50
TOOLS = 10


async def measure(folder: Path) -> Iterable[Figure]:
    """Every figure of the bridge."""
    return [*await calls(folder / "bridge_call"), await scan(folder / "bridge_scan")]


async def calls(folder: Path) -> list[Figure]:
    """`bridge_call`: against one call over the app's socket plus one remote call of the gateway."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway(folder))
        client = Client(gateway.url, gateway.token, label="sdk", device_name="sdk")

        @client.tool
        async def echo(text: str) -> dict[str, str]:
            """Return the text."""
            return {"text": text}

        await stack.enter_async_context(client)
        environment = await stack.enter_async_context(_desk(folder))
        path = await _serve(stack, environment, "org.example.app", ["echo"])
        await stack.enter_async_context(_bridged(gateway, environment, 1))
        socket = ProviderSocket("org.example.app", path)
        stack.callback(socket.close)

        async def http() -> None:
            assert isinstance(await socket.call(execute_request("echo", {"text": "hi"}, "r")), CetpSuccess)

        async def remote(name: str) -> None:
            assert isinstance(await gateway.call(name, text="hi"), Success)

        cases: dict[str, Case] = {
            "http": http,
            "remote": lambda: remote("sdk__echo"),
            "bridged": lambda: remote("app__echo"),
        }
        taken = await best_cpu(cases)
    parts = taken["http"] + taken["remote"]
    return [
        Figure("bridge_call", taken["bridged"] / parts, "x (HTTP + remote call), CPU", target=2),
        Figure("bridge_call_us", taken["bridged"], "µs of CPU, all ends"),
    ]


async def scan(folder: Path) -> Figure:
    """`bridge_scan_50`: from the start of the bridge until the gateway has all tools."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(running_gateway(folder))
        environment = await stack.enter_async_context(_desk(folder))
        tools = [f"tool_{number}" for number in range(TOOLS)]
        for number in range(APPS):
            await _serve(stack, environment, f"org.example.app{number}", tools)
        began = time.process_time()
        await stack.enter_async_context(_bridged(gateway, environment, APPS * TOOLS))
        seconds = time.process_time() - began
    return Figure("bridge_scan_50", seconds, "s of CPU, 500 tools, all ends", target=1)


@asynccontextmanager
async def _desk(folder: Path) -> AsyncIterator[dict[str, str]]:
    """The environment of a person without apps."""
    run_folder = tempfile.mkdtemp(prefix="cetp")  # addresses of sockets are short
    folders = {"XDG_RUNTIME_DIR": run_folder, "XDG_DATA_HOME": str(folder / "data"), "XDG_DATA_DIRS": str(folder)}
    yield {"HOME": str(folder), **folders}
    shutil.rmtree(run_folder)


async def _serve(stack: AsyncExitStack, environment: dict[str, str], app_id: str, tools: list[str]) -> Path:
    manifest = ProviderManifest(app_id)
    install_manifest(manifest, environment)
    path = socket_path(manifest, environment)
    await stack.enter_async_context(FakeProvider(path, tools))
    return path


@asynccontextmanager
async def _bridged(gateway: RunningGateway, environment: dict[str, str], count: int) -> AsyncIterator[None]:
    """A bridge that has brought this many tools."""
    bridge = Bridge(gateway.url, gateway.token, trusts_all=True)
    bridge.add(DesktopTransport(environment, bridge.may_start))
    running = asyncio.create_task(bridge.run())
    app = gateway.gateway.parts.app
    caller = app.caller(await app.find_agent(), OPERATOR, "")
    last = f"app{APPS - 1}__tool_{TOOLS - 1}" if count > 1 else "app__echo"

    def are_missing() -> bool:
        return caller.box.find(last) is None or sum(len(one.tools) for one in bridge.apps.values()) < count

    while are_missing():  # noqa: ASYNC110 - no event says that all of them are there
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        bridge.close()
        await running
