"""The program `adb` of Android's developer tools: which devices it knows, and commands on one of them.

`adb` starts a server of its own when none runs; that server stays, as it does after every use of `adb`.
"""

import asyncio
import contextlib
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from handspan.core.errors import HandspanError
from handspan.wire.cetp import RESPONSE_BYTES

INSTALL: Final = "install it with `apt-get install adb`, or from Android's platform tools"
_SECONDS: Final = 15.0
"""How long a command may take that does not wait for an app."""
_MAX_COMMAND: Final = 60_000
"""Bytes of a command: the protocol of adb has four hexadecimal digits for its length."""
_CHUNK: Final = 65536
_OWN_WORDS: Final = ("adb: ", "error: ", "* ")
"""How adb's own complaints begin; all others are the device's."""
_MODEL: Final = re.compile(r"\bmodel:(\S+)")
_STATES: Final = {
    "unauthorized": "it has not allowed this computer yet: unlock it and accept 'Allow USB debugging'",
    "authorizing": "it is being asked whether it allows this computer: look at its screen",
    "offline": "adb can't reach it: plug it in again, or run `adb reconnect offline`",
    "no permissions": "this user may not use the USB device: install android-sdk-platform-tools-common, and plug it in"
    " again",
}


class AdbError(HandspanError):
    """A command could not be run on a device; the message says why."""


class AdbAnswerTooLarge(AdbError):
    """A command printed more bytes than a consumer takes. To run it again would bring the same."""


class ListedDevice(Struct, frozen=True):
    """A device that adb knows."""

    serial: str
    name: str
    """Its model, or the serial number."""
    problem: str = ""
    """Why it can't be used; empty when it can."""


class AdbOutput(Struct, frozen=True):
    """What a command on a device printed."""

    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """The standard output."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """All that the command printed, errors first: Android's commands complain on either stream, and exit with 0."""
        return f"{self.stderr.decode('utf-8', 'replace')}\n{self.text}".strip()


class Adb:
    """Runs `adb`, a process for each command."""

    def __init__(self, environment: Mapping[str, str], program: str = "adb") -> None:
        self._environment = environment
        self._program = program

    async def devices(self) -> list[ListedDevice]:
        """Return the devices that are plugged in or connected, also those that can't be used. Raises `AdbError`."""
        async with self._in_time(_SECONDS):
            output = await self._run("devices", "-l")
        lines = output.text.partition("List of devices attached")[2].splitlines()
        return [_read_line(line) for line in lines if line.strip()]

    async def shell(self, serial: str, argv: Sequence[str], seconds: float | None = _SECONDS) -> AdbOutput:
        """Return what this command printed on this device. Raises `AdbError`; `seconds` None: it may take any time."""
        command = " ".join(shlex.quote(word) for word in argv)
        if (size := len(command.encode())) > _MAX_COMMAND:
            raise AdbError(f"the command has {size:,} bytes, and adb carries {_MAX_COMMAND:,}: send less")
        async with self._in_time(seconds):
            return await self._run("-s", serial, "shell", command)

    async def track(self) -> AsyncIterator[None]:
        """Yield each time when a device was added or removed, or has changed its state. Raises `AdbError`."""
        process = await self._start("track-devices")
        try:
            assert process.stdout is not None
            while await process.stdout.read(_CHUNK):
                yield
        finally:
            await _end(process)

    @contextlib.asynccontextmanager
    async def _in_time(self, seconds: float | None) -> AsyncIterator[None]:
        """Raise `AdbError` when the block takes longer than this."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise AdbError(f"there was no answer within {seconds:g} seconds") from None

    async def _run(self, *words: str) -> AdbOutput:
        """Return what adb printed. Raises `AdbError` for a failure of adb itself, not of the device's command."""
        process = await self._start(*words)
        try:
            stdout, stderr = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            await process.wait()
        finally:
            await _end(process)
        output = AdbOutput(stdout, stderr)
        last = (stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
        if process.returncode and last.startswith(_OWN_WORDS):
            raise AdbError(last)
        return output

    async def _start(self, *words: str) -> asyncio.subprocess.Process:
        """Start adb with these words. Raises `AdbError` when it can't be started."""
        pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            return await asyncio.create_subprocess_exec(
                self._program, *words, env=self._environment, stdin=nothing, stdout=pipe, stderr=pipe
            )
        except FileNotFoundError:
            raise AdbError(f"the program {self._program!r} is not there: {INSTALL}") from None
        except OSError as error:
            raise AdbError(f"the program {self._program!r} can't be started: {error.strerror}") from None


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """Return all bytes of the stream. Raises `AdbError` when they are too many (cetp.md 2.8)."""
    assert stream is not None
    chunks, size = [], 0
    while chunk := await stream.read(_CHUNK):
        size += len(chunk)
        if size > RESPONSE_BYTES:
            raise AdbAnswerTooLarge(f"it answered with more than {RESPONSE_BYTES:,} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _read_line(line: str) -> ListedDevice:
    """Return the device in one line of `adb devices -l`."""
    serial, _, rest = line.strip().partition(" ")
    state = rest.strip()
    model = _MODEL.search(state)
    name = model.group(1).replace("_", " ") if model else serial
    if state == "device" or state.startswith("device "):
        return ListedDevice(serial, name)
    problem = next((text for begin, text in _STATES.items() if state.startswith(begin)), "")
    return ListedDevice(serial, name, problem or f"adb says that its state is {state.split(' ')[0]!r}")
