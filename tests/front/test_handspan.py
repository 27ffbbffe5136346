"""An agent with tools inside a program (SPEC U5)."""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from handspan import AskFailed, Handspan, HandspanError, Pending, Success, ToolContext, UsageError, tool
from handspan.agent.refusals import SessionRefused
from handspan.config.settings import AgentSettings, Settings
from handspan.core.agents import Agent
from handspan.core.errors import ConfigError, DefinitionError, NameTaken, ToolError
from handspan.core.events import CallFinished, CallStarted, Ended, TextArrived
from handspan.core.messages import Message, Text, Usage, UserMessage
from handspan.core.results import Failure
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, ScriptedReply, call
from tests.stores import rows_in
from tests.waiting import until

pytestmark = pytest.mark.anyio

WAIT = 30.0


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return len(text)


class Shout:
    """A tool that is no function."""

    spec = ToolSpec("shout", "Say it louder.", {"type": "object", "properties": {"text": {"type": "string"}}})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        """The text in capitals."""
        return str(arguments["text"]).upper()


class Blocking:
    """A tool that runs until it is cancelled, and says when it began and ended."""

    spec = ToolSpec("block", "Wait.", {"type": "object", "properties": {}}, timeout=None)

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.was_cancelled = asyncio.Event()

    async def run(self, arguments: Arguments, ctx: ToolContext) -> None:
        """Wait for ever."""
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled.set()


async def test_the_second_model_of_a_list_answers_while_the_first_can_not() -> None:
    busy = ModelError("overloaded", "Too busy.")
    first, second = (
        Scripted([busy], name="first"),
        Scripted([call("get_weather", city="Rome"), "Sunny."], name="second"),
    )
    async with Handspan([get_weather], model=[first, second]) as hands:
        answer = await hands.ask("The weather in Rome?", timeout=WAIT)
    assert answer.text == "Sunny."
    assert len(answer.calls) == 1
    assert len(first.requests) == 1


async def test_a_typed_answer_comes_from_the_second_model_of_a_list_too() -> None:
    busy = ModelError("network", "Nobody there.")
    second = Scripted([call("final_answer", answer=42)], name="second")
    async with Handspan(model=[Scripted([busy], name="first"), second]) as hands:
        answer = await hands.ask("How much?", answer_type=int, timeout=WAIT)
    assert answer.value == 42


async def test_a_list_of_names_is_checked_at_once_and_an_empty_one_is_as_none() -> None:
    with pytest.raises(ConfigError, match="there is no model 'offlin'"):
        async with Handspan(model=["offlin", "offline"]):
            pass
    async with Handspan(model=[]) as hands:
        assert (await hands.ask("hi", timeout=WAIT)).reason == "done"


def _words(messages: Sequence[Message]) -> list[str]:
    """What the person said."""
    said = (message for message in messages if isinstance(message, UserMessage))
    return [part.text for message in said for part in message.parts if isinstance(part, Text)]


# Answers.


async def test_five_lines_give_an_answer_with_a_tool_of_the_program() -> None:
    async with Handspan(tools=[get_weather], model="offline") as hands:
        answer = await hands.ask("What is the weather in Paris?")
    assert str(answer).startswith("It is sunny in Paris.")
    assert [(made.name, made.arguments, made.result) for made in answer.calls] == [
        ("get_weather", {"city": "Paris"}, "It is sunny in Paris.")
    ]


async def test_a_plain_function_and_an_object_with_spec_and_run_are_tools_too() -> None:
    model = Scripted([[call("count_letters", text="four"), call("shout", text="hey")], "4 HEY"])
    async with Handspan(tools=[count_letters, Shout()], model=model) as hands:
        answer = await hands.ask("go")
    assert {(made.name, made.result) for made in answer.calls} == {("count_letters", 4), ("shout", "HEY")}
    assert model.requests[0].tools == ("count_letters", "shout")


async def test_the_usage_of_all_replies_is_summed_and_the_unknown_stays_unknown() -> None:
    turns = [
        ScriptedReply((call("get_weather", city="Rome"),), Usage(10, 2, cached=4)),
        ScriptedReply(("Sunny.",), Usage(20, 3)),
    ]
    async with Handspan(tools=[get_weather], model=Scripted(turns)) as hands:
        assert (await hands.ask("go")).usage == Usage(30, 5, cached=None)


async def test_a_failed_call_is_told_with_its_code_and_the_turn_goes_on() -> None:
    async with Handspan(tools=[get_weather], model=Scripted([call("get_weather", town="Rome"), "no"])) as hands:
        answer = await hands.ask("go")
    (made,) = answer.calls
    assert (made.status, answer.text) == ("invalid_arguments", "no")
    assert "'town'" in str(made.result)


async def test_the_model_is_told_the_instructions() -> None:
    model = Scripted(["Ahoy."])
    async with Handspan(model=model, instructions="Talk like a pirate.") as hands:
        await hands.ask("Hello")
    assert model.requests[0].instructions.startswith("Talk like a pirate.")


# Sessions.


async def test_each_ask_is_a_conversation_of_its_own_unless_a_session_is_named() -> None:
    model = Scripted(["one", "two", "three"])
    async with Handspan(model=model) as hands:
        first = await hands.ask("1")
        await hands.ask("2")
        third = await hands.ask("3", session=first.session)
    assert third.session == first.session
    said = [_words(request.messages) for request in model.requests]
    assert said == [["1"], ["2"], ["1", "3"]]


async def test_asks_of_one_session_are_answered_in_their_order_and_others_side_by_side() -> None:
    async with Handspan(model=Scripted([lambda messages: str(len(messages))], loop=True)) as hands:
        same = await asyncio.gather(*(hands.ask(str(n), session="s") for n in range(5)))
        others = await asyncio.gather(*(hands.ask(str(n)) for n in range(20)))
    assert [answer.text for answer in same] == ["1", "3", "5", "7", "9"]
    assert [answer.text for answer in others] == ["1"] * 20


async def test_a_session_lasts_in_the_state_folder(tmp_path: Path) -> None:
    async with Handspan(model=Scripted(["one"]), state=tmp_path / "state") as hands:
        first = await hands.ask("1")
    model = Scripted(["two"])
    async with Handspan(model=model, state=str(tmp_path / "state")) as hands:
        await hands.ask("2", session=first.session)
    assert len(model.requests[0].messages) == 3


async def test_without_a_state_folder_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "tmp").mkdir()
    async with Handspan(tools=[get_weather], model="offline") as hands:
        await hands.ask("What is the weather in Paris?")
    assert [name for _, folders, files in os.walk(tmp_path) for name in (*folders, *files)] == ["tmp"]


async def test_a_session_id_that_can_not_be_used_is_refused() -> None:
    async with Handspan(model=Scripted(["never"])) as hands:
        with pytest.raises(SessionRefused, match="can't be used"):
            await hands.ask("1", session="no spaces here")


# Events.


async def test_a_stream_has_typed_events_and_ends_with_the_end() -> None:
    async with Handspan(tools=[get_weather], model=Scripted([call("get_weather", city="Oslo"), "Sunny."])) as hands:
        events = [event async for event in hands.stream("go")]
    names = [event.name for event in events if isinstance(event, CallStarted | CallFinished)]
    assert names == ["get_weather", "get_weather"]
    assert "".join(event.text for event in events if isinstance(event, TextArrived)) == "Sunny."
    assert events[-1] == Ended("done", "Sunny.")


async def test_a_stream_that_is_left_stops_its_turn() -> None:
    blocking = Blocking()
    async with Handspan(tools=[blocking], model=Scripted([call("block")])) as hands:
        events = hands.stream("go")
        async for event in events:
            if isinstance(event, CallStarted):
                break
        await events.aclose()
        async with asyncio.timeout(WAIT):
            assert isinstance(await hands.call("block_nothing"), Failure)
    assert not blocking.began.is_set() or blocking.was_cancelled.is_set()


async def test_a_stream_ends_with_the_error_of_the_model() -> None:
    model = Scripted([ModelError("overloaded", "Too busy. Ask again later.")])
    async with Handspan(model=model) as hands:
        events = [event async for event in hands.stream("go")]
    assert isinstance(events[-1], Ended)
    assert (events[-1].reason, events[-1].text) == ("error", "Too busy. Ask again later.")


# One tool.


async def test_one_tool_can_be_called_without_a_model() -> None:
    async with Handspan(tools=[get_weather], model=Scripted([])) as hands:
        result = await hands.call("get_weather", {"city": "Lima"})
        missing = await hands.call("get_wether")
    assert isinstance(result, Success)
    assert result.value == "It is sunny in Lima."
    assert isinstance(missing, Failure)
    assert "'get_weather'" in missing.message


# Built-in tools, agents, settings.


async def test_built_in_tools_are_off_until_they_are_named(tmp_path: Path) -> None:
    model = Scripted(["none", "some", "all"])
    async with Handspan(tools=[get_weather], model=model) as hands:
        await hands.ask("1")
    async with Handspan(model=model, builtins=["read_*", "get_current_time"]) as hands:
        await hands.ask("2")
    async with Handspan(model=model, builtins=True) as hands:
        await hands.ask("3")
    none, some, every = (request.tools for request in model.requests)
    assert none == ("get_weather",)
    assert some == ("get_current_time", "read_artifact", "read_file")
    assert {"exec_shell", "use_skill", "write_file"} <= set(every)


async def test_file_tools_work_in_the_workspace_that_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    async with Handspan(model=Scripted([]), builtins=["write_file"], workspace=folder) as hands:
        result = await hands.call("write_file", {"path": "a.txt", "content": "hello"})
    assert isinstance(result, Success)
    assert (folder / "a.txt").read_text() == "hello"


async def test_without_a_workspace_file_and_shell_tools_have_a_temporary_folder(tmp_path: Path) -> None:
    for state in (None, tmp_path / "state"):
        async with Handspan(model=Scripted([]), builtins=["write_file", "exec_shell"], state=state) as hands:
            await hands.call("write_file", {"path": "a.txt", "content": "hello"})
            shown = await hands.call("exec_shell", {"command": "cat a.txt"})
        assert isinstance(shown, Success)
        assert '"stdout":"hello"' in shown.encoded.decode()


async def test_an_agent_brings_its_rules_and_still_has_the_tools_of_the_program() -> None:
    model = Scripted(["done"])
    reader = Agent("reader", tools=("read_file",), mode="read_only", instructions="Read.")
    async with Handspan(tools=[get_weather], model=model, agent=reader, builtins=True) as hands:
        await hands.ask("go")
        refused = await hands.call("get_weather", {"city": "Rome"})
    assert model.requests[0].tools == ("read_file",)
    assert isinstance(refused, Failure)
    assert "read" in refused.message


async def test_settings_name_agents_and_their_folders_count(tmp_path: Path) -> None:
    model = Scripted(["done"])
    agents = {"General": AgentSettings(), "poet": AgentSettings(instructions="Rhyme.")}
    settings = Settings(tmp_path / "ws", tmp_path / "st", agents=agents)
    async with Handspan(model=model, settings=settings, agent="poet") as hands:
        await hands.ask("go")
    assert model.requests[0].instructions.startswith("Rhyme.")
    assert (tmp_path / "st" / "handspan.db").is_file()
    with pytest.raises(ConfigError, match=r"There is no agent 'pot'.*Did you mean 'poet'"):
        async with Handspan(model=model, settings=settings, agent="pot"):
            pass


# Errors with remedies.


async def test_an_unknown_model_is_told_when_it_is_opened() -> None:
    with pytest.raises(ConfigError, match=r"there is no model 'ofline'.*Did you mean 'offline'"):
        async with Handspan(model="ofline"):
            pass


async def test_a_built_in_tool_that_is_not_there_is_told_with_near_names_when_it_is_opened() -> None:
    with pytest.raises(
        ConfigError, match=r"no built-in tool 'red_file'\. Did you mean 'read_file'.* There are: .*exec_"
    ):
        async with Handspan(model="offline", builtins=["red_file", "web_*"]):
            pass
    with pytest.raises(ConfigError, match=r"no built-in tool 'wbe_\*'"):
        async with Handspan(model="offline", builtins=["read_file", "wbe_*"]):
            pass
    async with Handspan(model="offline", builtins=["use_skill", "search_tools", "read_file"]):
        pass  # each of them is one, though not every program has all of them


def test_what_is_no_tool_is_told_at_once() -> None:
    with pytest.raises(DefinitionError, match="is not a tool: give a function"):
        Handspan(tools=["get_weather"])  # type: ignore[list-item]  # what a program may do wrong
    with pytest.raises(DefinitionError, match="is a class"):
        Handspan(tools=[Shout])
    with pytest.raises(DefinitionError, match="no description"):
        Handspan(tools=[lambda_like])
    with pytest.raises(DefinitionError, match="'final_answer' is reserved"):
        Handspan(tools=[final_answer])
    with pytest.raises(ConfigError, match="list of names"):
        Handspan(builtins="read_file")


def lambda_like(text: str) -> str:
    return text


def final_answer(text: str) -> str:
    """Named as the tool that gives typed answers."""
    return text


async def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(NameTaken, match="choose another name"):
        async with Handspan(tools=[get_weather, get_weather], model="offline"):
            pass


async def test_a_closed_one_says_how_to_open_it_and_can_be_opened_again() -> None:
    hands = Handspan(model=Scripted(["hi"]))
    with pytest.raises(UsageError, match="not open: use `async with"):
        await hands.ask("go")
    async with hands:
        with pytest.raises(UsageError, match="open already"):
            await hands.open()
    with pytest.raises(UsageError, match="not open"):
        async for _ in hands.stream("go"):
            pass
    async with hands:
        assert str(await hands.ask("go")) == "hi"


@pytest.mark.parametrize(
    ("turn", "reason", "message"),
    [
        (ModelError("auth", "The key is wrong: set another."), "error", "The key is wrong"),
        (ScriptedReply(("I can't",), stop="refusal"), "refusal", "refused to answer"),
        (ScriptedReply(("half an ans",), stop="length"), "length", "max_tokens"),
    ],
)
async def test_a_turn_without_an_answer_is_an_error_with_its_reason(
    turn: ScriptedReply | Exception, reason: str, message: str
) -> None:
    async with Handspan(model=Scripted([turn])) as hands:
        with pytest.raises(AskFailed, match=message) as failed:
            await hands.ask("go")
    assert failed.value.reason == reason
    assert isinstance(failed.value, HandspanError)
    assert (failed.value.fault is not None) == (reason == "error")


async def test_a_call_whose_result_comes_later_is_no_answer() -> None:
    @tool
    async def order() -> Pending:
        """Order something."""
        return Pending(60)

    async with Handspan(tools=[order], model=Scripted([call("order")])) as hands:
        with pytest.raises(AskFailed, match="comes later"):
            await hands.ask("go")


# Time and cancellation.


async def test_a_timeout_stops_the_turn_and_its_tools() -> None:
    blocking = Blocking()
    model = Scripted([lambda messages: call("block") if _words(messages) == ["go"] else "again"], loop=True)
    async with Handspan(tools=[blocking], model=model) as hands:
        with pytest.raises(TimeoutError, match=r"within 0\.2 seconds"):
            await hands.ask("go", session="s", timeout=0.2)
        assert str(await hands.ask("and now?", session="s")) == "again"


async def test_a_cancelled_ask_stops_its_tool() -> None:
    blocking = Blocking()
    async with Handspan(tools=[blocking], model=Scripted([call("block")])) as hands:
        asking = asyncio.create_task(hands.ask("go"))
        await asyncio.wait_for(blocking.began.wait(), WAIT)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert blocking.was_cancelled.is_set()


async def test_closing_ends_the_asks_that_run() -> None:
    blocking = Blocking()
    async with Handspan(tools=[blocking], model=Scripted([call("block")])) as hands:
        asking = asyncio.create_task(hands.ask("go"))
        await asyncio.wait_for(blocking.began.wait(), WAIT)
    with pytest.raises(AskFailed, match="Handspan was closed"):
        await asyncio.wait_for(asking, WAIT)
    assert blocking.was_cancelled.is_set()


async def test_closing_ends_the_calls_that_run_and_they_are_stored(tmp_path: Path) -> None:
    blocking = Blocking()
    async with Handspan(tools=[blocking], model="offline", state=tmp_path) as hands:
        calling = asyncio.create_task(hands.call("block"))
        await asyncio.wait_for(blocking.began.wait(), WAIT)
    result = await asyncio.wait_for(calling, WAIT)
    assert result == Failure("cancelled", "The call of 'block' was cancelled: Handspan was closed.")
    assert rows_in(tmp_path, "SELECT state FROM calls") == [("done",)]


async def test_the_stand_in_says_by_example_only_what_its_tools_can_do() -> None:
    async with Handspan(tools=[get_weather], model="offline") as hands:
        said = str(await hands.ask("hello"))
    assert "/get_weather" in said and "files" not in said and "Tokyo" not in said


async def test_a_schedule_runs_while_the_program_is_open_and_is_there_in_the_next_one(tmp_path: Path) -> None:
    """SPEC J1."""
    model = Scripted(["First.", "Second."])
    async with Handspan(model=model, state=tmp_path / "state") as hands:
        made = await hands.schedule("Look at the sensors.", "every 10m", zone="Europe/Berlin")
        book = hands._open_agent().app.store.schedules
        due = await book.make_due(made.id, owner="operator")
        hands._open_agent().app.publish_schedule(due)
        await until(lambda: len(model.requests) == 1)
        await until(lambda: _is_done(hands, made.id))
        await book.make_due(made.id, owner="operator")  # no event: this program does not notice
    async with Handspan(model=model, state=tmp_path / "state") as later:
        await until(lambda: len(model.requests) == 2)
        await until(lambda: _is_done(later, made.id))
        await later.unschedule(made.id)
        with pytest.raises(ToolError, match="There is no schedule"):
            await later.unschedule(made.id)
        with pytest.raises(ToolError, match="can't be used"):
            await later.schedule("Look.", "now and then")


async def _is_done(hands: Handspan, schedule: str) -> bool:
    runs = await hands._open_agent().app.store.schedules.runs(schedule, owner="operator")
    return all(run.state == "done" and run.end == "done" for run in runs)
