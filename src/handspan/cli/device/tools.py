"""What this computer can do as a device: tools with the permissions that they need, where it has the means for them."""

import os
import platform
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from handspan.cli.device.programs import CLIPBOARDS, NOTIFIERS, SCREENS, Program, has_display, run_program, usable
from handspan.client.context import CallContext
from handspan.client.results import Image
from handspan.core.errors import ToolError
from handspan.core.tool import READ_ONLY, Annotations, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject

DELAY_VARIABLE: Final = "HANDSPAN_DEVICE_INFO_DELAY"
"""Seconds that `device_info` waits: a call so long that its node can be killed meanwhile (docs/scale.md shows that)."""
PERMISSIONS: Final = ("screen", "clipboard.read", "clipboard.write", "notifications", "browser")

Code: TypeAlias = Callable[[Arguments, CallContext], Any]
Announce: TypeAlias = Callable[[str], None]
"""Shows a text in the terminal, with its bell."""

_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": False}
_PNG: Final = b"\x89PNG\r\n\x1a\n"


def object_schema(properties: JsonObject, *required: str) -> JsonObject:
    """Return the schema of arguments, in the form of the seed (SPEC W11)."""
    return {"type": "object", "properties": properties, "required": list(required)}


class DeviceTool(Struct, frozen=True):
    """A tool of this computer."""

    spec: ToolSpec
    code: Code


def device_tools(environ: Mapping[str, str], announce: Announce) -> list[DeviceTool]:
    """Return the tools that this computer can have now."""
    tools = [_device_info(environ), _notify(usable(NOTIFIERS, environ), announce)]
    screen, clipboard = usable(SCREENS, environ), usable(CLIPBOARDS, environ)
    if screen is not None:
        tools.append(_screenshot(screen))
    if clipboard is not None:
        tools += [_clipboard(clipboard), _set_clipboard(clipboard)]
    if has_display(environ) or environ.get("BROWSER"):
        tools.append(_open_url())
    return tools


# What it is.


def _device_info(environ: Mapping[str, str]) -> DeviceTool:
    """Return the tool `device_info`. A variable can make it slow, to try what happens to slow calls."""
    try:
        seconds = float(environ.get(DELAY_VARIABLE) or 0)
    except ValueError:
        seconds = 0.0

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        if seconds:
            ctx.progress({"text": f"{DELAY_VARIABLE}: waiting {seconds:g} s\n"})
            ctx.cancelled.wait(seconds)
        return device_info()

    description = (
        "Get device information about this computer: model, operating system and its version, processors, memory, "
        "uptime and load."
    )
    return DeviceTool(ToolSpec("device_info", description, object_schema({}), annotations=READ_ONLY), run)


def device_info() -> JsonObject:
    """Return facts about this computer; null for a fact that it does not tell."""
    name = os.uname()
    load = os.getloadavg()
    return {
        "host": name.nodename,
        "model": _model(),
        "os": name.sysname,
        "os_name": _os_name(),
        "os_version": name.release,
        "machine": name.machine,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "memory_mb": _megabytes("SC_PHYS_PAGES"),
        "memory_free_mb": _megabytes("SC_AVPHYS_PAGES"),
        "uptime_s": _uptime(),
        "load": [round(one, 2) for one in load],
    }


def _model() -> Json:
    for path in ("/sys/class/dmi/id/product_name", "/proc/device-tree/model"):
        with suppress(OSError):
            if found := Path(path).read_text("utf-8", "replace").strip("\0 \n"):
                return found
    return None


def _os_name() -> Json:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    return None


def _megabytes(pages: str) -> Json:
    with suppress(ValueError, OSError):  # not every system has the name
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") // 2**20
    return None


def _uptime() -> Json:
    with suppress(AttributeError, OSError):  # Linux alone has it
        return round(time.clock_gettime(time.CLOCK_BOOTTIME))
    return None


# What it can do.


def _screenshot(program: Program) -> DeviceTool:
    """Return the tool `screenshot`."""

    def run(arguments: Arguments, ctx: CallContext) -> Image:
        data = run_program(program)
        if not data.startswith(_PNG):
            text = f"{program.name!r} made no PNG: is the screen locked, or is there none?"
            raise ToolError("execution_failed", text)
        return Image(data, name="screenshot.png")

    description = "Take a screenshot of this computer's screen."
    return DeviceTool(ToolSpec("screenshot", description, _NOTHING, ("screen",), annotations=READ_ONLY), run)


def _clipboard(program: Program) -> DeviceTool:
    def run(arguments: Arguments, ctx: CallContext) -> Json:
        return run_program(program).decode("utf-8", "replace")

    description = "Read the text on this computer's clipboard."
    return DeviceTool(ToolSpec("clipboard", description, _NOTHING, ("clipboard.read",), annotations=READ_ONLY), run)


def _set_clipboard(program: Program) -> DeviceTool:
    """Return the tool `set_clipboard`."""

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        text = str(arguments["text"])
        run_program(program, given=text.encode(), other=True)
        return {"copied": len(text)}

    schema = _texts(text="The text to put there; it replaces what is there.")
    claims, description = Annotations(idempotent=True), "Copy text to this computer's clipboard."
    return DeviceTool(ToolSpec("set_clipboard", description, schema, ("clipboard.write",), annotations=claims), run)


def _notify(program: Program | None, announce: Announce) -> DeviceTool:
    """Return the tool `notify`: it shows the text on the screen or, without a program for that, in the terminal."""

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        title, text = str(arguments.get("title") or "Handspan"), str(arguments["text"])
        if program is None:
            announce(f"{title}: {text}")
            return {"shown": "in the terminal"}
        run_program(program, title, text)
        return {"shown": "on the screen"}

    schema = _texts(text="What to say.", title="The headline; 'Handspan' when missing.")
    spec = ToolSpec("notify", "Show a notification on this computer.", schema, ("notifications",))
    return DeviceTool(spec, run)


def _open_url() -> DeviceTool:
    """Return the tool `open_url`."""

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        url = _web_address(str(arguments["url"]))
        if not webbrowser.open(url):
            raise ToolError("execution_failed", "This computer has no browser that could be opened.")
        return {"opened": url}

    schema = _texts(url="The address, beginning with http:// or https://.")
    claims, description = Annotations(open_world=True), "Open a web page in this computer's browser."
    return DeviceTool(ToolSpec("open_url", description, schema, ("browser",), annotations=claims), run)


def _web_address(url: str) -> str:
    """Return the address. Raises `ToolError` for one that is not of a web page."""
    with suppress(ValueError):
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and url.isprintable() and " " not in url:
            return url
    raise ToolError("invalid_arguments", f"{url[:200]!r} is no address of a web page: it must begin with http(s)://.")


def _texts(**described: str) -> JsonObject:
    """Return a schema of texts; the first is required."""
    properties: JsonObject = {name: {"type": "string", "description": text} for name, text in described.items()}
    return {**object_schema(properties, next(iter(described))), "additionalProperties": False}
