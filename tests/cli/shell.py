"""The real command, as scripts and people run it: with words and files, or at a terminal.

`Shell(…)` runs it in the process of the tests, through its `main()` (see `tests.cli.here`). At a terminal, on another
thread and beside a loop it is a fork of a process that has loaded it (see `tests.cli.loaded`). Where the start, the
pipes or the very end of a process are what is tested, `Shell.started` and `COMMAND` start it as a shell does.
"""

import contextlib
import errno
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tests.cli.forks import loaded, run_forked
from tests.cli.here import can_run_here, run_here

COMMAND: Final = (sys.executable, "-m", "handspan.cli.main")
_PRIVATE: Final = ("HANDSPAN_", "XDG_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "OLLAMA_")


class Shell:
    """Runs the command with a home that is empty at first, and without any model of this machine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._environ = {name: value for name, value in os.environ.items() if not name.startswith(_PRIVATE)}

    def __call__(self, *words: str, given: str | bytes = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """What it printed and its exit code; standard input and output are files."""
        with tempfile.TemporaryFile() as entered, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            entered.write(given if isinstance(given, bytes) else given.encode())
            entered.seek(0)
            streams = (entered.fileno(), out.fileno(), err.fileno())
            code = (run_here if can_run_here() else run_forked)(words, self.environ(**environ), streams)
            return subprocess.CompletedProcess(words, code, _text(out), _text(err))

    def started(self, *words: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """The same for a command that is started as a shell starts it, with pipes as its streams."""
        return subprocess.run(
            [*COMMAND, *words],
            input=given,
            env=self.environ(**environ),
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    @contextlib.contextmanager
    def at_terminal(self, *words: str, **environ: str) -> Iterator["Terminal"]:
        """The command at a terminal of its own; whatever is left of it is ended."""
        terminal = Terminal(words, self.environ(**{"TERM": "dumb", "COLUMNS": "120", **environ}))
        try:
            yield terminal
        finally:
            terminal.close()

    def on_screen(self, *words: str, **environ: str) -> str:
        """All that a terminal shows of a command, which succeeds."""
        with self.at_terminal(*words, **environ) as terminal:
            assert terminal.ended() == 0, terminal.seen
            return terminal.seen.replace("\r\n", "\n")

    def environ(self, **more: str) -> dict[str, str]:
        """The environment; nothing answers where it says that Ollama is."""
        return {**self._environ, "HOME": str(self.home), "OLLAMA_HOST": "127.0.0.1:1", **more}

    @property
    def workspace(self) -> Path:
        return self.home / ".local" / "share" / "handspan" / "workspace"

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "handspan"

    def config(self, text: str) -> None:
        folder = self.home / ".config" / "handspan"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").write_text(text, encoding="utf-8")

    def tool(self, name: str, code: str) -> None:
        """A tool of the person's own."""
        folder = self.home / ".config" / "handspan" / "tools"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(code, encoding="utf-8")

    def skill(self, name: str, tools: str, text: str) -> None:
        """A skill of the person's own."""
        folder = self.home / ".config" / "handspan" / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        front = f"---\nname: {name}\ndescription: For a test.\nallowed-tools: [{tools}]\n---\n"
        (folder / "SKILL.md").write_text(f"{front}{text}\n", encoding="utf-8")


class Terminal:
    """A command with a terminal in front of it. Every wait is bounded."""

    def __init__(self, words: Sequence[str], environ: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = loaded().start(words, environ, (theirs, theirs, theirs), at_terminal=True)
        os.close(theirs)
        self._unread = ""
        self.seen = ""
        """Everything that was on it."""

    def type(self, text: str) -> None:
        """As if these keys were pressed."""
        os.write(self._ours, text.encode())

    def say(self, line: str) -> None:
        """Type a line."""
        self.type(f"{line}\r")

    def until(self, pattern: str, seconds: float = 60.0) -> str:
        """What is written up to and with what fits the pattern; what comes after it is for the next time."""
        deadline = time.monotonic() + seconds
        while (found := re.search(pattern, self._unread, re.DOTALL)) is None:
            piece = self._read(deadline - time.monotonic())
            assert piece is not None, f"nothing that fits {pattern!r} came; this did: {self._unread!r}"
            self._unread += piece
        text, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        return text

    def prompt(self) -> str:
        """What is written until a line is asked for."""
        return self.until(r"(?m)^> ")

    def ended(self, seconds: float = 60.0) -> int:
        """The exit code, once the command has ended."""
        deadline = time.monotonic() + seconds
        while (piece := self._read(deadline - time.monotonic())) is not None:
            self._unread += piece
        return self.process.wait(max(deadline - time.monotonic(), 1.0))

    def ended_by_ctrl_c(self) -> int:
        """The exit code, once Ctrl-C has ended the command at a question.

        A person presses it again after a while: `input` sees one that came just before it waits only with the next key.
        """
        for _ in range(12):
            self.type("\x03")
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.ended(5.0)
        return self.ended()

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.process.poll() is None:
            self.kill()
        os.close(self._ours)

    def _read(self, seconds: float) -> str | None:
        """The next piece; None when there is none in time, or no more."""
        ready, _, _ = select.select([self._ours], [], [], max(seconds, 0.0))
        if not ready:
            return None
        try:
            piece = os.read(self._ours, 65536).decode(errors="replace").replace("\r\n", "\n")
        except OSError as error:
            if error.errno != errno.EIO:  # that one says that the other side is closed
                raise
            return None
        self.seen += piece
        return piece or None


def _text(file: IO[bytes]) -> str:
    """All that was written to a file."""
    file.seek(0)
    return file.read().decode()


def json_lines(done: subprocess.CompletedProcess[str]) -> list[Any]:
    """What was printed, a JSON value a line."""
    return [json.loads(line) for line in done.stdout.splitlines()]
