"""One Android device behind adb: its apps with tools, their calls, how they are woken and log in (cetp.md 7, 8.5)."""

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from handspan.bridge.adb import Adb, AdbAnswerTooLarge, AdbError, AdbOutput, ListedDevice
from handspan.core.errors import WireError
from handspan.core.values import JsonObject
from handspan.wire.android_bundle import encode_extras, find_result, read_bundle_text
from handspan.wire.android_manifest import ACTION, ToolDeclaration, read_declaration
from handspan.wire.cetp import PROTOCOL_VERSION, CetpError, CetpResponse, no_response_error, read_bundle

_log = logging.getLogger(__name__)
_COMPONENT: Final = re.compile(r"^\s*([A-Za-z][\w.]*)/[\w.$]+\s*$", re.MULTILINE)
_LISTED_AUTHORITY: Final = re.compile(r"^\s*\[([\w.-]+)\]:\s*$", re.MULTILINE)
_NAME: Final = re.compile(r"[A-Za-z0-9_][\w.-]{0,255}", re.ASCII)
_SEED_AUTHORITY: Final = ".clawseed.tools"
_PROBE: Final = ("--uri", "content://handspan.probe", "--method", "probe", "--extra", "a:s:b:c")
_NOT_WELL_FORMED: Final = "Binding not well formed"
_REFUSED: Final = ("SecurityException", "Permission Denial")
_WAKE_SECONDS: Final = 20.0
_MAX_CALLS: Final = 8
"""Calls of one app that run at once, each in a process of adb. One app's calls hold up no other's."""
_SHELL: Final = "Through adb the caller is the shell user (com.android.shell, uid 2000), not an app"
_LET_IN: Final = (
    f"{_SHELL}, and no app's permission can be given to it. While you develop: run `adb root` on an emulator, or leave"
    " android:permission out in the debug build of the app, or use the bridge of the Kotlin kit on the phone itself."
)
_ADMIT: Final = f"{_SHELL}: let the provider admit that one while you develop"


class InstalledApp(Struct, frozen=True):
    """An app on the device that declares tools."""

    package: str
    path: str
    """The app's file. The path changes with every installation."""
    authority: str = ""
    problem: str = ""


class AndroidDevice:
    """The apps of one device. No method raises for what an app does."""

    def __init__(self, adb: Adb, listed: ListedDevice) -> None:
        self.serial = listed.serial
        self.name = listed.name
        self._adb = adb
        self._apps: dict[str, InstalledApp] = {}
        self._escapes: bool | None = None
        """Whether this Android reads escapes in `--extra`; None: not known yet."""
        self._slots: dict[str, asyncio.Semaphore] = {}

    # Scans.

    async def installed(self) -> dict[str, str]:
        """Return the packages that answer the action, with the paths of their files. Raises `AdbError`."""
        found = await self._shell(("cmd", "package", "query-services", "--brief", "-a", ACTION))
        packages = dict.fromkeys(_COMPONENT.findall(found.text))
        if not packages and "No services found" not in found.text:
            raise AdbError(f"its services can't be listed (Android 7 or later is needed): {_last_line(found)}")
        if not packages:
            return {}
        listed = await self._shell(("pm", "list", "packages", "-f"))
        paths = dict(_read_package(line) for line in listed.text.splitlines() if line.startswith("package:"))
        return {package: paths.get(package, "") for package in packages}

    async def scan(self) -> list[InstalledApp]:
        """Return the apps with tools, also those that can't be used. Raises `AdbError`."""
        apps: dict[str, InstalledApp] = {}
        for package, path in (await self.installed()).items():
            app = self._apps.get(package)
            is_same = app is not None and app.path == path and not app.problem
            apps[package] = app if app is not None and is_same else await self._inspect(package, path)
        self._apps = apps  # calls that run meanwhile find the apps of the last scan
        return list(self._apps.values())

    async def _inspect(self, package: str, path: str) -> InstalledApp:
        """Return the app with its authority, or with the problem that it has."""
        declared = await self._read_declaration(path) if path else None
        if declared is not None and declared.version != str(PROTOCOL_VERSION):
            return InstalledApp(package, path, problem=_version_problem(declared.version))
        authority = declared.authority if declared is not None else ""
        authority = authority or await self._find_authority(package)
        if not _NAME.fullmatch(authority):
            problem = "its meta-data com.clawseed.tools.authority can't be read: write the authority itself there"
            return InstalledApp(package, path, problem=problem)
        return InstalledApp(package, path, authority)

    async def _read_declaration(self, path: str) -> ToolDeclaration | None:
        """Return the meta-data out of the app's file; None where this device can't unpack it."""
        output = await self._shell(("unzip", "-p", path, "AndroidManifest.xml"))
        try:
            return read_declaration(output.stdout)
        except WireError as error:
            _log.info("%s: the manifest in %r can't be read. %s", self.serial, path, error)
            return None

    async def _find_authority(self, package: str) -> str:
        """Return the authority that looks like the seed's, or the only one, among those of the package."""
        output = await self._shell(("dumpsys", "package", package))
        _, _, listed = output.text.partition("ContentProvider Authorities:")
        found = dict.fromkeys(_LISTED_AUTHORITY.findall(listed.partition("\n\n")[0]))
        fitting = [one for one in found if one.endswith(_SEED_AUTHORITY)] or list(found)
        return fitting[0] if len(fitting) == 1 else ""

    # Calls.

    async def call(self, package: str, method: str, extras: JsonObject | None) -> CetpResponse:
        """Return the response of the app; without one, the error of cetp.md 2.6."""
        app = self._apps.get(package)
        if app is None or app.problem:
            return no_response_error(package, "it was removed from the device")
        try:
            options = encode_extras(extras or {}, escapes=await self._reads_escapes() if extras else False)
            uri = f"content://{app.authority}"
            argv = ("content", "call", "--uri", uri, "--method", method, *options)
            async with self._slots.setdefault(package, asyncio.Semaphore(_MAX_CALLS)):
                return _read_call(package, await self._adb.shell(self.serial, argv, None))
        except WireError as error:
            return CetpError("INVALID_ARGS", str(error))
        except AdbAnswerTooLarge as error:
            return CetpError("INTERNAL_ERROR", f"The call of {package} is not tried again: {error}")
        except AdbError as error:
            return no_response_error(package, str(error))

    async def _reads_escapes(self) -> bool:
        """Whether this Android wants `\\` and `:` escaped: one that does refuses a value with a bare `:`."""
        if self._escapes is None:
            output = await self._shell(("content", "call", *_PROBE))
            self._escapes = _NOT_WELL_FORMED in output.complaint
        return self._escapes

    # The app's process and screen.

    async def wake(self, package: str, *, shows_screen: bool) -> None:
        """Let Android start the app's process for its content provider; with `shows_screen`, show the app."""
        if shows_screen:
            await self._show(package)
        elif package in self._apps:
            uri = f"content://{self._apps[package].authority}"
            await self._try(package, ("content", "gettype", "--uri", uri))

    async def authorize(self, package: str, intent: str) -> None:
        """Start the app's own login; an app that names none shows its first screen."""
        if intent:
            await self._try(package, ("am", "start", "-a", intent, "-p", package))
        else:
            await self._show(package)

    async def _show(self, package: str) -> None:
        """Show the app's first screen."""
        launcher = ("-a", "android.intent.action.MAIN", "-c", "android.intent.category.LAUNCHER")
        output = await self._try(package, ("cmd", "package", "resolve-activity", "--brief", *launcher, package))
        lines = output.text.split() if output is not None else []
        if lines and lines[-1].startswith(f"{package}/"):
            await self._try(package, ("am", "start", "-W", "-n", lines[-1]))
        else:
            _log.warning("%s has no screen on %s", package, self.serial)

    async def _try(self, package: str, argv: Sequence[str]) -> AdbOutput | None:
        """Return what this command printed; None if it could not be run. A failure is logged."""
        try:
            output = await self._adb.shell(self.serial, argv, _WAKE_SECONDS)
        except AdbError as error:
            _log.warning("%s on %s: %s", package, self.serial, error)
            return None
        if "Error" in output.complaint:
            _log.warning("%s on %s: %s", package, self.serial, _last_line(output))
        return output

    async def _shell(self, argv: Sequence[str]) -> AdbOutput:
        return await self._adb.shell(self.serial, argv)


def _read_call(package: str, output: AdbOutput) -> CetpResponse:
    """Return the response of a call. Android prints failures of the call itself in place of a result."""
    result = find_result(output.text)
    if result is not None:
        return _explain(read_bundle(read_bundle_text(result)))
    complaint = output.complaint
    if any(word in complaint for word in _REFUSED):
        return CetpError("PERMISSION_DENIED", f"Android refused the call: {_cause(complaint)}. {_LET_IN}")
    if "Could not find provider" in complaint:
        return no_response_error(package, "Android finds no content provider of its authority")
    return no_response_error(package, _cause(complaint) if complaint else "it printed nothing")


def _explain(response: CetpResponse) -> CetpResponse:
    """Return the response; in a refusal, add which caller the provider has seen."""
    if not isinstance(response, CetpError):
        return response
    if response.error_code == "PERMISSION_DENIED":
        return CetpError("PERMISSION_DENIED", f"{response.error_message} ({_ADMIT})")
    if response.error_code == "AUTH_REQUIRED":
        hint = f"{response.resolution_hint} ({_ADMIT})" if response.resolution_hint else _ADMIT
        return CetpError("AUTH_REQUIRED", response.error_message, hint, response.authorize_intent)
    return response


def _cause(complaint: str) -> str:
    """Return the line that names the exception, else the first line."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    named = [line for line in lines if "Exception: " in line or line.startswith("[ERROR]")]
    return (named or lines)[0].rstrip(".")


def _last_line(output: AdbOutput) -> str:
    return (output.complaint.splitlines() or ["it printed nothing"])[-1].strip()


def _read_package(line: str) -> tuple[str, str]:
    """Return the package and its path from a line `package:/data/app/…/base.apk=com.example`."""
    path, _, package = line.strip().removeprefix("package:").rpartition("=")
    return package, path


def _version_problem(version: str) -> str:
    if version.isascii() and version.isdigit() and int(version) > PROTOCOL_VERSION:
        return f"it speaks version {version} of CETP, and only version 1 is known here"
    return f"its meta-data com.clawseed.tools.version is {version!r}: write 1"
