"""Ctrl-C: it ends a command with 130, and at a prompt it clears the line first (SPEC U2)."""

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.shell import Shell
from tests.cli.test_rich_chat import RICH

pytestmark = pytest.mark.outside

INTERRUPTED = """
import builtins
load = builtins.__import__

def interrupt(name, *more):
    if name == "click":
        raise KeyboardInterrupt
    return load(name, *more)

builtins.__import__ = interrupt
from handspan.cli.__main__ import start
start()
"""


def test_while_the_command_is_loaded_it_ends_it_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("environ", [{}, {**RICH, "NO_COLOR": "1"}], ids=["simple", "no colour"])
@pytest.mark.parametrize("words", [(), ("--plain",)])
def test_at_the_prompt_it_clears_the_line_and_twice_it_ends(
    run: Shell, words: tuple[str, ...], environ: dict[str, str]
) -> None:
    with run.at_terminal("chat", *words, **environ) as terminal:
        terminal.until(r"> ")
        terminal.type("/nonsense\x03")
        terminal.until("Ctrl-C again end")
        terminal.say("/usage")
        assert "There is no command" not in terminal.until("nothing yet")
        terminal.until(r"> ")
        terminal.type("\x03")
        terminal.until("Ctrl-C again end")
        terminal.type("\x03")
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.seen


def test_words_between_two_of_them_go_on(run: Shell) -> None:
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        for _ in range(2):
            terminal.type("words\x03")
            terminal.until("Ctrl-C again end")
            terminal.prompt()
        terminal.say("/usage")
        assert "nothing yet" in terminal.prompt()


def test_without_line_editing_the_terminal_itself_clears_the_line(run: Shell) -> None:
    run.tool("blocked", "import sys\nsys.modules['readline'] = None\n")
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.type("/nonsense")
        terminal.until("/nonsense")
        os.kill(terminal.process.pid, signal.SIGINT)
        terminal.until("Ctrl-C again end")
        terminal.prompt()
        os.kill(terminal.process.pid, signal.SIGINT)
        assert terminal.ended() == 0
