"""What this computer can do as a device: tools with the permissions that they need, where it has the means for them."""

import os
import platform
import sys
import time
import webbrowser
from collections.abc import Callable, Mapping
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

DELAY: Final = "HANDSPAN_DEVICE_INFO_DELAY"
PERMISSIONS: Final = ("screen", "clipboard.read", "clipboard.write", "notifications", "browser")

Code: TypeAlias = Callable[[Arguments, CallContext], Any]
Announce: TypeAlias = Callable[[str], None]
"""Shows a text in the terminal, with its bell."""

_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": False}
_SEED_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}, "required": []}
"""`_NOTHING` in the form of the seed (SPEC W11)."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"


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
    try:
        seconds = float(environ.get(DELAY) or 0)
    except ValueError:
        seconds = 0.0

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        if seconds:
            ctx.progress({"text": f"{DELAY}: waiting {seconds:g} s\n"})
            ctx.cancelled.wait(seconds)
        return device_info()

    description = (
        "Get device information about this computer: model, operating system and its version, processors, memory, "
        "uptime and load."
    )
    return DeviceTool(ToolSpec("device_info", description, _SEED_NOTHING, annotations=READ_ONLY), run)


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
        try:
            found = Path(path).read_text("utf-8", "replace").strip("\0 \n")
        except OSError:
            continue
        if found:
            return found
    return None


def _os_name() -> Json:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _megabytes(pages: str) -> Json:
    try:
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") // 2**20
    except (ValueError, OSError):  # not every system has the name
        return None


def _uptime() -> Json:
    try:
        return round(time.clock_gettime(time.CLOCK_BOOTTIME))
    except (AttributeError, OSError):  # Linux alone has it
        return None


# What it can do.


def _screenshot(program: Program) -> DeviceTool:
    def run(arguments: Arguments, ctx: CallContext) -> Image:
        data = run_program(program)
        if not data.startswith(_PNG):
            raise ToolError(
                "execution_failed", f"{program.name!r} made no PNG: is the screen locked, or is there none?"
            )
        return Image(data, name="screenshot.png")

    description = "Take a screenshot of this computer's screen."
    return DeviceTool(ToolSpec("screenshot", description, _NOTHING, ("screen",), annotations=READ_ONLY), run)


def _clipboard(program: Program) -> DeviceTool:
    def run(arguments: Arguments, ctx: CallContext) -> Json:
        return run_program(program).decode("utf-8", "replace")

    description = "Read the text on this computer's clipboard."
    return DeviceTool(ToolSpec("clipboard", description, _NOTHING, ("clipboard.read",), annotations=READ_ONLY), run)


def _set_clipboard(program: Program) -> DeviceTool:
    def run(arguments: Arguments, ctx: CallContext) -> Json:
        text = str(arguments["text"])
        run_program(program, given=text.encode(), other=True)
        return {"copied": len(text)}

    schema = _texts(text="The text to put there; it replaces what is there.")
    spec = ToolSpec(
        "set_clipboard",
        "Copy text to this computer's clipboard.",
        schema,
        ("clipboard.write",),
        annotations=Annotations(idempotent=True),
    )
    return DeviceTool(spec, run)


def _notify(program: Program | None, announce: Announce) -> DeviceTool:
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
    def run(arguments: Arguments, ctx: CallContext) -> Json:
        url = _web_address(str(arguments["url"]))
        if not webbrowser.open(url):
            raise ToolError("execution_failed", "This computer has no browser that could be opened.")
        return {"opened": url}

    schema = _texts(url="The address, beginning with http:// or https://.")
    spec = ToolSpec(
        "open_url",
        "Open a web page in this computer's browser.",
        schema,
        ("browser",),
        annotations=Annotations(open_world=True),
    )
    return DeviceTool(spec, run)


def _web_address(url: str) -> str:
    """Return the address. Raises `ToolError` for one that is not of a web page."""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable() and " " not in url
    except ValueError:
        is_fine = False
    if not is_fine:
        raise ToolError(
            "invalid_arguments", f"{url[:200]!r} is no address of a web page: it must begin with http(s)://."
        )
    return url


def _texts(**described: str) -> JsonObject:
    """Return a schema of texts; the first is required."""
    properties: JsonObject = {name: {"type": "string", "description": text} for name, text in described.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": [next(iter(described))],
        "additionalProperties": False,
    }
