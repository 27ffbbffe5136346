"""A phone that is not there: its apps, and the commands of Android that a bridge uses."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

ACTION = "com.clawseed.action.TOOL_PROVIDER"
Answer: TypeAlias = Callable[[str, dict[str, str]], Awaitable[Mapping[str, str] | None] | Mapping[str, str] | None]
"""What a provider answers: the strings of its bundle, or no bundle."""


@dataclass
class PhoneApp:
    """An app with a content provider."""

    package: str
    answer: Answer
    metadata: dict[str, Any] = field(default_factory=dict)
    """What the manifest says; a value None is a resource."""
    exception: str = ""
    """What Android throws in place of a call."""
    sleeps: int = 0
    """How many calls find no process, until the app is woken."""
    has_screen: bool = True
    path: str = ""

    @property
    def authority(self) -> str:
        return f"{self.package}.clawseed.tools"


class FakePhone:
    """Answers commands as AOSP's sources say."""

    def __init__(self, serial: str = "emulator-5554", *, escapes: bool = True, state: str = "device") -> None:
        self.serial = serial
        self.state = state
        self.model = "Pixel_8"
        self.escapes = escapes
        self.has_unzip = True
        self.apps: dict[str, PhoneApp] = {}
        self.started: list[list[str]] = []
        """Every `am start`."""
        self._installed = 0

    def install(self, package: str, answer: Answer, **more: Any) -> PhoneApp:
        """Install an app, or replace it."""
        self._installed += 1
        app = PhoneApp(package, answer, **more)
        app.path = f"/data/app/~~{self._installed}==/{package}-x==/base.apk"
        app.metadata = {"com.clawseed.tools.authority": app.authority, "com.clawseed.tools.version": 1} | app.metadata
        self.apps[package] = app
        return app

    async def run(self, argv: Sequence[str]) -> tuple[bytes, bytes, int]:
        match list(argv):
            case ["cmd", "package", "query-services", "--brief", "-a", action]:
                return self._services(action)
            case ["pm", "list", "packages", "-f"]:
                lines = ["package:/system/app/Shell/Shell.apk=com.android.shell"]
                lines += [f"package:{app.path}={app.package}" for app in self.apps.values()]
                return printed("\n".join(lines))
            case ["unzip", "-p", path, "AndroidManifest.xml"] if self.has_unzip:
                (app,) = [one for one in self.apps.values() if one.path == path]
                return binary_manifest(app), b"", 0
            case ["unzip", *_]:
                return b"", b"/system/bin/sh: unzip: inaccessible or not found\n", 127
            case ["dumpsys", "package", package]:
                return printed(dump(self.apps[package]))
            case ["content", "call", *options]:
                return await self._call(options)
            case ["content", "gettype", "--uri", uri]:
                for app in self._apps_of(uri):
                    app.sleeps -= 1
                return printed("Result: null")
            case ["cmd", "package", "resolve-activity", "--brief", *_, package]:
                has_screen = self.apps[package].has_screen
                return printed(f"priority=0 isDefault=false\n{package}/.Main" if has_screen else "No activity found")
            case ["am", "start", *words]:
                return self._start(words)
        return b"", f"/system/bin/sh: {argv[0]}: inaccessible or not found\n".encode(), 127

    def _services(self, action: str) -> tuple[bytes, bytes, int]:
        assert action == ACTION
        if not self.apps:
            return printed("No services found")
        lines = [f"{len(self.apps)} services found:"]
        for number, package in enumerate(self.apps):
            lines += [f"  Service #{number}:", "    priority=0 preferredOrder=0 match=0x108000 specificIndex=-1"]
            lines += [f"      {package}/.cetp.ToolProviderService"]
        return printed("\n".join(lines))

    def _start(self, words: list[str]) -> tuple[bytes, bytes, int]:
        self.started.append(words)
        package = words[-1].partition("/")[0]
        if package in self.apps:
            self.apps[package].sleeps -= 1
            return printed("Starting: Intent { … }")
        return printed("Error: Activity not started, unable to resolve Intent { … }")

    def _apps_of(self, uri: str) -> list[PhoneApp]:
        return [app for app in self.apps.values() if uri == f"content://{app.authority}"]

    async def _call(self, options: list[str]) -> tuple[bytes, bytes, int]:
        given = list(zip(options[::2], options[1::2], strict=True))
        extras: dict[str, str] = {}
        for _, binding in [one for one in given if one[0] == "--extra"]:
            words = split_binding(binding, escapes=self.escapes)
            if len(words) != 3:
                return printed(f"[ERROR] Binding not well formed: {binding}\n\nusage: adb shell content …")
            assert words[1] == "s"
            extras[words[0]] = words[2]
        found = self._apps_of(dict(given)["--uri"])
        if not found:
            return b"", thrown("java.lang.IllegalStateException: Could not find provider: x"), 0
        (app,) = found
        if app.exception:
            return b"", thrown(app.exception), 0
        if app.sleeps > 0 and extras:  # a scan finds it awake
            return b"", thrown("android.os.DeadObjectException: it sleeps"), 0
        answered = app.answer(dict(given)["--method"], extras)
        bundle = await answered if isinstance(answered, Awaitable) else answered
        return printed(f"Result: {bundle_text(bundle)}")


def split_binding(binding: str, *, escapes: bool) -> list[str]:
    """The key, the type and the value of `--extra`, in the way of a new Android and of an old one."""
    if not escapes:
        return binding.split(":", 2)
    words, characters = [""], iter(binding)
    for one in characters:
        if one == ":":
            words.append("")
        else:
            words[-1] += next(characters) if one == "\\" else one
    return words


def java_hash(text: str) -> int:
    """What `String.hashCode` gives."""
    code = 0
    units = text.encode("utf-16-le")
    for (unit,) in struct.iter_unpack("<H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def bundle_text(bundle: Mapping[str, str] | None) -> str:
    """What `Bundle.toString` gives: the keys in the order of their hashes, nothing escaped."""
    if bundle is None:
        return "null"
    return f"Bundle[{{{', '.join(f'{key}={bundle[key]}' for key in sorted(bundle, key=java_hash))}}}]"


def printed(text: str) -> tuple[bytes, bytes, int]:
    return f"{text}\n".encode(), b"", 0


def thrown(text: str) -> bytes:
    return f"Error while accessing provider:x\n{text}\n\tat android.os.Parcel.readException\n".encode()


def dump(app: PhoneApp) -> str:
    """A part of `dumpsys package`."""
    listed = (f"{app.package}.androidx-startup", app.authority)
    providers = "".join(f"  [{one}]:\n    Provider{{1a2b {app.package}/.P}}\n" for one in listed)
    return f"Service Resolver Table:\n  [x]:\n\nContentProvider Authorities:\n{providers}\nKey Set Manager:\n  [y]:\n"


# Binary XML.

_NAME, _VALUE = 0x01010003, 0x01010024


class _Strings:
    """A pool of strings, in the order in which they are asked for."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text)

    def encode(self, *, is_utf8: bool) -> bytes:
        data, offsets = b"", []
        for text in self.texts:
            offsets.append(len(data))
            data += _encode_utf8(text) if is_utf8 else _encode_utf16(text)
        data += b"\0" * (-len(data) % 4)
        start = 28 + 4 * len(offsets)
        head = struct.pack("<IIIII", len(offsets), 0, 0x100 if is_utf8 else 0, start, 0)
        return _chunk(0x0001, head + struct.pack(f"<{len(offsets)}I", *offsets) + data, head_size=28)


def _encode_utf8(text: str) -> bytes:
    data = text.encode()
    lengths = b"".join(
        bytes([0x80 | size >> 8, size & 0xFF]) if size > 0x7F else bytes([size]) for size in (len(text), len(data))
    )
    return lengths + data + b"\0"


def _encode_utf16(text: str) -> bytes:
    return struct.pack("<H", len(text)) + text.encode("utf-16-le") + b"\0\0"


def _chunk(kind: int, body: bytes, head_size: int) -> bytes:
    return struct.pack("<HHI", kind, head_size, 8 + len(body)) + body


def binary_manifest(app: PhoneApp, *, is_utf8: bool = True, has_names: bool = True) -> bytes:
    """The manifest of an app as its file has it. `has_names` False: attributes have numbers alone."""
    strings = _Strings()
    strings.texts = ["name", "value"] if has_names else ["", "\0"]
    elements = [
        ("+manifest", {}),
        *[("+service", {"name": ".Other"}), ("-service", {})],
        ("+service", {"name": ".cetp.ToolProviderService"}),
        *[("+intent-filter", {}), ("+action", {"name": ACTION}), ("-action", {}), ("-intent-filter", {})],
    ]
    for name, value in app.metadata.items():
        elements += [("+meta-data", {"name": name, "value": value}), ("-meta-data", {})]
    elements += [("-service", {}), ("-manifest", {})]
    body = b"".join(_element(strings, mark[0] == "+", mark[1:], attributes) for mark, attributes in elements)
    ids = _chunk(0x0180, struct.pack("<II", _NAME, _VALUE), head_size=8)
    return _chunk(0x0003, strings.encode(is_utf8=is_utf8) + ids + body, head_size=8)


def _element(strings: _Strings, is_start: bool, name: str, attributes: Mapping[str, Any]) -> bytes:
    none = 0xFFFFFFFF
    body = struct.pack("<IIII", 1, none, none, strings(name))
    if not is_start:
        return _chunk(0x0103, body, head_size=16)
    body += struct.pack("<HHHHHH", 20, 20, len(attributes), 0, 0, 0)
    for key, value in attributes.items():
        match value:
            case str():
                typed = (strings(value), 8, 0, 0x03, strings(value))
            case int():
                typed = (none, 8, 0, 0x10, value)
            case _:
                typed = (none, 8, 0, 0x01, 0x7F010001)
        body += struct.pack("<IIIHBBI", none, 0 if key == "name" else 1, *typed)
    return _chunk(0x0102, body, head_size=16)


async def forever(method: str, extras: dict[str, str]) -> Mapping[str, str]:
    """A provider that never answers."""
    await asyncio.Event().wait()
    raise AssertionError
