"""A typed answer with the adapters of real APIs, over real HTTP: what they are sent is what they take."""

from dataclasses import dataclass

import pytest

from handspan import Handspan, tool
from handspan.core.messages import Api
from tests.models.fake_server import Call, Turn
from tests.models.talks import APIS, talking

pytestmark = pytest.mark.anyio


@dataclass
class City:
    name: str
    people: int


@tool
def look_up(name: str) -> int:
    """How many people live there."""
    return 134_000


@pytest.mark.parametrize("api", APIS)
async def test_a_typed_answer_after_a_call_and_the_conversation_goes_on(api: Api) -> None:
    script = [
        Turn(calls=(Call("look_up", '{"name":"Bern"}'),)),
        Turn(calls=(Call("final_answer", '{"name":"Bern","people":"many"}'),)),
        Turn(calls=(Call("final_answer", '{"name":"Bern","people":134000}'),)),
        Turn(text="You are welcome."),
    ]
    async with talking(api, script) as (server, model), Handspan(tools=[look_up], model=model) as hands:
        answer = await hands.ask("How many people live in Bern?", answer_type=City)
        after = await hands.ask("Thank you.", session=answer.session)
    assert answer.value == City("Bern", 134_000)
    assert [call.name for call in answer.calls] == ["look_up"]
    assert str(after) == "You are welcome."
    assert [asked.refused for asked in server.asked] == [""] * 4
    assert "final_answer" in str(server.asked[0].body) and "people" in str(server.asked[0].body)
