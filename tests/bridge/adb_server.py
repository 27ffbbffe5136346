"""A server that speaks adb's host protocol, for the real program `adb`: it has phones that are not there."""

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

_VERSION: Final = b"0029"
"""Of adb 1.0.41. The program would end a server of another version, and start its own."""
_STDOUT, _STDERR, _EXIT = 1, 2, 3
_COMMANDS: Final = ("am", "cmd", "content", "dumpsys", "pm", "unzip")
_PRINT_WORDS: Final = '#!/bin/sh\nprintf \'%s\\0\' "${0##*/}" "$@"\n'


class Phone(Protocol):
    """What the server needs of a phone."""

    serial: str
    state: str
    model: str

    async def run(self, argv: Sequence[str]) -> tuple[bytes, bytes, int]:
        """Run a command: what it prints on both sides, and its exit code."""
        ...


class AdbServer:
    """The phones, and what was run on them."""

    def __init__(self, folder: Path) -> None:
        self.phones: dict[str, Phone] = {}
        self.commands: list[list[str]] = []
        """Every command that was run, as the shell of the phone has read it."""
        self._changed: set[asyncio.Event] = set()
        self._folder = folder
        self.port = 0
        for name in _COMMANDS:
            (folder / name).write_text(_PRINT_WORDS)
            (folder / name).chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        """For the program: where this server is. An address that is not `localhost` keeps it from starting its own."""
        socket = f"tcp:127.0.0.1:{self.port}"
        return {"PATH": os.environ["PATH"], "HOME": str(self._folder), "ADB_SERVER_SOCKET": socket}

    def plug_in(self, phone: Phone) -> None:
        self.phones[phone.serial] = phone
        self.tell()

    def unplug(self, serial: str) -> None:
        del self.phones[serial]
        self.tell()

    def tell(self) -> None:
        """Tell everyone who tracks the devices."""
        for event in self._changed:
            event.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection of the program."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            phone: Phone | None = None
            while (request := await _read_request(reader)) is not None:
                if request == "host:version":
                    writer.write(b"OKAY0004" + _VERSION)
                elif request == "host:devices-l":
                    writer.write(b"OKAY" + _counted(self._list()))
                elif request == "host:track-devices":
                    await self._track(writer)
                elif request.endswith(":features"):
                    writer.write(b"OKAY" + _counted("shell_v2,cmd"))
                elif request.startswith(("host:transport:", "host:tport:serial:")):
                    phone = self.phones.get(request.removeprefix("host:transport:").removeprefix("host:tport:serial:"))
                    if phone is None:
                        writer.write(b"FAIL" + _counted("device 'x' not found"))
                        break
                    writer.write(b"OKAY" + (struct.pack("<Q", 1) if ":tport:" in request else b""))
                    continue
                elif request.startswith("shell,v2") and phone is not None:
                    writer.write(b"OKAY")
                    await self._shell(phone, request.partition(":")[2], writer)
                else:
                    writer.write(b"FAIL" + _counted(f"unknown: {request}"))
                break
            await writer.drain()
        writer.close()

    def _list(self) -> str:
        return "".join(
            f"{phone.serial:<22} {phone.state} product:p model:{phone.model} device:d transport_id:1\n"
            for phone in self.phones.values()
        )

    async def _track(self, writer: asyncio.StreamWriter) -> None:
        event = asyncio.Event()
        self._changed.add(event)
        writer.write(b"OKAY")
        try:
            while not writer.is_closing():
                writer.write(_counted("".join(f"{one.serial}\t{one.state}\n" for one in self.phones.values())))
                await writer.drain()
                await event.wait()
                event.clear()
        finally:
            self._changed.discard(event)

    async def _shell(self, phone: Phone, command: str, writer: asyncio.StreamWriter) -> None:
        argv = await self._split(command)
        self.commands.append(argv)
        stdout, stderr, code = await phone.run(argv)
        for kind, data in ((_STDOUT, stdout), (_STDERR, stderr), (_EXIT, bytes([code]))):
            for at in range(0, len(data), 65536):
                piece = data[at : at + 65536]
                writer.write(struct.pack("<BI", kind, len(piece)) + piece)

    async def _split(self, command: str) -> list[str]:
        """The words of a command, as a real shell reads them."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, env={"PATH": str(self._folder)}, stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:  # the server was closed meanwhile
                process.kill()
                await process.wait()
        return output.decode().split("\0")[:-1]


@asynccontextmanager
async def adb_server(folder: Path) -> AsyncIterator[AdbServer]:
    """A server without phones."""
    server = AdbServer(folder)
    tasks: set[asyncio.Task[None]] = set()
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = server.serve

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await answer(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            tasks.discard(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> str | None:
    head = await reader.read(4)
    if len(head) < 4:
        return None
    return (await reader.readexactly(int(head, 16))).decode()


def _counted(text: str) -> bytes:
    data = text.encode()
    return b"%04x" % len(data) + data
