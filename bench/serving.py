"""How long `handspan serve` takes from its start to its first answer, and what it holds when nobody is there."""

import asyncio
import compileall
import contextlib
import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

import handspan
from bench.figures import Figure

TRIES = 7
IDLE_S = 2.0

_BARE = """
import asyncio, sys
async def answer(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()
asyncio.run(main())
"""


async def measure(folder: Path) -> Iterable[Figure]:
    """`start`, as a ratio to a bare asyncio server that answers anything, by turns; and `idle_mb`."""
    return await asyncio.to_thread(_measure, folder)


def _measure(folder: Path) -> list[Figure]:
    compileall.compile_dir(Path(handspan.__file__).parent, quiet=2)
    best = {"bare": float("inf"), "ours": float("inf")}
    for turn in range(TRIES):
        port = free_port()
        best["bare"] = min(best["bare"], _seconds([sys.executable, "-c", _BARE, str(port)], port))
        port = free_port()
        best["ours"] = min(best["ours"], _seconds(_serve(folder, port), port))
        if turn == 0:
            memory = _idle_memory(folder)
    return [
        Figure("start", best["ours"] / best["bare"], "x bare asyncio server", target=2.8, line=3.2),
        Figure("start_ms", best["ours"] * 1000, "ms to the first answer"),
        Figure("idle_mb", memory, "MB, nobody connected", target=80),
    ]


def _serve(folder: Path, port: int) -> list[str]:
    folders = ["--state", str(folder / "st"), "--workspace", str(folder / "ws")]
    return [sys.executable, "-m", "handspan.cli", "serve", "--port", str(port), "--model", "offline", *folders]


def _seconds(command: list[str], port: int) -> float:
    """From the start of the process to its first answer."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _answers(port):
            assert process.poll() is None and time.perf_counter() - began < 60, command
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(20)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    time.sleep(0.001)
    return False


def _idle_memory(folder: Path) -> float:
    ready = folder / "ready.json"
    process = subprocess.Popen(
        [*_serve(folder, 0), "--ready-file", str(ready)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.01)
        port = int(str(msgspec.json.decode(ready.read_bytes())["url"]).rpartition(":")[2])
        assert _answers(port)
        time.sleep(IDLE_S)
        rows = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("Rss:")) / 1024
    finally:
        process.terminate()
        process.wait(20)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
