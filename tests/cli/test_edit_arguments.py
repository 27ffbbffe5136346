"""Edit and approve at a terminal: the person changes a call's arguments, and the model is told (SPEC P5)."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cli.gateways import program, serving
from tests.cli.shell import Shell, Terminal
from tests.cli.test_rich_chat import RICH, prompt

pytestmark = pytest.mark.outside

ARGUMENTS = '{"path": "a.txt", "content": "hello"}'
ASKS = '[agents.General]\nmode = "ask_always"\n'


@contextmanager
def asked(run: Shell, **environ: str) -> Iterator[Terminal]:
    """A conversation in which the person is asked about a call."""
    run.config(ASKS)
    with run.at_terminal("chat", **RICH, **environ) as terminal:
        prompt(terminal)
        terminal.say(f"/write_file {ARGUMENTS}")
        terminal.until(r"\[e\]dit it first.*never\? ")
        yield terminal
        prompt(terminal)
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_arguments_are_edited_in_place_and_checked_before_they_are_sent(run: Shell) -> None:
    with asked(run) as terminal:
        terminal.say("e")
        terminal.until("Enter: run it so")
        terminal.type("\x7f\r")  # without the last brace
        terminal.until("Not JSON")
        terminal.type('\x7f,"mode": "destroy"}\r')
        terminal.until("'mode' must be")  # only what changes on the screen is written
        terminal.type('\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7f\x7fappend"}\r')
        terminal.until("✓")
    assert (run.workspace / "a.txt").read_text() == "hello"
    exported = run("sessions", "export", "last").stdout
    assert "The user changed the arguments before approving this call" in exported and '"append' in exported


def test_another_program_can_edit_them_and_ctrl_c_goes_back_to_the_question(run: Shell) -> None:
    path = program(run.home / "bin", "my-editor", "sed -i s/a.txt/b.txt/ $1")
    with asked(run, EDITOR="my-editor", PATH=path) as terminal:
        terminal.say("e")
        terminal.until("Ctrl-X Ctrl-E: my-editor")
        terminal.type("\x03")
        terminal.until(r"never\? ")
        terminal.say("e")
        terminal.until("Ctrl-X Ctrl-E: my-editor")
        terminal.type("\x18\x05")
        terminal.until("b.txt")
        terminal.type("\r")
        assert "b.txt" in terminal.until("✓ .*write_file.* ms"), "what ran is shown, not what the model asked for"
    assert not (run.workspace / "a.txt").exists()
    assert (run.workspace / "b.txt").read_text() == "hello"
    shown = run("sessions", "show", "last").stdout
    asked_for, _, ran = shown.partition("**write_file ran with edited arguments**")
    assert "a.txt" in asked_for and "b.txt" in ran.partition("**Result of write_file**")[0]


def test_at_a_simple_terminal_they_are_typed_anew(run: Shell) -> None:
    run.config(ASKS)
    with run.at_terminal("call", "write_file", ARGUMENTS) as terminal:
        terminal.until(r"never\? ")
        terminal.say("e")
        terminal.until(r"on one line \(empty: go back\)\? ")
        terminal.say('{"path": "b.txt"}')
        terminal.until("content")
        terminal.until(r"\(empty: go back\)\? ")
        terminal.say('{"path": "b.txt", "content": "x", "contnt": "y"}')
        assert "?." not in terminal.until(r"Did you mean 'content'\?[^\n]*\n"), "a question has its own end"
        terminal.until(r"\(empty: go back\)\? ")
        terminal.say("")
        terminal.until(r"never\? ")
        terminal.say("edit")
        terminal.until(r"\(empty: go back\)\? ")
        terminal.say('{"path": "b.txt", "content": "other"}')
        assert terminal.ended() == 0
    assert (run.workspace / "b.txt").read_text() == "other"


def test_the_command_that_answers_questions_can_edit_them_too(run: Shell) -> None:
    run.config(ASKS)
    with serving(run), run.at_terminal("call", "write_file", ARGUMENTS) as terminal:
        terminal.until(r"never\? ")
        (question,) = json.loads(run("questions", "--json").stdout)
        assert "allow --arguments JSON" in run("questions").stdout
        wrong = run("questions", "answer", question["id"], "allow", "--arguments", '{"path": 5}')
        assert wrong.returncode == 1 and "write_file does not take this" in wrong.stderr
        assert run("questions", "answer", question["id"], "deny", "--arguments", "{}").returncode == 2
        edited = '{"path": "c.txt", "content": "third"}'
        assert run("questions", "answer", question["id"], "allow", "--arguments", edited).returncode == 0
        assert terminal.ended() == 0
        assert "The user changed the arguments" in terminal.seen
    assert (run.workspace / "c.txt").read_text() == "third"


def test_the_printed_command_answers_when_a_shell_reads_it_and_so_does_the_beginning_of_the_id(run: Shell) -> None:
    run.config(ASKS)
    with serving(run):
        for is_whole in (True, False):
            with run.at_terminal("call", "write_file", ARGUMENTS) as terminal:
                terminal.until(r"never\? ")
                printed = re.search(r"answer: handspan (questions answer .+ allow)   \(", run("questions").stdout)
                assert printed is not None
                words = shlex.split(printed[1])
                assert len(words) == 4 and not re.search(r"\s", words[2])
                assert run(*words[:2], words[2] if is_whole else words[2][:36], "allow").returncode == 0
                assert terminal.ended() == 0
