"""`handspan chat`: one answer, or a conversation (SPEC A2, A4, U2)."""

import asyncio
import sys
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from handspan.cli.conversation import Partner, converse
from handspan.cli.door import find_gateway, given_url, open_requests, place_options
from handspan.cli.options import read_settings, settings_options
from handspan.cli.render_chat import JsonLines, Show, TerminalRenderer
from handspan.cli.terminal_chat import TerminalChat
from handspan.cli.terminal_questions import questions_for
from handspan.wire.rest.agents import AgentList
from handspan.wire.rest.status import ChosenModel

if TYPE_CHECKING:
    from handspan.cli.remote import Remote


@click.command("chat")
@click.argument("question", required=False)
@click.option("--agent", help="The agent to talk to; default: the session's, else the default agent of the settings.")
@click.option("--session", "session_id", help="Go on with this session; 'last' is the one that was active last.")
@click.option("--model", help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.")
@click.option("--verbose", is_flag=True, help="Show arguments, results and thinking.")
@click.option(
    "--yes", is_flag=True, help="Answer every question of the gateway with yes. A device still asks its own person."
)
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON; the session's id comes first.")
@settings_options
@place_options
def command(
    question: str | None,
    agent: str | None,
    session_id: str | None,
    model: str | None,
    verbose: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Talk to an agent that uses your tools. With QUESTION it answers once; otherwise it is a conversation."""
    if question is not None and not question.strip():
        raise click.UsageError("The QUESTION is empty.")
    once = question is not None
    show: Show = (
        JsonLines(sys.stdout) if as_json else TerminalRenderer(sys.stdout, sys.stderr, verbose=verbose, once=once)
    )
    given = _Given(question, agent, session_id, model or "")
    remote = _find_gateway(given, says=not as_json)
    sys.exit(asyncio.run(_chat(remote, given, yes, show)))


_EXIT_CODES: Final = {"error": 1, "aborted": 130}
"""By the end of a single answer. Ctrl-C aborts it, and shells count that as 130."""


class _Given(Struct, frozen=True):
    question: str | None
    agent: str | None
    session: str | None
    model: str


def _find_gateway(given: _Given, *, says: bool) -> "Remote | None":
    """The gateway to talk at. It answers with the models of its agents: with any other one this process answers."""
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
        click.echo(words, err=True)
    return remote if is_there else None


async def _chat(remote: "Remote | None", given: _Given, yes: bool, show: Show) -> int:
    is_once = given.question is not None
    forced = "" if remote else given.model
    async with (
        open_requests(remote, model=forced) as requests,
        TerminalChat(requests, show, questions_for(yes), forced) as talk,
    ):
        await talk.open(given.agent, given.session, waits=is_once)
        return await _talk(talk, given.question, show)


async def _talk(partner: Partner, question: str | None, show: Show) -> int:
    """Print one answer, or hold a conversation. Return the exit code."""
    if question is None:
        await converse(partner, show, read_settings().state / "chat_history")
        return 0
    ended = await partner.say(question)
    return _EXIT_CODES.get(ended.reason, 0)
