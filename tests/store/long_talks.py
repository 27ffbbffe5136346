"""A session whose model can read little, on a store that is given; also a process to be killed in mid-summary."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from handspan.agent.session import Session
from handspan.agent.turn_events import SessionEvent
from handspan.config.load import load_settings
from handspan.core.agents import Agent
from handspan.core.events import Compacted, Ended
from handspan.core.messages import Message, Text, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.store import Store
from handspan.core.values import JsonObject
from handspan.gateway.app import App
from handspan.models.choice import Choice
from handspan.models.model import Model
from handspan.models.scripted import PlainTurn, Scripted
from tests.gateway.sessions.session_kit import open_session
from tests.postgres_engine import schema_url
from tests.stores import is_postgres, open_store
from tests.waiting import soon

WINDOW = 3000
AGENT = Agent("Terse", instructions="Be brief.", tools=())
ASKS_FOR_SUMMARY = "Write the record of these"
FORM = "# Goal\n- a long talk\n# Decisions\n- none\n# Facts\n{facts}\n# Done\n- talked\n# Open\n- none\n"
_FACT = re.compile(r"fact \w+")


def text_of(message: Message) -> str:
    return " ".join(part.text for part in getattr(message, "parts", ()) if isinstance(part, Text))


def summarises(messages: Sequence[Message]) -> str | None:
    """The record of a model that keeps every fact that it is told; None if none is asked for."""
    asked = text_of(messages[-1])
    if ASKS_FOR_SUMMARY not in asked:
        return None
    facts = dict.fromkeys(_FACT.findall(asked))
    return FORM.format(facts="\n".join(f"- {fact}" for fact in facts) or "- none")


def answers(messages: Sequence[Message]) -> PlainTurn:
    """A record where one is asked for, else a short answer."""
    return summarises(messages) or f"Answer to: {text_of(messages[-1])[:20]}"


def always(turn: Callable[[Sequence[Message]], PlainTurn] = answers) -> Scripted:
    return Scripted([turn], loop=True)


class Talk:
    """A session with its events."""

    def __init__(self, session: Session, app: App) -> None:
        self.session = session
        self.app = app
        self.store: Store = app.store
        self.heard: list[SessionEvent] = []

    async def say(self, text: str) -> Ended:
        message = UserMessage((Text(text),))
        return await soon(self.session.say(OPERATOR, message, lambda event, _: self.heard.append(event)).wait_for_end())

    async def say_much(self, turns: int, begin: int = 0) -> None:
        for number in range(begin, begin + turns):
            ended = await self.say(f"{number}: " + "many words to say " * 20)
            assert ended.reason == "done", ended

    @property
    def compacted(self) -> list[Compacted]:
        return [event for event in self.heard if isinstance(event, Compacted)]

    async def history(self) -> list[Message]:
        return list(await soon(self.store.conversations.load(self.session.id, owner=OPERATOR.owner)))


@asynccontextmanager
async def long_talk(
    state: Path, model: Model, *agents: Agent, context: int | None = WINDOW, settings: JsonObject | None = None
) -> AsyncIterator[Talk]:
    """A talk as a process of its own has it. `settings`: those beside the folders."""
    folders: JsonObject = {"workspace": str(state.parent / "ws"), "state": str(state), **(settings or {})}
    if is_postgres():
        folders["store"] = {"url": schema_url(state)}
    read = load_settings(None, {"HOME": str(state.parent)}, folders)
    async with App(read, store=open_store(state)) as app:
        session = await open_session(app, Choice(model, "for a test", context=context), *(agents or (AGENT,)))
        yield Talk(session, app)


async def main(state: Path) -> None:
    """Talk until a summary is asked for, say so, and wait for ever."""

    def hangs(messages: Sequence[Message]) -> PlainTurn:
        if summarises(messages):
            os.write(1, b"summarising\n")
            os.kill(os.getpid(), signal.SIGSTOP)  # in the middle of everything, until it is killed
        return answers(messages)

    async with long_talk(state, always(hangs)) as talk:
        await talk.say("fact kill9")
        await talk.say_much(100)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
