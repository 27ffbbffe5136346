"""`handspan chat`: one answer, or a conversation (SPEC A2, A4, U2)."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from handspan.cli import late
from handspan.cli.chat.edits import render_with_diff
from handspan.cli.chat.lines import JsonLines, Show, TerminalRenderer
from handspan.cli.chat.terminal_chat import TerminalChat
from handspan.cli.ctrl_c import run_until_done
from handspan.cli.door import find_gateway, given_url, open_requests, place_options, say_aside
from handspan.cli.edit_arguments import argument_editor
from handspan.cli.options import completes, read_client_settings
from handspan.cli.terminal_questions import EditArguments, is_simple_terminal, questions_for, render_question
from handspan.core.questions import Question
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.models import ChosenModel

if TYPE_CHECKING:
    from handspan.cli.remote import Remote
    from handspan.cli.requests import Requests


@click.command("chat")
@click.argument("words", metavar="[QUESTION …] [-]", nargs=-1)
@click.option(
    "--agent",
    shell_complete=completes("agents"),
    help="The agent to talk to; default: the session's, else the default agent of the settings.",
)
@click.option(
    "--session",
    "session_id",
    shell_complete=completes("sessions"),
    help="Go on with this session; 'last' is the one that was active last.",
)
@click.option(
    "--model",
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
def command(
    words: tuple[str, ...],
    agent: str | None,
    session_id: str | None,
    model: str | None,
    files: tuple[Path, ...],
    verbose: bool,
    yes: bool,
    plain: bool,
    as_json: bool,
) -> None:
    """Talk to an agent that uses your tools. With QUESTION it answers once; otherwise it is a conversation.

    Words without quotes are one QUESTION; quotes keep what your shell would change, such as ? and *.

    What standard input brings goes with the QUESTION, as a file: cat notes.txt | handspan chat "summarise". With '-'
    standard input is always read; with '-' alone it is the QUESTION. Without both, each of its lines is one message.
    """
    question, piped = _read_question(words)
    given = _Given(question, agent, session_id, model or "", files=files, piped=piped, verbose=verbose, yes=yes)
    style = _Style(is_json=as_json, is_rich=not as_json and not plain and _can_do_more())
    remote = _find_gateway(given, says=not as_json)
    sys.exit(run_until_done(_chat(remote, given, style)))


_EXIT_CODES: Final = {"error": 1, "aborted": 130}
"""Exit codes by the reason why a single answer ended. 130 is what shells use for Ctrl-C."""
_PIPED_NAME: Final = "standard input"


class _Given(Struct, frozen=True):
    """The arguments and options of the command, as they were given."""

    question: str | None
    agent: str | None
    session: str | None
    model: str
    files: tuple[Path, ...]
    piped: bytes
    """What standard input brought beside the question."""
    verbose: bool
    yes: bool


class _Style(Struct, frozen=True):
    is_json: bool
    is_rich: bool


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


def _find_gateway(given: _Given, *, says: bool) -> "Remote | None":
    """Return the gateway to talk to; None for this process, which answers when --model is not the agent's model."""
    if not given.model:
        return find_gateway(says=says)
    remote = find_gateway(says=False)
    is_there, words = False, "(--model: embedded)"
    if remote is not None:
        agent = given.agent or remote.get("/api/agents", AgentList).default
        has = remote.get("/api/models/which", ChosenModel, agent=agent).model
        is_there = remote.get("/api/models/which", ChosenModel, model=given.model).model == has
        words = f"(gateway {remote.url})" if is_there else f"(--model: embedded; {remote.url} answers with {has!r})"
        if not is_there and given_url():
            raise click.UsageError(
                f"The agent at {remote.url} answers with {has!r}: give it another model there "
                "(`handspan agents edit NAME --model M`), or use --embedded."
            )
    if says:
        say_aside(words)
    return remote if is_there else None


async def _chat(remote: "Remote | None", given: _Given, style: _Style) -> int:
    show = _make_show(style, given)
    forced = "" if remote else given.model
    workspace = Path(remote.workspace) if remote is not None and remote.workspace else None
    if remote is None:
        workspace = read_client_settings().workspace
    render = _question_renderer(style, workspace)
    async with (
        open_requests(remote, model=forced) as requests,
        TerminalChat(
            requests,
            show,
            questions_for(given.yes, _argument_editor(requests), render),
            forced,
            shows_images=style.is_rich,
        ) as talk,
    ):
        await talk.open(given.agent, given.session, waits=given.question is not None)
        for file in given.files:
            show.note(f"({await talk.attach(file)})")
        if given.piped:
            await talk.attach_data(_PIPED_NAME, given.piped)
        if given.question is None:
            await late.conversation.converse_at_prompt(talk, can_do_more=_can_do_more())
            return 0
        ended = await talk.say(given.question)
        return _EXIT_CODES.get(ended.reason, 0)


def _make_show(style: _Style, given: _Given) -> Show:
    once = given.question is not None
    if style.is_json:
        return JsonLines(sys.stdout)
    if not style.is_rich:
        return TerminalRenderer(sys.stdout, sys.stderr, verbose=given.verbose, once=once)
    return late.screen.make_screen(is_detailed=given.verbose, once=once)


def _question_renderer(style: _Style, workspace: Path | None) -> Callable[[Question], str]:
    """Return a function that renders a question; the question about an edit gets a diff."""
    if not sys.stdin.isatty():
        return render_question
    return lambda question: render_with_diff(question, workspace, is_coloured=style.is_rich and _has_colour())


def _argument_editor(requests: "Requests") -> EditArguments | None:
    """Return a function that lets the person edit the arguments of a call; None without a terminal."""
    return argument_editor(requests) if sys.stdin.isatty() else None


def _has_colour() -> bool:
    return not os.environ.get("NO_COLOR")
