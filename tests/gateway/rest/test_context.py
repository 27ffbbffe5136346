"""How full a context is, and making it shorter, by REST (SPEC L2, L3)."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from handspan.core.events import ContextUse, UsageCounted
from handspan.core.messages import AssistantMessage, Message, Text, Usage, UserMessage
from handspan.core.principals import OPERATOR
from handspan.core.records import ContextMarks
from handspan.models.choice import Choice
from handspan.models.scripted import ScriptedReply
from tests.gateway.rest.served import Rest, RestClient, session_of

pytestmark = pytest.mark.anyio

SAID: Sequence[Message] = [
    UserMessage((Text("Tell me about roses."),)),
    AssistantMessage((Text("They have thorns."),), "end", "offline", Usage(120, 8)),
    UserMessage((Text("And lilies?"),)),
    AssistantMessage((Text("They have none."),), "end", "offline", Usage(150, 7)),
]


async def test_a_context_is_told_in_its_parts(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=SAID)
    found = (await client.get(f"/api/sessions/{session}/context")).json()
    assert found["session_id"] == session and found["limit"] is None  # a script has none
    parts = [found[name] for name in ("instructions", "tools", "summary", "history", "results")]
    assert min(parts) >= 0 and found["instructions"] and found["tools"] and found["history"]
    assert abs(sum(parts) - found["used"]) <= len(parts)
    assert "context" not in (await client.get(f"/api/sessions/{session}")).json()  # there is no limit


async def test_how_full_it_is_comes_with_the_session_and_its_events(
    client: RestClient, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, heard = rest.sessions._opening, []
    choose = opening._choose_model

    async def choose_small(name: str, then: tuple[str, ...] | None = None) -> Choice:
        return structs.replace(await choose(name, then), context=40_000)

    monkeypatch.setattr(opening, "_choose_model", choose_small)
    rest.script = [ScriptedReply(("Gladly.",), Usage(5000, 5))]
    session = await session_of(rest, said=SAID)
    before = (await client.get(f"/api/sessions/{session}")).json()["context"]
    assert before == {"used": 157, "limit": 40_000}  # what the last reply says
    found = rest.sessions.get(session, OPERATOR.owner)
    unlisten = found.listen(lambda event, _: heard.append(event))
    await client.post("/webhook", {"message": "More."}, headers={"x-session-id": session})
    (counted,) = [event for event in heard if isinstance(event, UsageCounted)]
    assert counted.context == ContextUse(5005, 40_000)
    assert (await client.get(f"/api/sessions/{session}")).json()["context"] == {"used": 5005, "limit": 40_000}
    parts = (await client.get(f"/api/sessions/{session}/context")).json()
    assert (parts["used"], parts["limit"]) == (5005, 40_000)
    unlisten()


async def test_a_session_whose_model_makes_no_summary_says_so_and_stays_whole(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=SAID)
    answer = await client.post(f"/api/sessions/{session}/compact", {"keep": "the lilies"})
    done = answer.json()
    assert answer.status_code == 200 and (done["summarized"], done["summary"]) == (0, "")
    assert "There is no new summary" in done["note"]
    assert len((await client.get(f"/api/sessions/{session}/messages")).json()["messages"]) == 4


async def test_summaries_stand_beside_the_messages(client: RestClient, rest: Rest) -> None:
    session = await session_of(rest, said=SAID)
    conversations, contexts, owner = rest.app.store.conversations, rest.app.store.contexts, OPERATOR.owner
    await conversations.begin_turn(session, owner=owner)
    await contexts.set_marks(session, ContextMarks(2, 2, "# Goal\n- roses", made=4), owner=owner)
    await conversations.end_turn(session, owner=owner)
    found = (await client.get(f"/api/sessions/{session}/messages")).json()
    ((after, text),) = [(one["after"], one["text"]) for one in found["summaries"]]
    assert (after, text) == (2, "# Goal\n- roses") and len(found["messages"]) == 4
    later = (await client.get(f"/api/sessions/{session}/messages?after=3")).json()
    assert later["summaries"] == []


@pytest.mark.parametrize("body", [{"keep": 3}, {"keep": "x" * 2001}])
async def test_words_that_are_none_are_refused(client: RestClient, rest: Rest, body: object) -> None:
    session = await session_of(rest, said=SAID)
    assert (await client.post(f"/api/sessions/{session}/compact", body)).status_code == 422
