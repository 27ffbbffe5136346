"""A run of a browser's client: what it costs to suspend it and go on with it, and what a thousand of them hold.

`graph_round` is against two plain requests with bodies and answers of the same size that keep one row each, on the
same server: a run can't do less whose client was told that it is kept. Server and client are two processes on one
core: what is measured is software, not how fast a machine wakes its other core.
"""

import asyncio
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.figures import Figure
from bench.serving import free_port

ROUNDS = 300
WARM_UP = 50
SUSPENDED = 1000

TOOLS = [{"node_name": "tools", "name": "echo", "description": "Says it again.", "parameters": {}}]


async def measure(folder: Path) -> Iterable[Figure]:
    """`graph_round` and its microseconds; `suspended_1000_mb`, and how many of them a killed gateway still knows."""
    return await asyncio.to_thread(_measure, folder)


def _measure(folder: Path) -> list[Figure]:
    with _gateway(folder / "round") as gateway:
        ours, sizes = _rounds(gateway)
        own = _own(gateway)
    plain, durable = _plain(sizes), _plain(sizes, folder / "commit.db")
    held, survived = _suspended(folder / "held")
    return [
        Figure("graph_round", ours / durable, "x two requests that keep a row each", target=2, line=2.6),
        Figure("graph_round_plain", ours / plain, "x two plain HTTP requests"),
        Figure("graph_round_own", ours / own, "x two requests of the gateway that only read who asks"),
        Figure("graph_round_us", ours * 1e6, "us, suspended and gone on"),
        Figure("graph_round_least", durable / plain, "x two plain HTTP requests: those that keep a row each"),
        Figure("suspended_1000_mb", held, "MB for 1,000 suspended runs", target=50),
        Figure("suspended_survived", survived, "of 1,000, after kill -9", target=SUSPENDED, more_is_better=True),
    ]


class Client:
    """A client that costs as little as can be: one connection, kept."""

    def __init__(self, port: int, token: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def post(self, path: str, body: bytes) -> bytes:
        """The answer's body."""
        return self._answer("POST", path, body)

    def get(self, path: str) -> bytes:
        """The same without a body of its own."""
        return self._answer("GET", path, None)

    def _answer(self, method: str, path: str, body: bytes | None) -> bytes:
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        answer = response.read()
        assert response.status == 200, answer
        return answer

    def close(self) -> None:
        """Let it go."""
        self._connection.close()


class Gateway:
    """A gateway in a process of its own, whose model does what it is told."""

    def __init__(self, folder: Path) -> None:
        self._ready = folder / "ready.json"
        self._command = [sys.executable, "-m", "handspan.testing", "--ready-file", str(self._ready)]
        self._command += ["--state", str(folder / "state"), "--workspace", str(folder / "workspace")]
        folder.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Begin, or begin again with the same state."""
        self._ready.unlink(missing_ok=True)
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        while not self._ready.exists():
            assert self.process.poll() is None
            time.sleep(0.01)
        told = json.loads(self._ready.read_bytes())
        self.client = Client(int(told["url"].rpartition(":")[2]), told["token"])

    def kill(self) -> None:
        """Without a word."""
        self.client.close()
        self.process.kill()
        self.process.wait(20)

    def memory(self) -> float:
        """MB that it holds."""
        rows = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return next(int(row.split()[1]) for row in rows if row.startswith("Rss:")) / 1024


@contextmanager
def _gateway(folder: Path) -> Iterator[Gateway]:
    gateway = Gateway(folder)
    try:
        yield gateway
    finally:
        gateway.kill()


def _rounds(gateway: Gateway) -> tuple[float, tuple[int, int, int, int]]:
    """Seconds for one round (the median), and the sizes of its two requests and answers."""
    sizes = (0, 0, 0, 0)

    def one() -> None:
        nonlocal sizes
        asking = _asking()
        first = gateway.client.post("/v1/graph/invoke", asking)
        answering = _answering(json.loads(first)["data"]["meta"]["open_calls"][0])
        last = gateway.client.post("/v1/graph/invoke", answering)
        sizes = (len(asking), len(answering), len(first), len(last))

    with _one_core(gateway.process.pid):
        return _median(one), sizes


def _own(gateway: Gateway) -> float:
    """Seconds for two requests of the same gateway that pass its door, and say what it knows by heart."""
    with _one_core(gateway.process.pid):
        return _median(lambda: [json.loads(gateway.client.get("/v1/graph")) for _ in range(2)])


def _plain(sizes: tuple[int, int, int, int], file: Path | None = None) -> float:
    """Seconds for two plain requests of these sizes; with a file, for two that are kept there."""
    asking, answering, first, last = sizes
    port = free_port()
    command = [sys.executable, "-m", "bench.plain_http", str(port), str(file or ""), str(first), str(last)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    bodies = [json.dumps({"x": "y" * (size - 9)}).encode() for size in (asking, answering)]
    try:
        with closing(_connected(port)) as client, _one_core(process.pid):
            return _median(lambda: [json.loads(client.post("/", body)) for body in bodies])
    finally:
        process.kill()
        process.wait(20)


def _connected(port: int) -> Client:
    until = time.monotonic() + 20
    while True:
        client = Client(port)
        try:
            client.post("/", b"{}")
            client.post("/", b"{}")
            return client
        except ConnectionError:
            assert time.monotonic() < until
            time.sleep(0.02)


def _median(one: Callable[[], Any]) -> float:
    for _ in range(WARM_UP):
        one()
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        one()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


@contextmanager
def _one_core(other: int) -> Iterator[None]:
    """This process and the other on one core."""
    before = os.sched_getaffinity(0)
    core = {max(before)}
    for task in (*_threads(os.getpid()), *_threads(other)):
        os.sched_setaffinity(task, core)
    try:
        yield
    finally:
        for task in _threads(os.getpid()):
            os.sched_setaffinity(task, before)


def _threads(pid: int) -> list[int]:
    return [int(task) for task in os.listdir(f"/proc/{pid}/task")]


def _suspended(folder: Path) -> tuple[float, int]:
    """MB for so many suspended runs; and how many of them go on after the gateway was killed."""
    with _gateway(folder) as gateway:
        for _ in range(WARM_UP):
            gateway.client.post("/v1/graph/invoke", _asking())
        before = gateway.memory()
        answers = [json.loads(gateway.client.post("/v1/graph/invoke", _asking())) for _ in range(SUSPENDED)]
        held = gateway.memory() - before
        calls = [answer["data"]["meta"]["open_calls"][0] for answer in answers]
        gateway.kill()
        gateway.start()
        ends = [json.loads(gateway.client.post("/v1/graph/invoke", _answering(call))) for call in calls]
    return held, sum(end["data"]["meta"]["status"] == "completed" for end in ends)


def _asking() -> bytes:
    text = 'call echo {"x": 1}\nthen\nIt said so.'
    message = {"role": "user", "message_id": "0", "content": [{"type": "text", "text": text}]}
    return json.dumps({"messages": [message], "tools": TOOLS, "recursion_limit": 25}).encode()


def _answering(call: str) -> bytes:
    block = {"type": "tool_result", "call_id": call, "is_error": False, "output": {"x": 1}, "status": "completed"}
    message = {"role": "tool", "message_id": "0", "content": [block]}
    return json.dumps({"messages": [message], "tools": TOOLS, "recursion_limit": 25}).encode()
