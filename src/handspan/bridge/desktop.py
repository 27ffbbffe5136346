"""Apps on this computer: found by their manifests, called over Unix sockets, started on demand (cetp.md 6)."""

import asyncio
import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, TypeAlias

import msgspec

from handspan.bridge.transport import ProviderApp
from handspan.core.values import JsonObject
from handspan.provider.connection import CallFailed, ProviderSocket
from handspan.provider.launch import StartedProgram, is_listening, start_program, wait_until_listening
from handspan.provider.manifests import FoundManifest, find_manifests
from handspan.wire.cetp import CetpRequest, CetpResponse, no_response_error
from handspan.wire.cetp_manifest import ProviderManifest, manifest_folders

MayStart: TypeAlias = Callable[[ProviderApp, Sequence[str]], Awaitable[bool]]
"""Whether the person lets us start this app with this command."""

_log = logging.getLogger(__name__)
SCAN_SECONDS: Final = 1.0
"""The time between two looks at the folders. Looking needs no library, and works on every file system."""
_SECONDS_TO_END: Final = 2.0
_SECONDS_TO_NOTICE: Final = 0.5
"""How long the end of a program may lag behind the end of its socket."""
_MOST_READ: Final = 2000
"""Bytes at the end of what a login wrote that are looked at for its last line."""


class DesktopTransport:
    """The apps whose manifests stand in the data folders of this person."""

    def __init__(
        self, environment: Mapping[str, str], may_start: MayStart, *, scan_seconds: float = SCAN_SECONDS
    ) -> None:
        """`scan_seconds`: the time between two looks at the folders."""
        self._scan_seconds = scan_seconds
        self._environment = environment
        self._may_start = may_start
        self._found: dict[str, FoundManifest] = {}
        self._sockets: dict[str, tuple[Path, ProviderSocket]] = {}
        self._starting: dict[str, asyncio.Lock] = {}
        self._started: dict[str, tuple[list[str], StartedProgram]] = {}
        """The programs of apps that were started here, with their commands."""
        self._logins: dict[asyncio.Task[None], StartedProgram] = {}
        """The programs that let the person log in, each with the task that waits for its end."""

    async def apps(self) -> Sequence[ProviderApp]:
        """Return every app with a manifest, also one that can't be used. Of several with one id, the first counts."""
        found = await asyncio.to_thread(find_manifests, self._environment)
        self._found = {}
        for one in found:
            self._found.setdefault(one.id, one)
        for app_id in self._sockets.keys() - self._found.keys():
            self._sockets.pop(app_id)[1].close()
        await self._end_replaced()
        return [_app(one) for one in self._found.values()]

    async def call(self, app: ProviderApp, method: str, extras: JsonObject | None) -> CetpResponse:
        """Return the response of the app."""
        found = self._found.get(app.id)
        if found is None:
            return no_response_error(app.id, "its manifest was removed: install the app again to use it")
        if found.socket is None:
            return no_response_error(app.id, f"its manifest can't be used: {found.problem}")
        return await self._socket(app.id, found.socket).call(CetpRequest(method, extras))

    async def changes(self) -> AsyncIterator[None]:
        """Yield each time when a manifest was added, replaced or removed."""
        seen = await asyncio.to_thread(self._snapshot)
        while True:
            await asyncio.sleep(self._scan_seconds)
            now = await asyncio.to_thread(self._snapshot)
            if now != seen:
                seen = now
                yield

    async def wake(self, app: ProviderApp, *, shows_screen: bool) -> str:
        """Start the app's program, unless it runs. Return why that was in vain; empty when the app can be reached.

        There is no other way on the desktop, with or without a screen.
        """
        async with self._starting.setdefault(app.id, asyncio.Lock()):  # calls side by side start it once
            found = self._found.get(app.id)
            if found is None or found.manifest is None or found.socket is None or is_listening(found.socket):
                return ""
            argv = found.manifest.exec
            if not argv:
                return "its manifest has no exec, so start it by hand"
            if not await asyncio.to_thread(os.path.exists, argv[0]):
                return f"its manifest starts {argv[0]!r}, which does not exist: install the app again"
            if not await self._may_start(app, argv):
                return "it may not be started: you have not allowed it"
            return await self._start_or_wait(app, argv, found.socket)

    async def _start_or_wait(self, app: ProviderApp, argv: list[str], socket: Path) -> str:
        """Start the program, or wait for one that takes long to start. Return why that was in vain; else empty."""
        running = await self._running(app.id)
        try:
            if running is None:
                await self._start(app, argv, socket)
            else:
                await wait_until_listening(socket, running)
        except CallFailed as error:
            _log.warning("%s could not be started: %s", app.id, error)
            if running is not None:  # twice in vain: the next call starts it anew
                await running.end(_SECONDS_TO_END)
            return f"it could not be started: {error}"
        return ""

    async def _running(self, app_id: str) -> StartedProgram | None:
        """Return the app's program if this transport started it and it still runs, although it does not listen."""
        _, process = self._started.get(app_id, (None, None))
        if process is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_NOTICE):
                await process.wait()
        return process if process.returncode is None else None

    async def _start(self, app: ProviderApp, argv: list[str], socket: Path) -> None:
        """Start the program of an app, and wait for its socket. Raises `CallFailed`."""
        _log.info("Starting %s: %s", app.id, argv)
        process = await start_program(argv, socket, self._environment)
        self._started[app.id] = (argv, process)
        await wait_until_listening(socket, process)

    async def authorize(self, app: ProviderApp, intent: str) -> None:
        """Start the program of the manifest that lets the person log in."""
        found = self._found.get(app.id)
        if found is None or found.manifest is None or found.socket is None or not found.manifest.authorize:
            return
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - open until the program ends; a pipe could fill up
        try:
            _log.info("Starting the login of %s: %s", app.id, found.manifest.authorize)
            process = await start_program(
                found.manifest.authorize, found.socket, self._environment, intent, errors=errors
            )
        except asyncio.CancelledError:
            errors.close()
            raise
        except CallFailed as error:
            errors.close()
            _log.warning("The login of %s could not be started: %s", app.id, error)
            return
        waiting = asyncio.create_task(_log_end(app.id, process, errors))
        self._logins[waiting] = process
        waiting.add_done_callback(self._logins.pop)

    async def close(self) -> None:
        """Close the connections. Apps that were started here run on: other programs may use them (cetp.md 6.11).

        Logins end, and programs that were started in vain.
        """
        for _, socket in self._sockets.values():
            socket.close()
        ending = list(self._logins.values())
        for app_id, (_, process) in self._started.items():
            found = self._found.get(app_id)
            if found is None or found.socket is None or not is_listening(found.socket):
                ending.append(process)
            elif process.returncode is None:
                _log.info("%s runs on: it ends by itself, or with `kill %d`", app_id, process.pid)
        for waiting in tuple(self._logins):
            waiting.cancel()  # a login that is ended here has not failed: nothing is logged
        await asyncio.gather(*(process.end(_SECONDS_TO_END) for process in ending))

    async def _end_replaced(self) -> None:
        """Ask the programs of apps that are gone, or have another command now, to end. Running calls may finish."""
        for app_id, (argv, process) in tuple(self._started.items()):
            found = self._found.get(app_id)
            if found is None or found.manifest is None or found.manifest.exec != argv:
                del self._started[app_id]
                _log.info("%s was removed or replaced: its program is asked to end", app_id)
                await process.end(_SECONDS_TO_END, kills=False)

    def _socket(self, app_id: str, path: Path) -> ProviderSocket:
        """Return the connections to the app; new ones if its socket has another path now."""
        known, socket = self._sockets.get(app_id, (None, None))
        if socket is None or known != path:
            if socket is not None:
                socket.close()
            socket = ProviderSocket(app_id, path)
            self._sockets[app_id] = (path, socket)
        return socket

    def _snapshot(self) -> list[tuple[str, int, int, int]]:
        """Return what changes when a manifest does: the name, the file and its time."""
        entries = []
        for folder in manifest_folders(self._environment):
            with contextlib.suppress(OSError), os.scandir(folder) as files:
                for file in files:
                    with contextlib.suppress(OSError):  # a link that leads nowhere
                        status = file.stat()
                        entries.append((file.path, status.st_ino, status.st_mtime_ns, status.st_mode))
        return sorted(entries)


async def _log_end(app_id: str, process: StartedProgram, errors: IO[bytes]) -> None:
    """Log how the program of a login ended, with the last line of its standard error if it failed."""
    with errors:
        code = await process.wait()
        if code == 0:
            _log.info("The login of %s is done.", app_id)
            return
        errors.seek(max(errors.seek(0, os.SEEK_END) - _MOST_READ, 0))
        lines = errors.read().decode(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it wrote no reason")
    _log.warning("The login of %s ended with exit code %d: %s", app_id, code, said)


def _app(found: FoundManifest) -> ProviderApp:
    """Return an app of this computer as the bridge knows apps, also one whose manifest can't be used."""
    manifest = found.manifest or ProviderManifest(found.id)
    data = msgspec.json.encode(manifest, order="deterministic")
    return ProviderApp(
        found.id,
        manifest.name,
        manifest.prefix,
        hashlib.sha256(data).hexdigest(),
        can_authorize=bool(manifest.authorize),
        problem=found.problem,
    )
