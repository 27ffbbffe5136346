"""`handspan chat`: one answer, or a conversation (SPEC A2, A4, U2)."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from handspan.agent.loading import loaded
from handspan.agent.session import Session
from handspan.agent.turn_events import Happening
from handspan.cli.conversation import Partner, converse, tool_line
from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.place import find_gateway, given_url, place_options, remote_part
from handspan.cli.shown import JsonLines, Show, Shown
from handspan.cli.terminal import questions_for
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError
from handspan.core.events import Ended, Event
from handspan.core.messages import Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.gateway.app import App
from handspan.models.choice import Choice

if TYPE_CHECKING:
    from handspan.cli.remote import Remote
    from handspan.cli.remote_chat import RemoteTalk


@click.command("chat")
@click.argument("question", required=False)
@click.option("--agent", help="The agent to talk to; default: the session's, else the default agent of the settings.")
@click.option("--session", "session_id", help="Go on with this session; 'last' is the one that was active last.")
@click.option("--model", help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.")
@click.option("--verbose", is_flag=True, help="Show arguments, results and thinking.")
@click.option("--yes", is_flag=True, help="Answer every question of tools with yes.")
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
    show: Show = JsonLines(sys.stdout) if as_json else Shown(sys.stdout, sys.stderr, verbose=verbose, once=once)
    given = _Given(question, agent, session_id, model or "")
    remote = _find_gateway(given, says=not as_json)
    sys.exit(asyncio.run(_chat(given, yes, show) if remote is None else _chat_there(remote, given, yes, show)))


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
        has: str = remote_part("remote_chat").model_of_agent(remote, given.agent or "").model
        is_there = remote_part("remote_chat").model_called(remote, given.model).model == has
        words = f"(gateway {remote.url})" if is_there else f"(--model: embedded; {remote.url} answers with {has!r})"
        if not is_there and given_url():
            raise click.UsageError(
                f"The agent at {remote.url} answers with {has!r}: give it another model there "
                "(`handspan agents edit NAME --model M`), or use --embedded."
            )
    if says:
        click.echo(words, err=True)
    return remote if is_there else None


async def _chat(given: _Given, yes: bool, show: Show) -> int:
    async with App(read_settings(), questions_for(yes), config_folder(), durable=True) as app:
        talk = Talk(app, given.model, show)
        await talk.open(given.agent, given.session, waits=given.question is not None)
        try:
            return await _talk(talk, given.question, show, app.settings.state)
        finally:
            await talk.close()


async def _chat_there(remote: "Remote", given: _Given, yes: bool, show: Show) -> int:
    there: RemoteTalk = remote_part("remote_chat").RemoteTalk(remote, show, questions_for(yes))
    async with there as talk:
        await talk.open(given.agent, given.session)
        return await _talk(talk, given.question, show, read_settings().state)


async def _talk(partner: Partner, question: str | None, show: Show, state: Path) -> int:
    """One answer, or a conversation; the exit code."""
    if question is None:
        await converse(partner, show, state / "chat_history")
        return 0
    ended = await partner.say(question)
    return 0 if ended.reason not in ("error", "aborted") else 1


class Talk:
    """A conversation at a terminal."""

    def __init__(self, app: App, model: str, show: Show) -> None:
        self._app = app
        self._model = model
        self._show = show
        self._loader = app.loader()
        self._session: Session
        self._looking: asyncio.Task[Choice] | None = None
        """For a better model, in the background (SPEC M5)."""

    async def open(self, agent: str | None, session_id: str | None, *, waits: bool) -> None:
        """Begin a session, or go on with one: with the agent that it has, unless another is named.

        Whether a local model answers is worth waiting for when there is only one question; a conversation begins
        without knowing.
        """
        known = await self._loader.find(session_id) if session_id else None
        try:
            acting = await self._app.find_agent(agent or (known.agent if known else None))
        except ConfigError as error:
            if agent or not known:
                raise
            raise ConfigError(f"{error} The session was with that one: name another (--agent).") from None
        named = self._model or acting.model
        if waits:
            chosen = await self._app.choose_model(named)
        else:
            chosen = self._app.choose_at_once(named)
            self._looking = asyncio.create_task(self._app.choose_model(named))
        self._session = await self._loader.begin(acting, chosen, known)
        self._show.opened(self._session.id, acting.name, chosen.why)
        for note in loaded(self._session).notes:
            self._show.told(f"({note})")

    async def close(self) -> None:
        """Look for nothing any more."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def say(self, text: str) -> Ended:
        """One turn; Ctrl-C aborts it, and only it."""
        loop = asyncio.get_running_loop()
        turn = asyncio.create_task(self._turn(UserMessage((Text(text),))))

        def abort() -> None:
            if not turn.cancelling():  # once: a second Ctrl-C must not disturb the tidying up
                turn.cancel()

        loop.add_signal_handler(signal.SIGINT, abort)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                raise
            return Ended("aborted")
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _turn(self, message: UserMessage) -> Ended:
        if self._looking is not None:
            looking, self._looking = self._looking, None
            found = await looking
            conversation = loaded(self._session)
            if found.model.name != conversation.model.name:
                await self._act_as(conversation.agent, found)
                self._show.told(f"Model: {found.why}")
        return await self._session.say(OPERATOR, message, self._hear).end()

    def _hear(self, happening: Happening, turn: str) -> None:
        if isinstance(happening, Event):  # no other concerns a person at a terminal
            self._show(happening)

    async def command(self, name: str, argument: str) -> list[str]:
        """The lines that answer a command."""
        match name:
            case "/tools":
                return [tool_line(spec.name, spec.description) for spec in loaded(self._session).caller.box.specs()]
            case "/agent":
                if argument:
                    await self._change_agent(argument)
                return [loaded(self._session).caller.agent.name]
            case "/skill":
                if argument:
                    await self._loader.switch_on(self._session, argument)
                return [skill.name for skill in loaded(self._session).skills]
            case _:
                return await self._loader.usage(self._session)

    async def _change_agent(self, name: str) -> None:
        agent = await self._app.find_agent(name)
        await self._act_as(agent, await self._app.choose_model(self._model or agent.model))
        await self.close()

    async def _act_as(self, agent: Agent, chosen: Choice) -> None:
        await self._loader.change_agent(self._session, agent, chosen)
