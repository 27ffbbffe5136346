"""`handspan chat`: one answer, or a conversation (SPEC A2, A4, U2)."""

import asyncio
import signal
import sys

import click

from handspan.core.events import Ended
from handspan.agent.session import Session
from handspan.cli.options import config_folder, read_settings, settings_options
from handspan.cli.prompt import Prompt
from handspan.cli.shown import JsonLines, Show, Shown
from handspan.cli.terminal import questions_for
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, HandspanError
from handspan.core.messages import Text, UserMessage
from handspan.gateway.app import App
from handspan.gateway.conversing import Conversing
from handspan.models.choice import Choice

_HELP = """\
/tools           what tools this agent may use
/agent [NAME]    which agent answers; with a name, let that one go on
/skill [NAME]    which skills are on; with a name, switch that one on
/usage           what this conversation used
/help            this
/quit            the end (so is Ctrl-D)
Ctrl-C aborts the answer, not the program."""


@click.command("chat")
@click.argument("question", required=False)
@click.option("--agent", help="The agent to talk to; default: the session's, else the default agent of the settings.")
@click.option("--session", "session_id", help="Go on with this session; 'last' is the one that was active last.")
@click.option("--model", help="A model of the settings, 'offline', or API:MODEL such as anthropic:claude-sonnet-5.")
@click.option("--verbose", is_flag=True, help="Show arguments, results and thinking.")
@click.option("--yes", is_flag=True, help="Answer every question of tools with yes.")
@click.option("--json", "as_json", is_flag=True, help="One event a line, as JSON; the session's id comes first.")
@settings_options
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
    sys.exit(asyncio.run(_chat(question, agent, session_id, model or "", yes, show)))


async def _chat(
    question: str | None, agent: str | None, session_id: str | None, model: str, yes: bool, show: Show
) -> int:
    async with App(read_settings(), questions_for(yes), config_folder(), durable=True) as app:
        talk = Talk(app, model, show)
        await talk.open(agent, session_id, waits=question is not None)
        try:
            if question is None:
                await talk.converse()
                return 0
            ended = await talk.say(question)
            return 0 if ended.reason not in ("error", "aborted") else 1
        finally:
            await talk.close()


class Talk:
    """A conversation at a terminal."""

    def __init__(self, app: App, model: str, show: Show) -> None:
        self._app = app
        self._model = model
        self._show = show
        self._conversing: Conversing = app.conversing()
        self._session: Session
        self._looking: asyncio.Task[Choice] | None = None
        """For a better model, in the background (SPEC M5)."""

    async def open(self, agent: str | None, session_id: str | None, *, waits: bool) -> None:
        """Begin a session, or go on with one: with the agent that it has, unless another is named.

        Whether a local model answers is worth waiting for when there is only one question; a conversation begins
        without knowing.
        """
        known = await self._conversing.find(session_id) if session_id else None
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
        self._session = await self._conversing.open(acting, chosen, known)
        self._show.opened(self._session.id, acting.name, chosen.why)
        for note in self._session.notes:
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
            if found.model.name != self._session.model.name:
                await self._act_as(self._session.agent, found)
                self._show.told(f"Model: {found.why}")
        return await self._conversing.say(self._session, message, self._show)

    async def converse(self) -> None:
        """Turn after turn, until the person has had enough."""
        prompt = Prompt(self._app.settings.state / "chat_history")
        prompt.open()
        try:
            while (line := await prompt.line()) is not None and line not in ("/quit", "/exit"):
                await self._answer(line)
        finally:
            prompt.close()

    async def _answer(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        try:
            if name in ("/help", "/tools", "/agent", "/skill", "/usage"):
                await self._command(name, argument.strip())
            elif line:
                await self.say(line)
        except HandspanError as error:
            self._show.told(f"({error})")

    async def _command(self, name: str, argument: str) -> None:
        match name:
            case "/tools":
                lines = [
                    f"{spec.name:<24} {' '.join(spec.description.split())[:90]}"
                    for spec in self._session.caller.box.specs()
                ]
            case "/agent":
                if argument:
                    await self._change_agent(argument)
                lines = [self._session.caller.agent.name]
            case "/skill":
                if argument:
                    self._conversing.switch_on(self._session, argument)
                lines = [skill.name for skill in self._session.skills]
            case "/usage":
                lines = await self._conversing.usage(self._session)
            case _:
                lines = _HELP.splitlines()
        for said in lines or ["(none)"]:
            self._show.told(f"  {said}")

    async def _change_agent(self, name: str) -> None:
        agent = await self._app.find_agent(name)
        await self._act_as(agent, await self._app.choose_model(self._model or agent.model))
        await self.close()

    async def _act_as(self, agent: Agent, chosen: Choice) -> None:
        self._session = await self._conversing.change_agent(self._session, agent, chosen)
