"""The sync form: one background loop, no second class."""

import asyncio
import subprocess
import sys
import threading

import pytest

from handspan import AgentAnswer, AskFailed, Handspan, Success, UsageError, tool
from handspan.core.errors import ConfigError
from handspan.core.events import CallStarted, Ended, TextArrived
from handspan.models.model import ModelError
from handspan.models.scripted import Scripted, call
from tests.waiting import WAIT

INTERRUPTED = """
import asyncio, os, signal
from handspan import Handspan, tool
from handspan.models.scripted import Scripted, call
@tool
async def press_ctrl_c() -> None:
    "Interrupt the program, and wait."
    os.kill(os.getpid(), signal.SIGINT)
    try:
        await asyncio.Event().wait()
    finally:
        print("stopped")
with Handspan(tools=[press_ctrl_c], model=Scripted([call("press_ctrl_c"), "after"])) as hands:
    try:
        hands.ask_sync("go", session="s")
    except KeyboardInterrupt:
        answer = hands.ask_sync("and now?", session="s")
        print(answer, answer.reason)
"""

LEFT_OPEN = """
import asyncio
from handspan import Handspan, UsageError
from handspan.models.scripted import Scripted
hands = Handspan(model=Scripted(["yes"]))
asyncio.run(hands.open())
try:
    hands.ask_sync("go")
except UsageError as error:
    print("has ended" if "has ended: make another one" in str(error) else error)
"""


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def test_a_program_without_a_loop_asks_streams_and_calls() -> None:
    model = Scripted([call("get_weather", city="Rome"), "Sunny.", "Still sunny."])
    with Handspan(tools=[get_weather], model=model) as hands:
        answer = hands.ask_sync("How is Rome?")
        events = list(hands.stream_sync("And now?", session=answer.session))
        result = hands.call_sync("get_weather", {"city": "Lima"})
    assert str(answer) == "Sunny."
    assert "".join(event.text for event in events if isinstance(event, TextArrived)) == "Still sunny."
    assert events[-1] == Ended("done", "Still sunny.")
    assert isinstance(result, Success)


def test_errors_come_through_and_no_thread_is_left() -> None:
    with pytest.raises(ConfigError, match="there is no model"), Handspan(model="unheard-of"):
        pass
    with (
        Handspan(model=Scripted([ModelError("auth", "The key is wrong.")])) as hands,
        pytest.raises(AskFailed, match="key is wrong"),
    ):
        hands.ask_sync("go")
    with pytest.raises(UsageError, match="not open"):
        hands.ask_sync("go")
    assert not [thread for thread in threading.enumerate() if thread.name == "handspan"]


def test_a_stream_that_is_left_stops_its_turn() -> None:
    is_over = threading.Event()

    @tool
    async def block() -> None:
        """Wait."""
        try:
            await asyncio.Event().wait()
        finally:
            is_over.set()

    model = Scripted([call("block")])
    with Handspan(tools=[block], model=model) as hands:
        events = hands.stream_sync("go")
        assert any(isinstance(event, CallStarted) for event in events)
        events.close()
    assert len(model.requests) == 1


def test_closing_ends_the_ask_of_another_thread() -> None:
    began = threading.Event()
    failures: list[BaseException] = []

    @tool
    async def block() -> None:
        """Wait."""
        began.set()
        await asyncio.Event().wait()

    def ask(hands: Handspan) -> None:
        try:
            hands.ask_sync("go")
        except AskFailed as error:
            failures.append(error)

    with Handspan(tools=[block], model=Scripted([call("block")])) as hands:
        thread = threading.Thread(target=ask, args=[hands])
        thread.start()
        assert began.wait(30)
    thread.join(30)
    assert [str(error) for error in failures if "Handspan was closed" in str(error)]


def test_ctrl_c_stops_the_turn_and_the_session_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["stopped", "after", "done"]), done.stderr


def test_many_threads_share_one() -> None:
    with Handspan(model=Scripted([lambda messages: str(len(messages))], loop=True)) as hands:
        answers: list[str] = []
        threads = [threading.Thread(target=lambda: answers.append(str(hands.ask_sync("go")))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == ["1"] * 8


@pytest.mark.anyio
async def test_in_a_running_loop_the_sync_form_says_what_to_use() -> None:
    with pytest.raises(UsageError, match="use `async with Handspan"), Handspan(model=Scripted([])):
        pass
    async with Handspan(tools=[get_weather], model=Scripted(["hi"])) as hands:
        with pytest.raises(UsageError, match=r"use `await hands\.ask"):
            hands.ask_sync("go")
        with pytest.raises(UsageError, match="use `async for"):
            hands.stream_sync("go")
        assert str(await asyncio.to_thread(hands.ask_sync, "go")) == "hi"  # its worker threads may


def test_another_loop_is_told_from_its_own() -> None:
    with Handspan(model=Scripted(["hi"])) as hands:
        with pytest.raises(
            UsageError, match=r"another event loop: .* `await asyncio\.to_thread\(hands\.ask_sync, …\)`"
        ):
            asyncio.run(hands.ask("go"))
        assert str(asyncio.run(_ask_on_a_thread(hands))) == "hi"


async def _ask_on_a_thread(hands: Handspan) -> AgentAnswer[str]:
    return await asyncio.to_thread(hands.ask_sync, "go")


def test_of_threads_that_open_one_at_once_one_alone_succeeds() -> None:
    hands, together = Handspan(model=Scripted(["yes"], loop=True)), threading.Barrier(4)
    heard: list[str] = []

    def use() -> None:
        together.wait(WAIT)
        try:
            with hands:
                heard.append(str(hands.ask_sync("go")))
                together.wait(WAIT)  # the others have been refused
        except UsageError as error:
            heard.append(str(error))
            together.wait(WAIT)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(text.split(":")[0] for text in heard) == [*["This Handspan is open already"] * 3, "yes"]
    assert "handspan" not in [thread.name for thread in threading.enumerate()]


def test_one_whose_loop_has_ended_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=WAIT, check=False)
    assert done.stdout == "has ended\n", done.stderr
