"""Long conversations on each store: their marks hold after a restart, at another node and when going back (SPEC L1)."""

import asyncio
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from handspan.agent.compaction.view import summary_message
from handspan.core.agents import Agent
from handspan.core.context import ToolContext
from handspan.core.events import Compacted, UsageCounted
from handspan.core.function_tool import tool
from handspan.core.messages import AssistantMessage, Message, Text, Usage, UserMessage, check_all
from handspan.core.principals import OPERATOR, Origin
from handspan.core.tool import Tool, ToolSpec
from handspan.core.values import Arguments
from handspan.models.model import ModelError
from handspan.models.scripted import Call, PlainTurn, Scripted, ScriptedReply
from tests.store.long_talks import ASKS_FOR_SUMMARY, FORM, WINDOW, always, answers, long_talk, summarises, text_of
from tests.stores import has_connections, open_store
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


def talked(model: Scripted) -> list[tuple[Message, ...]]:
    """What the model saw in requests that asked for an answer."""
    return [one.messages for one in model.requests if ASKS_FOR_SUMMARY not in text_of(one.messages[-1])]


def is_summary(message: Message) -> bool:
    return text_of(message).startswith(text_of(summary_message("")))


async def test_a_talk_goes_on_however_long_it_is_and_all_of_it_is_kept(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say("Remember the fact x17.")
        await talk.say_much(80)
        history = await talk.history()
        moves = len(talk.compacted)
    assert moves >= 3
    assert len(history) == 2 * 81
    check_all(history)
    said = [text_of(message) for message in history]
    assert not any(map(is_summary, history)) and said[0] == "Remember the fact x17." and said[-2].startswith("79: ")
    requests = talked(model)
    assert all(sum(len(text_of(message)) for message in request) / 4 < WINDOW for request in requests)
    assert is_summary(requests[-1][0]) and "fact x17" in text_of(requests[-1][0])
    same_begin = sum(before[0] == after[0] for before, after in itertools.pairwise(requests))
    assert same_begin >= len(requests) - 1 - moves - 1, "between two moves the beginning stays"


async def test_between_two_moves_what_was_sent_stays_the_same(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say_much(60)
        moves = [event.before > event.after for event in talk.compacted]
    requests = talked(model)
    anew = [after[: len(before)] != before for before, after in itertools.pairwise(requests)]
    assert sum(anew) == len(moves) and all(moves)


async def test_the_event_tells_what_has_become_shorter(state: Path) -> None:
    async with long_talk(state, always()) as talk:
        await talk.say_much(30)
        first = talk.compacted[0]
    assert first.before > WINDOW * 0.8 and first.after <= WINDOW * 0.55
    assert first.summarized and first.summary.startswith("# Goal") and not first.note


async def test_what_a_summary_used_counts_and_is_told(state: Path) -> None:
    def counted(messages: Sequence[Message]) -> PlainTurn:
        record = summarises(messages)
        return "Short." if record is None else ScriptedReply((record,), Usage(700, 50))

    async with long_talk(state, always(counted)) as talk:
        await talk.say_much(30)
        (used,) = await soon(talk.store.usage.sums("session", owner=OPERATOR.owner))
        told = [event for event in talk.heard if isinstance(event, UsageCounted)]
        assert used.input.known == 700 * len(told) and used.replies == 30 + len(told) and told


async def test_another_process_and_another_node_see_the_same(state: Path) -> None:
    async with long_talk(state, always()) as talk:
        await talk.say("fact restart")
        await talk.say_much(30)
    model = always()
    async with long_talk(state, model) as again:
        await again.say("What now?")
        other_model = always()
        async with long_talk(state, other_model) as other:  # another node
            await other.say("fact elsewhere")
            await other.say_much(30, begin=100)
            moved = await soon(other.store.contexts.marks("s", owner=OPERATOR.owner))
        assert other.compacted
        await again.say("And now?")
    first, last = (request[0] for request in talked(model))
    assert is_summary(first) and "fact restart" in text_of(first)
    assert last == summary_message(moved.summary) != first
    assert "fact restart" in moved.summary and "fact elsewhere" in moved.summary


async def test_a_version_from_before_a_mark_does_not_know_it(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say_much(40)
        history, session = await talk.history(), talk.session
        marks = await soon(talk.store.contexts.marks("s", owner=OPERATOR.owner))
        handle = session.say(OPERATOR, UserMessage((Text("Another way."),)), lambda *_: None, replaces=3)
        assert (await soon(handle.wait_for_end())).reason == "done"
        assert [*talked(model)[-1]] == [*history[:2], UserMessage((Text("Another way."),), turn=handle.turn.id)]
        left = await soon(talk.store.conversations.versions("s", owner=OPERATOR.owner))
        await soon(session.choose_version(OPERATOR, next(one.branch for one in left if one.left_at)).wait_for_end())
        await talk.say("Back again.")
    assert talked(model)[-1][0] == summary_message(marks.summary)
    assert text_of(talked(model)[-1][-1]) == "Back again."


async def test_a_message_is_taken_back_and_answered_again_behind_a_mark(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say_much(40)
        begin = talked(model)[-1][0]
        await soon(talk.session.regenerate(OPERATOR, lambda *_: None).wait_for_end())
        assert talked(model)[-1][0] == begin and is_summary(begin)
        await soon(talk.session.undo(OPERATOR).wait_for_end())
        await talk.say("Something else.")
        assert talked(model)[-1][0] == begin
        assert len(await talk.history()) == 80


async def test_a_summary_that_fails_leaves_the_free_step_and_a_note(state: Path) -> None:
    def fails(messages: Sequence[Message]) -> PlainTurn:
        if summarises(messages):
            raise ModelError("overloaded", "The model's server can't answer now.")
        return answers(messages)

    @tool
    def look() -> str:
        """Look."""
        return "much to see " * 250

    def looks(messages: Sequence[Message]) -> PlainTurn:
        return Call("look") if isinstance(messages[-1], UserMessage) and not summarises(messages) else fails(messages)

    model = always(looks)
    async with long_talk(state, model, Agent("Looks", instructions="Be brief.", tools=("look",))) as talk:
        talk.app.registry.register(look, Origin("plugin", "test"))
        ends = [await talk.say(f"{number}: " + "many words to say " * 20) for number in range(14)]
        first = talk.compacted[0]
    ended = next(end for end in ends if end.reason != "done")
    assert first.short and first.after < first.before and not first.summary and "can't answer" in first.note
    assert len(model.requests) > len(talked(model))
    assert ended.reason == "error" and "no new summary. The model's server can't answer now." in ended.text


@pytest.mark.parametrize("answer", ["I would rather not.", FORM.format(facts="- none").replace("# Open", "# Else")])
async def test_an_answer_that_is_no_record_is_not_taken(state: Path, answer: str) -> None:
    model = always(lambda messages: answer if summarises(messages) else answers(messages))
    async with long_talk(state, model) as talk:
        await talk.say_much(22)
        assert (await soon(talk.store.contexts.marks("s", owner=OPERATOR.owner))).summary == ""


async def test_without_summaries_or_with_the_step_switched_off_none_is_asked_for(state: Path) -> None:
    model = always()
    async with long_talk(state, model, settings={"context": {"summary": "off"}}) as talk:
        await talk.say_much(22)
        ended = [await talk.say("many words to say " * 40) for _ in range(3)][-1]
        assert ended.reason == "error" and "(context.summary)" in ended.text
    assert len(talked(model)) == len(model.requests)
    async with long_talk(state, model, settings={"context": {"at": 0}}) as talk:
        await talk.say_much(3)
        assert not talk.compacted and len(talked(model)[-1]) == len(await talk.history()) - 1


@pytest.mark.parametrize("context", [100_000, None], ids=["set too high", "not known"])
async def test_a_model_that_finds_it_too_long_is_asked_again_once_and_its_window_is_kept(
    state: Path, context: int | None
) -> None:
    def refuses(messages: Sequence[Message]) -> PlainTurn:
        size = sum(len(text_of(message)) for message in messages)
        if size > 6000:
            said = "It said 400: 'maximum context length is 1,500 tokens'."
            raise ModelError("too_long", f"The conversation is too long for this model. {said}", status=400)
        return answers(messages)

    model = always(refuses)
    async with long_talk(state, model, context=context) as talk:
        await talk.say("fact learned")
        await talk.say_much(40)
        assert await soon(talk.store.contexts.windows()) == {"scripted": 1500}
        assert talk.compacted


async def test_a_model_that_finds_everything_too_long_is_told_of_once(state: Path) -> None:
    def refuses(messages: Sequence[Message]) -> PlainTurn:
        raise ModelError("too_long", "The conversation is too long for this model.", status=400)

    model = always(refuses)
    async with long_talk(state, model) as talk:
        ended = await talk.say("Hello?")
        assert ended.reason == "error" and "too long" in ended.text
        assert len(model.requests) <= 2


async def test_a_person_asks_for_a_summary_and_says_what_to_keep(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say("fact small")
        await talk.say("second")
        assert not talk.compacted
        before = await talk.history()
        done = await soon(talk.session.compact(OPERATOR, "the fact small").wait_for_end())
        assert done.reason == "pending"
        assert "keep in any case: the fact small" in text_of(model.requests[-1].messages[-1])
        await talk.say("third")
        assert await talk.history() == [*before, *(await talk.history())[-2:]]
    assert is_summary(talked(model)[-1][0]) and "fact small" in text_of(talked(model)[-1][0])
    assert [text_of(one) for one in talked(model)[-1]][1:] == ["second", "Answer to: second", "third"]


def run_until_it_summarises(state: Path) -> bytes:
    """What the process has said when it is killed: it asks for a summary."""
    command = [sys.executable, "-m", "tests.store.long_talks", str(state)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
        return line


@pytest.mark.outside
async def test_a_process_that_is_killed_in_mid_summary_loses_nothing(state: Path) -> None:
    async with open_store(state):  # the processes share the server that this starts
        pass
    line = await asyncio.to_thread(run_until_it_summarises, state)
    assert line == b"summarising\n"
    await until(lambda: not has_connections(state))
    model = always()
    async with long_talk(state, model) as talk:
        history = await talk.history()
        assert text_of(history[0]) == "fact kill9" and isinstance(history[-1], UserMessage | AssistantMessage)
        assert (await soon(talk.store.contexts.marks("s", owner=OPERATOR.owner))).summarized == 0
        await talk.say("Go on.")
        assert talk.compacted and (await talk.history())[: len(history)] == history
    assert "fact kill9" in text_of(talked(model)[-1][0])


def test_the_event_is_plain_data() -> None:
    event = Compacted(10, 5, 2)
    assert structs.asdict(event)["summary"] == ""


def many_tools(count: int) -> list[Tool]:
    """Tools of about 60 tokens each."""

    class One:
        def __init__(self, number: int) -> None:
            about = "It does something that is told at length, so that it takes room. " * 3
            self.spec = ToolSpec(f"tool_{number}", about, {"type": "object", "properties": {}})

        async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
            return "done"

    return [One(number) for number in range(count)]


async def test_a_window_too_small_for_the_tools_gets_fewer_and_the_others_can_be_found(state: Path) -> None:
    model = always()
    agent = Agent("Busy", instructions="Be brief.")
    names = ("search_tools", "get_current_time")
    async with long_talk(state, model, agent, context=6000, settings={"tools": {"shown": 300}}) as talk:
        for entry in [entry for entry in talk.app.registry if entry.spec.name not in names]:
            talk.app.registry.unregister(entry.spec.name)
        for made in many_tools(100):
            talk.app.registry.register(made, Origin("plugin", "test"))
        assert (await talk.say("Hello.")).reason == "done"
    assert "search_tools" in model.requests[-1].tools and len(model.requests[-1].tools) <= 30


async def test_instructions_that_alone_are_too_much_are_named_with_their_setting(state: Path) -> None:
    model = always()
    agent = Agent("Wordy", instructions="Be careful with everything. " * 800, tools=())
    async with long_talk(state, model, agent) as talk:
        ended = await talk.say("Hello.")
    assert ended.reason == "error" and not model.requests
    assert "(models.scripted.context)" in ended.text and "agents.NAME.tools, or tools.shown" in ended.text


async def test_a_message_that_alone_is_too_long_is_told_as_such(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say("Hello.")
        ended = await talk.say("many words " * 2000)
        assert ended.reason == "error" and "The last message alone is too long" in ended.text
        assert "/undo takes the message back" in ended.text and not talk.compacted
        await soon(talk.session.undo(OPERATOR).wait_for_end())
        assert (await talk.say("Shorter.")).reason == "done"


async def test_a_message_that_was_too_long_does_not_block_what_is_said_next(state: Path) -> None:
    model = always()
    async with long_talk(state, model) as talk:
        await talk.say("Hello.")
        for _ in range(3):
            assert (await talk.say("many words " * 2000)).reason == "error"
        assert (await talk.say("Hi again.")).reason == "done"
        assert len(talk.compacted) == 1 and talk.compacted[0].after < talk.compacted[0].before
        history = await talk.history()
    assert [len(text_of(message)) for message in history[2:5]] == [len("many words " * 2000)] * 3
    async with long_talk(state, model) as talk:  # another process sees the same
        assert (await talk.say("And now?")).reason == "done"
    assert "characters of this message are not shown" in text_of(model.requests[-1].messages[2])
