"""Apps on Android phones and emulators that are connected to this computer, through adb (cetp.md 7)."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from handspan.bridge.adb import Adb, AdbError, ListedDevice
from handspan.bridge.android_device import AndroidDevice, InstalledApp
from handspan.bridge.transport import ProviderApp
from handspan.core.values import JsonObject
from handspan.wire.cetp import CetpResponse, label_of, no_response_error

_log = logging.getLogger(__name__)
PACKAGE_SECONDS: Final = 5.0
"""The time between two looks at the packages: adb tells when a device changes, but not when a package does."""


class AndroidTransport:
    """The apps with tools on every device that adb knows. An app's id is `PACKAGE@SERIAL`."""

    def __init__(
        self, environment: Mapping[str, str], *, program: str = "adb", scan_seconds: float = PACKAGE_SECONDS
    ) -> None:
        """`scan_seconds`: the time between two looks at the packages."""
        self._adb = Adb(environment, program)
        self._scan_seconds = scan_seconds
        self._devices: dict[str, AndroidDevice] = {}
        self._changed = asyncio.Event()

    async def apps(self) -> Sequence[ProviderApp]:
        """Return the apps of all devices, and for each device that can't be used an entry that says why."""
        try:
            listed = await self._adb.devices()
        except AdbError as error:
            return [ProviderApp("android", "Android", "android", problem=f"adb does not work: {error}")]
        usable = {one.serial: one for one in listed if not one.problem}
        self._devices = {
            serial: self._devices.get(serial) or AndroidDevice(self._adb, one) for serial, one in usable.items()
        }
        found = await asyncio.gather(*(_scan(device) for device in self._devices.values()))
        return [app for apps in (*found, [_problem(one) for one in listed if one.problem]) for app in apps]

    async def call(self, app: ProviderApp, method: str, extras: JsonObject | None) -> CetpResponse:
        """Return the response of the app."""
        package, device = self._find(app)
        if device is None:
            return no_response_error(app.id, "its device is not connected any more")
        return await device.call(package, method, extras)

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever a device comes or goes, or a package on one is added, replaced or removed."""
        tracking = asyncio.create_task(self._track())
        try:
            seen = await self._snapshot()
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._scan_seconds):
                        await self._changed.wait()
                is_changed = self._changed.is_set()
                self._changed.clear()
                before, seen = seen, await self._snapshot()
                if is_changed or seen != before:
                    yield
        finally:
            tracking.cancel()
            await asyncio.gather(tracking, return_exceptions=True)

    async def wake(self, app: ProviderApp, *, shows_screen: bool) -> str:
        """Make the app's process start for its content provider; with `shows_screen`, show the app on the device."""
        package, device = self._find(app)
        if device is not None:
            await device.wake(package, shows_screen=shows_screen)
        return ""

    async def authorize(self, app: ProviderApp, intent: str) -> None:
        """Start the app's login on the device."""
        package, device = self._find(app)
        if device is not None:
            await device.authorize(package, intent)

    async def close(self) -> None:
        """Nothing to do: no process of ours outlives its call, and adb's own server stays."""

    def _find(self, app: ProviderApp) -> tuple[str, AndroidDevice | None]:
        package, _, serial = app.id.partition("@")
        return package, self._devices.get(serial)

    async def _track(self) -> None:
        """Note when a device comes or goes. When adb's server ends, the next try starts it again."""
        while True:
            try:
                async for _ in self._adb.track():
                    self._changed.set()
            except AdbError as error:
                _log.debug("adb does not tell about devices: %s", error)
            await asyncio.sleep(self._scan_seconds)

    async def _snapshot(self) -> dict[str, dict[str, str]]:
        """Return the packages of each device with the paths of their files: a path changes with an update."""
        devices = list(self._devices.values())
        found = await asyncio.gather(*(device.installed() for device in devices), return_exceptions=True)
        return {
            device.serial: installed
            for device, installed in zip(devices, found, strict=True)
            if not isinstance(installed, BaseException)
        }


async def _scan(device: AndroidDevice) -> list[ProviderApp]:
    try:
        return [_app(device, app) for app in await device.scan()]
    except AdbError as error:
        return [_problem(ListedDevice(device.serial, device.name, str(error)))]


def _app(device: AndroidDevice, app: InstalledApp) -> ProviderApp:
    """Return an app of a phone as the bridge knows apps."""
    name = app.package.rpartition(".")[2]
    return ProviderApp(
        f"{app.package}@{device.serial}",
        f"{name} on {device.name}",
        label_of(name),
        app.path,
        can_authorize=True,
        problem=app.problem,
    )


def _problem(device: ListedDevice) -> ProviderApp:
    """Return the entry for a device that can't be used."""
    return ProviderApp(f"android@{device.serial}", device.name, "android", problem=f"{device.name}: {device.problem}")
