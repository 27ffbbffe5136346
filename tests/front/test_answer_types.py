"""Answers of a type: by a last tool call that is checked, repeated a few times, and then given up."""

import asyncio
from dataclasses import dataclass
from typing import Any, cast, get_args

import msgspec
import pydantic
import pytest

from handspan import AnswerMismatch, Handspan, tool
from handspan.core.agents import Agent
from handspan.core.errors import DefinitionError
from handspan.front.answer_types import AnswerType
from handspan.models.model import LoweredTool
from handspan.models.schema.lowering import Target, lower
from handspan.models.scripted import Scripted, call

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str
    people: int


class Place(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2)
    people: int

    @pydantic.field_validator("name")
    @classmethod
    def begins_with_a_capital(cls, name: str) -> str:
        if not name[0].isupper():
            raise ValueError("a name begins with a capital letter")
        return name


class Town(msgspec.Struct):
    name: str
    people: int


class Tree(msgspec.Struct):
    name: str
    branches: "list[Tree]" = []


GOOD = call("final_answer", name="Bern", people=134_000)


@tool
def look_up(name: str) -> int:
    """How many people live there."""
    return 134_000


@pytest.mark.parametrize("wanted", [City, Place, Town])
async def test_the_value_is_of_the_type_and_the_turn_ends_with_it(
    wanted: type[City] | type[Place] | type[Town],
) -> None:
    model = Scripted([call("look_up", name="Bern"), GOOD])
    async with Handspan(tools=[look_up], model=model) as hands:
        answer = await hands.ask("How many live in Bern?", answer_type=wanted)
    assert type(answer.value) is wanted
    assert (answer.value.name, answer.value.people) == ("Bern", 134_000)
    assert msgspec.json.decode(answer.text) == {"name": "Bern", "people": 134_000}
    assert [made.name for made in answer.calls] == ["look_up"]
    assert [request.tools for request in model.requests] == [("final_answer", "look_up")] * 2


async def test_the_session_goes_on_without_the_tool_of_the_typed_answer() -> None:
    model = Scripted([GOOD, "You asked for Bern."])
    async with Handspan(model=model) as hands:
        typed = await hands.ask("How many live in Bern?", answer_type=City)
        after = await hands.ask("What did I ask?", session=typed.session)
    assert str(after) == "You asked for Bern."
    assert model.requests[1].tools == ()


async def test_what_is_no_object_is_wrapped_and_unwrapped() -> None:
    async with Handspan(model=Scripted([call("final_answer", answer=[1, 2]), "[3]", "```json\n42\n```"])) as hands:
        listed = await hands.ask("go", answer_type=list[int])
        written = await hands.ask("go", answer_type=list[int])
        number = await hands.ask("go", answer_type=int)
    assert (listed.value, written.value, number.value) == ([1, 2], [3], 42)


async def test_structs_may_stand_inside_of_other_types() -> None:
    towns = call("final_answer", answer=[{"name": "Bern", "people": 134_000}])
    optional: type[Town | None] = cast(Any, Town | None)
    async with Handspan(model=Scripted([towns, call("final_answer", answer=None)])) as hands:
        listed = await hands.ask("go", answer_type=list[Town])
        none = await hands.ask("go", answer_type=optional)
    assert (listed.value, none.value) == ([Town("Bern", 134_000)], None)


async def test_a_wrong_answer_goes_back_to_the_model_with_the_reason() -> None:
    model = Scripted(
        [
            call("final_answer", name="Bern"),
            call("final_answer", name="bern", people=1),
            call("final_answer", name="Bern", people=1),
        ]
    )
    async with Handspan(model=model) as hands:
        answer = await hands.ask("go", answer_type=Place)
    assert answer.value == Place(name="Bern", people=1)
    missing, small = (str(request.messages[-1]) for request in model.requests[1:])
    assert "people" in missing
    assert "begins with a capital letter" in small


async def test_a_model_that_only_writes_is_reminded() -> None:
    model = Scripted(["134,000 people live in Bern.", GOOD])
    async with Handspan(model=model) as hands:
        assert (await hands.ask("go", answer_type=City)).value == City("Bern", 134_000)
    assert "final_answer" in str(model.requests[1].messages[-1])


async def test_after_a_few_wrong_answers_it_is_an_error_that_says_what_was_wrong() -> None:
    wrong = Scripted([call("final_answer", name="Bern", people="many")], loop=True)
    async with Handspan(model=wrong) as hands:
        with pytest.raises(AnswerMismatch, match=r"no 'City' in 3 tries: .*people"):
            await hands.ask("go", answer_type=City)
    assert len(wrong.requests) == 3
    silent = Scripted(["I do not know."], loop=True)
    async with Handspan(model=silent) as hands:
        with pytest.raises(AnswerMismatch, match="did not call the tool 'final_answer'"):
            await hands.ask("go", answer_type=City)
    assert len(silent.requests) == 3


async def test_an_agent_that_asks_before_each_call_or_only_reads_can_still_answer() -> None:
    for agent in (Agent(mode="ask_always", tools=()), Agent(mode="read_only")):
        async with Handspan(model=Scripted([GOOD]), agent=agent) as hands:
            assert (await hands.ask("go", answer_type=City)).value.name == "Bern"


async def test_typed_asks_of_one_handspan_do_not_meet() -> None:
    def reply(messages: Any) -> Any:
        wanted = messages[-1].parts[0].text
        return call("final_answer", answer=int(wanted)) if wanted.isdigit() else GOOD

    async with Handspan(model=Scripted([reply], loop=True)) as hands:
        numbers, city = await asyncio.gather(
            asyncio.gather(*(hands.ask(str(n), answer_type=int) for n in range(5))),
            hands.ask("Bern", answer_type=City),
        )
    assert [answer.value for answer in numbers] == [0, 1, 2, 3, 4]
    assert city.value == City("Bern", 134_000)


def test_a_type_that_contains_itself_has_its_keywords_at_the_top() -> None:
    tree = AnswerType(Tree)
    assert tree.spec.parameters["type"] == "object"
    assert tree.from_json(b'{"name": "a", "branches": [{"name": "b"}]}') == Tree("a", [Tree("b")])


@pytest.mark.parametrize("target", get_args(Target))
@pytest.mark.parametrize("wanted", [City, Place, Town, Tree, list[City], int])
def test_every_api_takes_the_tool_of_a_typed_answer(wanted: type[object], target: Target) -> None:
    assert isinstance(lower(AnswerType(wanted).spec, target), LoweredTool)


def test_a_type_without_a_schema_is_refused_with_a_remedy() -> None:
    with pytest.raises(DefinitionError, match="Use a dataclass, a pydantic model or a msgspec Struct"):
        AnswerType(asyncio.Event)


async def test_none_is_an_answer_where_the_type_has_it() -> None:
    wanted: type[int | None] = cast(Any, int | None)
    async with Handspan(model=Scripted([call("final_answer", answer=None)])) as hands:
        answer = await hands.ask("How many?", answer_type=wanted)
    assert answer.value is None
