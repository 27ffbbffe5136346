"""Draws `docs/pictures/terminal.svg`: what really happens when the README's story is run at a terminal.

    python scripts/recording.py

It starts a gateway and a device with an empty home, runs each command of the story, and draws commands and output, line
by line, as a moving picture. Nothing in it depends on the machine: the story uses no name and no address of it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "terminal.svg"
STORY: Final = (
    'handspan chat "how full is the battery of my phone?"',
    'handspan call exec_shell \'{"command": "echo hello | tr a-z A-Z"}\'',
    "handspan chat \"write 'hello' to notes.txt then read notes.txt\"",
)
WAIT: Final = 60.0
WIDTH: Final = 104
"""Characters in a line."""
TYPING: Final = 0.04
LINE: Final = 0.25
PAUSE: Final = 1.4
END: Final = 6.0
"""Seconds: for a letter that is typed, between two lines of output, after a command, and before it begins again."""
COLOURS: Final = {"back": "#0d1117", "text": "#e6edf3", "prompt": "#3fb8c1", "dim": "#9198a1"}
TITLE: Final = "A terminal: an agent asks the phone for its battery, runs a command in a sandbox, and keeps a note"
STILL: Final = "@media(prefers-reduced-motion:reduce){g{animation:none}}"
SIZE: Final = 14
STEP: Final = 20


class Shown(NamedTuple):
    """A line of the picture, and when it appears."""

    text: str
    at: float
    is_command: bool


def main() -> None:
    """Run the story and draw it."""
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder)) as environ:
        steps = [(command, _run(command, environ)) for command in STORY]
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(draw(steps), encoding="utf-8")


# Running it.


@contextmanager
def _served(folder: Path) -> Iterator[dict[str, str]]:
    """A gateway with the README's phone; the environment of the commands."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HANDSPAN_", "XDG_"))}
    path = f"{Path(sys.executable).parent}:{clean['PATH']}"
    environ = {**clean, "HOME": str(folder), "PATH": path, "OLLAMA_HOST": "127.0.0.1:1", "COLUMNS": str(WIDTH)}
    ready = folder / "ready.json"
    serve = ["handspan", "serve", "--quiet", "--port", "0", "--model", "offline", "--ready-file", str(ready)]
    started = [subprocess.Popen(serve, env=environ, cwd=folder)]
    try:
        _wait_for(ready.exists)
        told = json.loads(ready.read_text(encoding="utf-8"))
        program = (
            _phone().replace("http://127.0.0.1:42617", told["url"]).replace('token="…"', f'token="{told["token"]}"')
        )
        started.append(subprocess.Popen([sys.executable, "-c", program], env=environ, cwd=folder))
        _wait_for(lambda: "phone__battery" in _run("handspan tools", environ))
        yield environ
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(WAIT)


def _phone() -> str:
    """The device of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(next(block for block in blocks if "handspan.client" in block))


def _run(command: str, environ: dict[str, str]) -> str:
    """What the command prints."""
    done = subprocess.run(
        ["sh", "-c", command],
        env=environ,
        cwd=environ["HOME"],
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=True,
    )
    return done.stdout.strip()


def _wait_for(claim: Callable[[], bool]) -> None:
    latest = time.monotonic() + WAIT
    while not claim():
        assert time.monotonic() < latest, "the gateway or the device did not start"
        time.sleep(0.1)


# Drawing it.


def draw(steps: Sequence[tuple[str, str]]) -> str:
    """The picture: each command is typed, then its output appears; at the end it begins again."""
    lines = list(_lines(steps))
    seconds = lines[-1].at + END
    height = 56 + STEP * len(lines)
    width = round(WIDTH * SIZE * 0.602) + 40
    body = [_line(shown, number, seconds) for number, shown in enumerate(lines)]
    dots = "".join(f'<circle cx="{20 + 18 * n}" cy="18" r="5.5" fill="#30363d"/>' for n in range(3))
    font = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
    style = f"text{{font:{SIZE}px {font};white-space:pre}}g{{animation:{seconds:.1f}s step-end infinite}}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            f"<title>{TITLE}</title>",
            f"<style>{style}{_frames(lines, seconds)}{STILL}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{COLOURS["back"]}"/>{dots}',
            *body,
            "</svg>",
            "",
        ]
    )


def _lines(steps: Sequence[tuple[str, str]]) -> Iterator[Shown]:
    at = 0.6
    for command, output in steps:
        yield Shown(command, at, is_command=True)
        at += len(command) * TYPING + 0.6
        for text in _wrapped(output):
            yield Shown(text, at, is_command=False)
            at += LINE
        at += PAUSE


def _wrapped(output: str) -> Iterator[str]:
    """The lines of an output, broken at words where they are too long, and without what only explains the stand-in."""
    for line in output.partition("\n\nI am the offline stand-in")[0].splitlines():
        while len(line) > WIDTH:
            cut = line.rfind(" ", 0, WIDTH)
            yield line[: cut if cut > 0 else WIDTH]
            line = line[cut if cut > 0 else WIDTH :].lstrip()
        yield line


def _line(shown: Shown, number: int, seconds: float) -> str:
    y = 52 + STEP * number
    if not shown.is_command:
        text = f'<text x="20" y="{y}" fill="{COLOURS["dim"]}">{escape(shown.text)}</text>'
    else:
        prompt = f'<tspan fill="{COLOURS["prompt"]}">$ </tspan>'
        text = f'<text x="20" y="{y}" fill="{COLOURS["text"]}">{prompt}{escape(shown.text)}</text>'
    return f'<g style="animation-name:l{number}">{text}</g>'


def _frames(lines: Sequence[Shown], seconds: float) -> str:
    """When each line appears."""
    return "".join(
        f"@keyframes l{number}{{0%{{opacity:0}}{100 * shown.at / seconds:.2f}%{{opacity:1}}}}"
        for number, shown in enumerate(lines)
    )


if __name__ == "__main__":
    main()
