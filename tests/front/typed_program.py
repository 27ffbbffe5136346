"""What type checkers have to see of a program that uses Handspan; `test_typing.py` runs mypy and pyright on it.

A line that ends with a mark `wrong` has to be an error in both; every other line has to be right in both.
"""

from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from typing import assert_type

import handspan
from handspan import AgentAnswer, Answer, Handspan, Pending, Question, Success, ToolContext, tool
from handspan.core.events import Ended, Event, TextArrived
from handspan.core.results import Failure


@dataclass
class Weather:
    city: str
    degrees: int


@tool
def get_weather(city: str, days: int = 1) -> Weather:
    """The weather of a city."""
    return Weather(city, days)


@tool(name="look_up", timeout=5)
async def look(city: str, ctx: ToolContext) -> list[str]:
    """Look up a city."""
    return [city]


def plain(city: str) -> str:
    """A function that is no tool yet."""
    return city


def answer_question(question: Question) -> bool:
    return question.kind == "permission"


async def answer_later(question: Question) -> Answer:
    return Answer("allow", value=question.subject)


def call_functions(ctx: ToolContext) -> None:
    assert_type(get_weather("Paris", days=2), Weather)
    _later: Awaitable[list[str]] = look("Paris", ctx)
    assert_type(get_weather.spec.name, str)
    get_weather(1)  # wrong
    get_weather("Paris", dayz=2)  # wrong
    _text: str = get_weather("Paris")  # wrong


async def ask(hands: Handspan) -> None:
    answer = await hands.ask("What is the weather in Paris?")
    assert_type(answer, AgentAnswer[str])
    assert_type(answer.value, str)
    typed = await hands.ask("What is the weather in Paris?", answer_type=Weather, session=answer.session)
    assert_type(typed.value, Weather)
    assert_type((await hands.ask("How many?", answer_type=int, timeout=3)).value, int)
    assert_type((await hands.ask("Which?", answer_type=list[int])).value, list[int])
    assert_type(await hands.call("get_weather", {"city": "Paris"}), Success | Failure | Pending)
    async for event in hands.stream("go"):
        assert_type(event, Event)
        match event:
            case TextArrived(text=text):
                assert_type(text, str)
            case Ended(reason="error"):
                assert_type(event.text, str)
            case _:
                pass
    _degrees = typed.value.degree  # wrong
    await hands.ask(1)  # wrong


def ask_sync(hands: Handspan) -> None:
    assert_type(hands.ask_sync("go"), AgentAnswer[str])
    assert_type(hands.ask_sync("go", answer_type=Weather).value, Weather)
    assert_type(hands.stream_sync("go"), Generator[Event, None, None])


async def open_them() -> None:
    async with Handspan([get_weather, look, plain], model="offline", questions=answer_question) as hands:
        assert_type(hands, Handspan)
    with Handspan(tools=[plain], builtins=["read_*"], questions=answer_later) as hands:
        assert_type(hands, Handspan)
    Handspan(tools=["plain"])  # wrong
    Handspan(questions=plain)  # wrong
    handspan.Handspam()  # wrong
