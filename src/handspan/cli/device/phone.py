"""What a phone has and some computers have too: a camera, contacts and sensors (SPEC W11).

A tool is offered only where this computer has the means for it. The parameters are those of the seed's examples: an
agent uses a phone and a computer the same way.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from handspan.cli.device.programs import Program, apple_script, run_program, usable
from handspan.cli.device.tools import DeviceTool, object_schema
from handspan.client.context import CallContext
from handspan.client.results import Image
from handspan.core.errors import ToolError
from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Arguments, Json, JsonObject

PHONE_PERMISSIONS: Final = ("camera", "contacts", "sensors")

_SIZES: Final = {"low": "640x480", "high": "1920x1080"}
_JPEG: Final = b"\xff\xd8"
_MAX_CONTACTS: Final = 50
# `{0}` is the size of the picture, `{1}` the device file, `{file}` where the picture goes.
_FILE_CAMERAS: Final = (
    Program(
        "ffmpeg",
        ("-loglevel", "error", "-f", "v4l2", "-video_size", "{0}", "-i", "{1}", "-frames:v", "1", "-y", "{file}"),
        "any",
    ),
    Program("fswebcam", ("-q", "--no-banner", "-r", "{0}", "-d", "{1}", "{file}"), "any"),
)
_OTHER_CAMERAS: Final = (
    Program("imagesnap", ("-q", "-w", "1", "{file}"), "mac"),
    Program("rpicam-still", ("-n", "-o", "{file}"), "any"),
    Program("libcamera-still", ("-n", "-o", "{file}"), "any"),
    Program("termux-camera-photo", ("{file}",), "any"),
)
# Each answers a search as mutt's `query_command` does: a line of words, then lines of address, name and note.
_ADDRESS_BOOKS: Final = (
    Program("khard", ("email", "--parsable", "--", "{0}"), "any"),
    Program("abook", ("--mutt-query", "{0}"), "any"),
    Program("lbdbq", ("{0}",), "any"),
    Program("goobook", ("query", "{0}"), "any"),
    apple_script(  # not tried on a Mac yet
        """set found to ""
tell application "Contacts"
repeat with one in (every person whose name contains (item -1 of argv))
repeat with place in (value of emails of one) & (value of phones of one)
set found to found & place & tab & (name of one) & linefeed
end repeat
end repeat
end tell
return found""",
        words=1,
    ),
)
_NOT_AUTHORIZED: Final = "-1743"
"""How macOS says that the person has not let this program use another one."""
_TERMUX_CONTACTS: Final = Program("termux-contact-list", (), "any")
_GPS: Final = (Program("gpspipe", ("-w", "-n", "12"), "any"), Program("termux-location", (), "any"))
_MOTION: Final = {"accelerometer": ("accel", "m/s²"), "gyroscope": ("anglvel", "rad/s")}
"""The name of each sensor's channel in Linux's Industrial I/O (IIO), and the unit of its scaled values."""
_MOTION_FOLDER: Final = "sys/bus/iio/devices"
"""IIO has a folder for each sensor there, with files such as `in_accel_x_raw` and `in_accel_scale`."""

_Found: TypeAlias = DeviceTool | str
"""A tool, or why this computer does not have it."""


class PhoneTools(Struct, frozen=True):
    """The tools that this computer has, and for each missing one the reason."""

    tools: list[DeviceTool]
    missing: list[str]


def phone_tools(environ: Mapping[str, str], root: Path = Path("/")) -> PhoneTools:
    """Return which of these tools this computer can have now."""
    found: list[_Found] = [_camera(environ, root), _contacts(environ), _sensors(environ, root)]
    return PhoneTools(
        [one for one in found if isinstance(one, DeviceTool)], [one for one in found if isinstance(one, str)]
    )


# The camera.


def _camera(environ: Mapping[str, str], root: Path) -> _Found:
    """Return the tool `camera`, or why it is not offered."""
    file = next(iter(sorted(root.glob("dev/video*"))), None)
    program = (None if file is None else usable(_FILE_CAMERAS, environ)) or usable(_OTHER_CAMERAS, environ)
    if program is None:
        how = "no camera was found" if file is None else "install ffmpeg or fswebcam to use the one that is there"
        return f"'camera' is not offered: {how}."

    def run(arguments: Arguments, ctx: CallContext) -> Image:
        size = _SIZES[str(arguments.get("quality") or "low")]
        data = run_program(program, size, str(file), made="photo.jpg")
        if not data.startswith(_JPEG):
            raise ToolError("execution_failed", f"{program.name!r} made no picture: is the camera in use elsewhere?")
        return Image(data, "image/jpeg", name="photo.jpg")

    schema = object_schema({"quality": {"type": "string", "enum": list(_SIZES)}})
    description = "Take a photo with this computer's camera."
    return DeviceTool(ToolSpec("camera", description, schema, ("camera",), annotations=READ_ONLY), run)


# Contacts.


def _contacts(environ: Mapping[str, str]) -> _Found:
    """Return the tool `contacts`, or why it is not offered."""
    book, phone = usable(_ADDRESS_BOOKS, environ), usable((_TERMUX_CONTACTS,), environ)
    if book is None and phone is None:
        names = ", ".join(program.name for program in _ADDRESS_BOOKS)
        return f"'contacts' is not offered: no address book was found ({names} are understood)."

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        query = str(arguments["query"])
        found = _search_book(book, query) if book is not None else _search_phone(query)
        return {"contacts": found[:_MAX_CONTACTS], "more": max(0, len(found) - _MAX_CONTACTS)}

    schema = object_schema({"query": {"type": "string"}}, "query")
    description = "Query the contacts in this computer's address book: names and addresses that fit the query."
    return DeviceTool(ToolSpec("contacts", description, schema, ("contacts",), annotations=READ_ONLY), run)


def _search_book(book: Program, query: str) -> list[Json]:
    """Return the contacts that this address book finds. Raises `ToolError` when it can't be asked."""
    try:
        lines = run_program(book, query).decode("utf-8", "replace").splitlines()
    except ToolError as error:
        if _NOT_AUTHORIZED in error.message:
            where = "System Settings, Privacy & Security, Automation and Contacts"
            raise ToolError("permission_denied", f"macOS lets this program not read the contacts: {where}.") from None
        is_mac = book.where == "mac"
        if error.code == "execution_failed" and "failed with 1:" in error.message and not is_mac:
            return []  # these programs exit with 1 when no contact fits
        raise
    rows = [line.split("\t") for line in lines if "\t" in line]
    return [{"address": row[0].strip(), "name": row[1].strip()} for row in rows]


def _search_phone(query: str) -> list[Json]:
    wanted = query.casefold()
    entries = msgspec.json.decode(run_program(_TERMUX_CONTACTS) or b"[]", type=list[dict[str, str]])
    fitting = [entry for entry in entries if wanted in " ".join(entry.values()).casefold()]
    return [{"address": entry.get("number", ""), "name": entry.get("name", "")} for entry in fitting]


# Sensors.


def _sensors(environ: Mapping[str, str], root: Path) -> _Found:
    """Return the tool `sensors`, or why it is not offered."""
    readers: dict[str, Callable[[], JsonObject]] = {}
    for kind, (channel, unit) in _MOTION.items():
        if found := sorted(root.glob(f"{_MOTION_FOLDER}/*/in_{channel}_x_raw")):
            readers[kind] = _motion_reader(found[0].parent, channel, unit)
    gps = usable(_GPS, environ)
    if gps is not None:
        readers["gps"] = lambda: _position(gps)
    if not readers:
        return "'sensors' is not offered: no accelerometer, gyroscope or GPS (gpsd's gpspipe) was found."

    def run(arguments: Arguments, ctx: CallContext) -> Json:
        kind = str(arguments["type"])
        if kind not in readers:
            raise ToolError("execution_failed", f"This computer has no {kind}: it has {' and '.join(readers)}.")
        return {"type": kind, **readers[kind]()}

    schema = object_schema({"type": {"type": "string", "enum": [*_MOTION, "gps"]}}, "type")
    description = f"Read sensor data of this computer: {', '.join(readers)}."
    return DeviceTool(ToolSpec("sensors", description, schema, ("sensors",), annotations=READ_ONLY), run)


def _motion_reader(folder: Path, channel: str, unit: str) -> Callable[[], JsonObject]:
    """Return what reads a sensor of IIO: its raw value for each axis, times its scale, has the unit."""

    def read() -> JsonObject:
        try:
            scale = _number(folder, (f"in_{channel}_scale", f"in_{channel}_x_scale"), 1.0)
            axes = {axis: _number(folder, (f"in_{channel}_{axis}_raw",)) * scale for axis in "xyz"}
        except (OSError, ValueError) as error:
            raise ToolError("execution_failed", f"The sensor can't be read: {error}.") from None
        return {**{axis: round(value, 6) for axis, value in axes.items()}, "unit": unit}

    return read


def _number(folder: Path, names: Iterable[str], default: float = math.nan) -> float:
    """Return the number in the first of these files that is there, else the default. Raises `ValueError` if none is."""
    file = next((folder / name for name in names if (folder / name).exists()), None)
    value = default if file is None else float(file.read_text("ascii"))
    if math.isnan(value):
        raise ValueError(f"{folder.name} does not tell it")
    return value


def _position(program: Program) -> JsonObject:
    """Return where this computer is, by the first report that has a position."""
    for line in run_program(program).splitlines():
        report: dict[str, Any] = {}
        with suppress(msgspec.DecodeError):  # a line that is no report
            report = msgspec.json.decode(line, type=dict[str, Any])
        latitude, longitude = report.get("lat", report.get("latitude")), report.get("lon", report.get("longitude"))
        if isinstance(latitude, int | float) and isinstance(longitude, int | float):
            altitude = report.get("alt", report.get("altitude"))
            return {"latitude": latitude, "longitude": longitude, "altitude": altitude}
    raise ToolError("execution_failed", f"{program.name!r} gave no position: the GPS has no fix yet. Try it outside.")
