"""`handspan chat`: one answer, or a conversation (SPEC A2, A4, U2)."""

import asyncio
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from handspan.cli import late
from handspan.cli.chat.edits import render_with_diff
from handspan.cli.chat.lines import ChatNote, JsonLines, Show, TerminalRenderer
from handspan.cli.chat.terminal_chat import open_chat
from handspan.cli.ctrl_c import until_ctrl_c
from handspan.cli.door import find_gateway, given_url, open_requests, place_options, say_aside
from handspan.cli.edit_arguments import argument_editor
from handspan.cli.options import agent_option, completes, read_client_settings
from handspan.cli.terminal_questions import is_simple_terminal, questions_for, render_question
from handspan.core.questions import Question
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.models import ChosenModel

if TYPE_CHECKING:
    from handspan.cli.remote import Remote


@click.command("chat")
@click.argument("words", metavar="[QUESTION …] [-]", nargs=-1)
@agent_option("The agent to talk to; default: the session's, else the default agent of the settings.")
@click.option(
    "--session",
    "session_id",
    shell_complete=completes("sessions"),
    help="Go on with this session; 'last' is the one that was active last.",
)
@click.option(
    "--model",
    default="",
    shell_complete=completes("models"),
    help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.",
)
@click.option(
    "--attach",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Send this file with the first message; several times for more.",
)
@click.option("--verbose", is_flag=True, help="Show arguments, results and thinking; /details in a conversation.")
@click.option(
    "--yes", is_flag=True, help="Answer every question of the gateway with yes. A device still asks its own person."
)
@click.option("--plain", is_flag=True, help="No Markdown, no colours, nothing that moves; as in a pipe.")
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON; the session's id comes first.")
@place_options
def command(words: tuple[str, ...], **options: Any) -> None:
    """Talk to an agent that uses your tools. With QUESTION it answers once; otherwise it is a conversation.

    Words without quotes are one QUESTION; quotes keep what your shell would change, such as ? and *.

    What standard input brings goes with the QUESTION, as a file: cat notes.txt | handspan chat "summarise". With '-'
    standard input is always read; with '-' alone it is the QUESTION. Without both, each of its lines is one message.
    """
    question, piped = _read_question(words)
    given = _Given(question=question, piped=piped, **options)
    remote = _find_gateway(given)
    sys.exit(asyncio.run(until_ctrl_c(_chat(remote, given))))


_EXIT_CODES: Final = {"error": 1, "aborted": 130}
"""Exit codes by the reason why a single answer ended. 130 is what shells use for Ctrl-C."""
_PIPED_NAME: Final = "standard input"


class _Given(Struct, frozen=True, kw_only=True):
    """The arguments and options of the command, as they were given."""

    question: str | None
    piped: bytes
    """What standard input brought beside the question."""
    agent: str | None
    session_id: str | None
    model: str
    files: tuple[Path, ...]
    verbose: bool
    yes: bool
    plain: bool
    as_json: bool

    @property
    def is_rich(self) -> bool:
        """Whether more than letters is shown."""
        return not self.as_json and not self.plain and _can_do_more()


def _can_do_more() -> bool:
    """Whether standard output is a terminal that can do more than write letters."""
    return sys.stdout.isatty() and not is_simple_terminal()


def _read_question(words: tuple[str, ...]) -> tuple[str | None, bytes]:
    """Return the question, None for a conversation; and what standard input brings beside it."""
    *before, last = words or (None,)
    if last is None:
        return None, b""
    said = before if last == "-" else [*before, last]
    if said and not " ".join(map(str, said)).strip():
        raise click.UsageError("The QUESTION is empty.")
    piped = sys.stdin.buffer.read() if last == "-" or _brings_something() else b""
    if said:  # words without quotes are one question
        return " ".join(map(str, said)), piped if piped.strip() else b""
    question = piped.decode("utf-8", "replace").strip()
    if not question:
        raise click.UsageError("Standard input is empty, so there is no QUESTION.")
    return question, b""


def _brings_something() -> bool:
    """Whether standard input is a pipe or a file. A socket may stay open for ever, and is read for '-' only."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _find_gateway(given: _Given) -> "Remote | None":
    """Return the gateway to talk to; None for this process, which answers when --model is not the agent's model."""
    if not given.model:
        return find_gateway(is_silent=given.as_json)
    remote = find_gateway(is_silent=True)
    is_there, words = False, "(--model: embedded)"
    if remote is not None:
        agent = given.agent or remote.get("/api/agents", AgentList).default
        has = remote.get("/api/models/which", ChosenModel, agent=agent).model
        is_there = remote.get("/api/models/which", ChosenModel, model=given.model).model == has
        words = f"(gateway {remote.url})" if is_there else _embedded_note(remote.url, has)
        if not is_there and given_url():
            raise click.UsageError(
                f"The agent at {remote.url} answers with {has!r}: give it another model there "
                "(`handspan agents edit NAME --model M`), or use --embedded."
            )
    if not given.as_json:
        say_aside(words)
    return remote if is_there else None


def _embedded_note(url: str, has: str) -> str:
    """Return what a person who names a model beside a gateway has to know: the chat is not there."""
    return (
        f"(--model: embedded; this chat has no devices, and is not at the gateway {url}, which answers with {has!r}. "
        "For another model there: `handspan chat`, then /model NAME)"
    )


async def _chat(remote: "Remote | None", given: _Given) -> int:
    """Answer the question of the command line, or converse at the prompt. Return the exit code."""
    show = _make_show(given)
    forced = "" if remote else given.model
    if remote is None:
        workspace: Path | None = read_client_settings().workspace
    else:
        workspace = Path(remote.workspace) if remote.workspace else None
    render = _question_renderer(given, workspace)
    async with (
        open_requests(remote, model=forced) as requests,
        open_chat(
            requests,
            show,
            questions_for(given.yes, argument_editor(requests) if sys.stdin.isatty() else None, render),
            given.agent,
            session_id=given.session_id,
            model=forced,
            waits=given.question is not None,
            shows_images=given.is_rich,
        ) as talk,
    ):
        for file in given.files:
            show(ChatNote(f"({await talk.attach(file)})"))
        if given.piped:
            await talk.attach_data(_PIPED_NAME, given.piped)
        if given.question is None:
            await late.conversation.converse_at_prompt(talk, can_do_more=_can_do_more())
            return 0
        ended = await talk.say(given.question)
        return _EXIT_CODES.get(ended.reason, 0)


def _make_show(given: _Given) -> Show:
    once = given.question is not None
    if given.as_json:
        return JsonLines(sys.stdout)
    if not given.is_rich:
        return TerminalRenderer(sys.stdout, sys.stderr, verbose=given.verbose, once=once)
    return late.screen.make_screen(is_detailed=given.verbose, once=once)


def _question_renderer(given: _Given, workspace: Path | None) -> Callable[[Question], str]:
    """Return a function that renders a question; the question about an edit gets a diff."""
    if not sys.stdin.isatty():
        return render_question
    is_coloured = given.is_rich and not os.environ.get("NO_COLOR")
    return lambda question: render_with_diff(question, workspace, is_coloured=is_coloured)
