"""A gateway in a process of its own, which a test can kill and start again on the same port and state.

async with GatewayProcess(tmp_path) as gateway:
    ...
    await gateway.kill()                # SIGKILL
    await gateway.start()               # the same port, the same state
    assert gateway.url == url
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct

SPOKEN: Final = "spoken"
"""The model that does what the person's message says (`Spoken`). Only `python -m handspan.testing` has it."""
_SECONDS_TO_START: Final = 30.0
_SECONDS_TO_END: Final = 15.0
_POLL_SECONDS: Final = 0.01


class ReadyFile(Struct, frozen=True):
    """The content of the ready file."""

    url: str
    token: str
    pid: int


class GatewayNotReady(AssertionError):
    """The gateway did not answer in time, or ended; the message has its log."""


class GatewayProcess:
    """`handspan serve` with all its files below one folder. `async with` starts it and kills it at the end."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int = 0,
        model: str = "offline",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`options`: more for `handspan serve`. `environ`: variables for the process, added to those of this one.

        With the model `SPOKEN`, the process is `python -m handspan.testing`, which has other options.
        """
        self.state = folder / "state"
        """Its state folder."""
        self.log_file = folder / "gateway.log"
        """Its standard output and error, of every start."""
        self._folder = folder
        self._options = options
        self._port = port
        self._model = model
        self._environ = environ or {}
        self._process: Process | None = None
        self._ready: ReadyFile | None = None
        self._ready_file = folder / "ready.json"
        self.starts = 0

    @property
    def url(self) -> str:
        """Where it answers; the same after every start."""
        return self._ready_values.url

    @property
    def token(self) -> str:
        """The operator's token."""
        return self._ready_values.token

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._running.pid

    @property
    def is_running(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.returncode is None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        await self.launch()
        await self.wait_ready()

    async def launch(self) -> None:
        """Start it, and do not wait."""
        assert not self.is_running, "it is running already"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._ready_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environ},
                start_new_session=True,
            )
        self.starts += 1

    async def wait_ready(self, seconds: float = _SECONDS_TO_START) -> None:
        """Wait until it answers. Raises `GatewayNotReady` when it ends, or takes too long."""
        process = self._running
        try:
            async with asyncio.timeout(seconds):
                while not self._ready_file.exists():
                    if process.returncode is not None:
                        raise GatewayNotReady(f"The gateway ended with {process.returncode}: {self.log[-2000:]}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise GatewayNotReady(f"The gateway was not ready after {seconds} s: {self.log[-2000:]}") from None
        self._ready = msgspec.json.decode(self._ready_file.read_bytes(), type=ReadyFile)
        self._port = int(self._ready.url.split("/")[2].rpartition(":")[2])

    async def kill(self) -> None:
        """End it at once (SIGKILL). Does nothing when it is not running."""
        if self._process is not None:
            if self.is_running:
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    async def terminate(self, seconds: float = _SECONDS_TO_END) -> int:
        """Ask it to end (SIGTERM), and wait. Return its exit code."""
        self._running.send_signal(signal.SIGTERM)
        return await self.ended(seconds)

    async def ended(self, seconds: float = _SECONDS_TO_END) -> int:
        """Wait for its end. Return its exit code."""
        try:
            async with asyncio.timeout(seconds):
                return await self._running.wait()
        except TimeoutError:
            raise GatewayNotReady(f"The gateway did not end within {seconds} s: {self.log[-2000:]}") from None

    async def restart(self) -> None:
        """Kill it, start it again, and wait until it answers."""
        await self.kill()
        await self.start()

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_file.read_text("utf-8", "replace") if self.log_file.exists() else ""

    @property
    def memory(self) -> int:
        """The bytes of memory that it uses now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def _ready_values(self) -> ReadyFile:
        assert self._ready is not None, "it was never ready: use `async with`, or `start`"
        return self._ready

    @property
    def _running(self) -> Process:
        assert self._process is not None, "it was never started: use `async with`, or `start`"
        return self._process

    def _command(self) -> list[str]:
        """Return the command line of the process."""
        given = {
            "--port": str(self._port),
            "--state": str(self.state),
            "--workspace": str(self._folder / "workspace"),
            "--ready-file": str(self._ready_file),
        }
        words = [word for pair in given.items() for word in pair]
        if self._model == SPOKEN:
            return [sys.executable, "-m", "handspan.testing", *words, *self._options]
        return [sys.executable, "-m", "handspan.cli.main", "serve", *words, "--model", self._model, *self._options]
