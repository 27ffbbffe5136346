"""The programs that a device's tools use: which of them this computer has, and how one is run."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import ToolError

Where: TypeAlias = Literal["any", "wayland", "x11", "display", "mac"]

_SECONDS: Final = 20.0
_MAX_REASON: Final = 300


class Program(Struct, frozen=True):
    """A program and the words that it is called with."""

    name: str
    words: tuple[str, ...] = ()
    where: Where = "display"
    """What the program needs: a screen of this kind, or a Mac; `any`: nothing."""
    other: tuple[str, ...] = ()
    """The command for the other direction, such as copying: a program's name and its words. Empty: there is none."""


# In order of preference. `{file}` is where a screenshot goes; `{0}`, `{1}` are what the tool gives.
SCREENS: Final = (
    Program("screencapture", ("-x", "{file}"), "mac"),
    Program("grim", ("{file}",), "wayland"),
    Program("gnome-screenshot", ("-f", "{file}")),
    Program("scrot", ("{file}",), "x11"),
    Program("import", ("-window", "root", "{file}"), "x11"),
)
CLIPBOARDS: Final = (
    Program("pbpaste", (), "mac", ("pbcopy",)),
    Program("wl-paste", ("--no-newline",), "wayland", ("wl-copy",)),
    Program("xclip", ("-selection", "clipboard", "-o"), "x11", ("xclip", "-selection", "clipboard")),
    Program("xsel", ("--clipboard", "--output"), "x11", ("xsel", "--clipboard", "--input")),
)


def apple_script(lines: str, *, words: int) -> Program:
    """Return the program that runs this script. The last items of `argv` are that many words of the tool.

    `--` comes before them: a word that begins with `-e` must not become a line of the script.
    """
    script = ("on run argv", *lines.split("\n"), "end run")
    places = (f"{{{place}}}" for place in range(words))
    return Program("osascript", (*(word for line in script for word in ("-e", line)), "--", *places), "mac")


NOTIFIERS: Final = (
    apple_script("display notification (item -1 of argv) with title (item -2 of argv)", words=2),
    Program("notify-send", ("--", "{0}", "{1}")),
)


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether there is a screen that programs of this process can use."""
    return _has("display", environ) or _has("mac", environ)


def usable(programs: Sequence[Program], environ: Mapping[str, str]) -> Program | None:
    """Return the first of these programs that this computer has with all that it needs; None when there is none."""
    path = environ.get("PATH")
    here = (one for one in programs if _has(one.where, environ) and shutil.which(one.name, path=path))
    return next((one for one in here if not one.other or shutil.which(one.other[0], path=path)), None)


def run_program(
    program: Program, *words: str, given: bytes | None = None, other: bool = False, made: str = "made.png"
) -> bytes:
    """Return the program's output, or the file `made` that it wrote. Raises `ToolError` when it failed.

    `given` is its input. `other` runs the command of the other direction. Blocks for a limited time.
    """
    with tempfile.TemporaryDirectory(prefix="handspan-") as folder:
        file = Path(folder) / made
        values = {"{file}": str(file), **{f"{{{place}}}": text for place, text in enumerate(words)}}
        called = program.other if other else (program.name, *(values.get(word, word) for word in program.words))
        try:
            # The program of a clipboard goes on running, to keep what was copied: its output is not waited for.
            done = subprocess.run(
                called,
                input=given,
                stdin=subprocess.DEVNULL if given is None else None,
                stdout=subprocess.DEVNULL if other else subprocess.PIPE,
                stderr=subprocess.DEVNULL if other else subprocess.PIPE,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ToolError("timeout", f"{called[0]!r} did not end within {_SECONDS:g} s.") from None
        except OSError as error:
            raise ToolError("execution_failed", f"{called[0]!r} can't be run: {error.strerror}.") from None
        if done.returncode:
            reason = (done.stderr or b"").decode("utf-8", "replace").strip()[:_MAX_REASON]
            raise ToolError(
                "execution_failed", f"{called[0]!r} failed with {done.returncode}: {reason or 'no reason given'}"
            )
        return file.read_bytes() if file.exists() else done.stdout or b""


def _has(where: Where, environ: Mapping[str, str]) -> bool:
    """Whether this computer has what a program needs: its screen, or its system."""
    match where:
        case "any":
            return True
        case "mac":
            return sys.platform == "darwin"
        case "wayland":
            return bool(environ.get("WAYLAND_DISPLAY"))
        case "x11":
            return bool(environ.get("DISPLAY"))
        case "display":
            return bool(environ.get("WAYLAND_DISPLAY") or environ.get("DISPLAY"))
