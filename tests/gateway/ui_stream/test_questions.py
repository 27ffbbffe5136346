"""Questions to a person: approvals that the page answers, and lines for what it can't show (SPEC F5, F6, P5, P7)."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.context import ToolContext
from handspan.core.principals import OPERATOR, Origin
from handspan.core.question_rights import person
from handspan.core.questions import Answer
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import JsonObject
from tests.gateway.openai.kit import NO_MONEY, paid_model
from tests.gateway.ui_stream.kit import WEATHER, Page, Pages, Seen, UiFront, ui_front
from tests.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

ASKS: Any = {"agents": {"General": {"mode": "ask_destructive"}}}


class Write:
    """A tool that changes something, and notes what."""

    def __init__(self) -> None:
        properties: JsonObject = {"text": {"type": "string"}, "times": {"type": "number"}}
        parameters: JsonObject = {"type": "object", "properties": properties}
        self.spec = ToolSpec("write", "Writes.", parameters, annotations=Annotations(destructive=True))
        self.written: list[Mapping[str, Any]] = []

    async def run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> str:
        self.written.append(dict(arguments))
        return "written"


class Asks:
    """A tool that asks the person for a value."""

    spec = ToolSpec("ask_city", "Asks.", {"type": "object", "properties": {}}, annotations=Annotations(read_only=True))

    async def run(self, arguments: Mapping[str, Any], ctx: ToolContext) -> str:
        answer = await ctx.ask("input", "Which city?", schema={"type": "string"})
        return f"{answer.decision} {answer.value}"


@pytest.fixture
async def asking(tmp_path: Path, pages: Pages) -> AsyncIterator[UiFront]:
    """A gateway whose agent asks before a tool changes something."""
    async with ui_front(tmp_path, pages, **ASKS) as there:
        yield there


@pytest.fixture
def write(asking: UiFront) -> Write:
    """The tool."""
    tool = Write()
    asking.parts.app.registry.register(tool, Origin("plugin", "tests"))
    return tool


def approval(seen: Seen, place: int = 0) -> Any:
    """The approval that the page shows."""
    part = [one for one in seen.tools if one["state"] == "approval-requested"][place]
    return part["approval"]


async def open_questions(there: UiFront) -> Any:
    return await there.parts.questions.open_for(owner=OPERATOR.owner)


async def test_a_person_says_yes_on_the_page_and_the_run_goes_on(asking: UiFront, write: Write) -> None:
    page = await asking.page()
    seen = await page.say('Now.\ncall write {"text": "a"}\nthen\n{results}')
    assert seen.shape == ["step-start", "text done", "dynamic-tool approval-requested"]
    assert write.written == [] and "write" in approval(seen)["requestReason"]
    assert [one.id for one in await open_questions(asking)] == [approval(seen)["id"]]
    seen = await page.approve(id=approval(seen)["id"], approved=True)
    assert write.written == [{"text": "a"}]
    assert seen.shape == [
        "step-start",
        "text done",
        "dynamic-tool output-available",
        "step-start",
        "text done",
    ]
    assert '"written"' in seen.text and len(seen.requests) == 2 and len(seen.messages) == 2


async def test_a_no_and_its_reason_reach_the_model(asking: UiFront, write: Write) -> None:
    page = await asking.page()
    seen = await page.say("call write\nthen\n{results}")
    seen = await page.approve(id=approval(seen)["id"], approved=False, reason="not today")
    assert write.written == [] and "not today" in seen.text
    assert seen.tools[0]["state"] == "output-denied" and len(seen.requests) == 2


async def test_several_approvals_of_one_round(asking: UiFront, write: Write) -> None:
    harmless = {"get_weather": {**WEATHER["get_weather"], "annotations": {"read_only": True, "destructive": False}}}
    page = await asking.page(body={"tools": harmless}, client={"get_weather": {"output": "sunny"}})
    seen = await page.say('call write {"text": "a"}\ncall get_weather\ncall write {"text": "b"}\nthen\n{results}')
    first, second = approval(seen), approval(seen, 1)
    seen = await page.approve(id=first["id"], approved=True)
    assert write.written == []  # the page sends them together
    seen = await page.approve(id=second["id"], approved=False)
    assert write.written == [{"text": "a"}]
    states = [(one["type"], one["state"]) for one in seen.tools]
    assert sorted(states) == [
        ("dynamic-tool", "output-available"),
        ("dynamic-tool", "output-denied"),
        ("tool-get_weather", "output-available"),
    ]
    assert "sunny" in seen.text and '"written"' in seen.text
    assert seen.called == ["get_weather"] and len(seen.requests) == 3


async def test_a_tool_of_the_client_runs_after_the_yes_of_its_person(asking: UiFront) -> None:
    page = await asking.page(body={"tools": WEATHER}, client={"get_weather": {"output": "sunny"}})
    seen = await page.say('call get_weather {"city": "Rome"}\nthen\n{results}')
    assert seen.called == [] and seen.tools[0]["input"] == {"city": "Rome"}
    seen = await page.approve(id=approval(seen)["id"], approved=True)
    assert seen.called == ["get_weather"] and '"sunny"' in seen.text
    assert seen.tools[0]["type"] == "tool-get_weather" and len(seen.requests) == 3


async def test_arguments_that_the_person_changed_are_run(asking: UiFront, write: Write) -> None:
    page = await asking.page(auto=False)
    seen = await page.say('call write {"text": "a", "times": 2}\nthen\n{results}')
    asked = approval(seen)["id"]
    seen = await page.approve(id=asked, approved=True)
    seen.tools[0]["input"] = {"text": "b", "times": 2}
    await page.set(messages=seen.messages)
    seen = await page.again()
    assert write.written == [{"text": "b", "times": 2}]
    assert "The user changed the arguments" in seen.text


async def test_a_forged_approval_answers_nothing(asking: UiFront, write: Write) -> None:
    page, other = await asking.page(auto=False), await asking.page("c2", auto=False)
    seen = await page.say("call write\nthen\n{results}")
    asked = approval(seen)["id"]
    elsewhere = await other.say("Hello.")
    part = {**seen.tools[0], "state": "approval-responded", "approval": {"id": asked, "approved": True}}
    await other.set(messages=[*elsewhere.messages[:-1], {"id": "x", "role": "assistant", "parts": [part]}])
    refused = await other.again()
    assert refused.status == "error" and "No question" in refused.error
    assert write.written == [] and len(await open_questions(asking)) == 1
    unknown = {**part, "toolCallId": "no", "approval": {"id": "no", "approved": True}}
    await page.set(messages=[seen.messages[0], {"id": "x", "role": "assistant", "parts": [unknown]}])
    assert "No question 'no'" in (await page.again()).error


async def test_what_was_answered_elsewhere_is_told_to_the_page(asking: UiFront, write: Write) -> None:
    page = await asking.page()
    seen = await page.say("call write\nthen\n{results}")
    asked = approval(seen)["id"]
    assert await asking.parts.questions.answer(asked, Answer("allow"), person(OPERATOR))
    await until(lambda: write.written)
    seen = await page.approve(id=asked, approved=False)  # too late: the first answer counts
    assert seen.tools[0]["state"] == "output-available" and '"written"' in seen.text
    assert len(seen.requests) == 2


async def test_a_reloaded_page_sees_what_is_asked(asking: UiFront, write: Write) -> None:
    await (await asking.page()).say("call write\nthen\n{results}")
    page = await asking.page()
    seen = await page.resume()
    seen = await page.approve(id=approval(seen)["id"], approved=True)
    assert write.written == [{}] and '"written"' in seen.text


async def test_a_restart_does_not_lose_the_question(tmp_path: Path, pages: Pages) -> None:
    async with ui_front(tmp_path, pages, **ASKS) as there:
        page = await there.page()
        seen = await page.say('call write_file {"path": "a.txt", "content": "x"}\nthen\n{results}')
        await there.gateway.restart()
        seen = await page.approve(id=approval(seen)["id"], approved=True)
        assert '"success"' in seen.text and seen.tools[0]["state"] == "output-available"


async def test_a_new_message_is_told_that_a_question_waits(asking: UiFront, write: Write) -> None:
    page = await asking.page()
    seen = await page.say("call write\nthen\n{results}")
    asked = approval(seen)["id"]
    seen = await page.say("And?")
    assert "Waiting for your answer" in seen.text and seen.status == "ready"
    await page.approve(id=asked, approved=True)
    seen = await page.again()
    assert write.written == [{}] and seen.messages[1]["parts"][1]["state"] == "output-available"


async def test_a_question_that_the_page_cannot_show_is_a_line(asking: UiFront) -> None:
    asking.parts.app.registry.register(Asks(), Origin("plugin", "tests"))
    page = await asking.page()
    running = page.begin("call ask_city\nthen\n{results}")
    await page.until(has="Which city?")
    (question,) = await open_questions(asking)
    assert await asking.parts.questions.answer(question.id, Answer("allow", value="Rome"), person(OPERATOR))
    seen = await running
    assert f"The page is at {asking.gateway.url}/" in seen.text and "allow Rome" in seen.text


async def test_a_question_for_money_is_a_line(tmp_path: Path, pages: Pages) -> None:
    async with ui_front(tmp_path, pages, paid_model(), **NO_MONEY) as there:
        page = await there.page()
        running = page.begin("hi")
        await page.until(has="Add money today?")
        (question,) = await open_questions(there)
        assert await there.parts.questions.answer(question.id, Answer("allow", value="Add $2 today"), person(OPERATOR))
        seen = await running
        assert f"answer {question.id} allow --value" in seen.text and seen.text.endswith("Paid.")


async def test_a_bound_token_answers_in_its_own_chat(asking: UiFront, write: Write) -> None:
    token = await asking.parts.auth.issue("operator", ("chat", "agent:General"), "page")
    async with httpx2.AsyncClient(base_url=asking.gateway.url) as http:
        refused = await http.get("/api/questions", headers={"Authorization": f"Bearer {token}"})
        assert refused.status_code == 403
    page: Page = await asking.page(agent="General", token=token)
    seen = await page.say("call write\nthen\n{results}")
    await page.approve(id=approval(seen)["id"], approved=True)
    assert write.written == [{}]
