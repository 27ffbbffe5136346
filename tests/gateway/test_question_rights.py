"""Who may see and answer which question, cell by cell, through every door (SPEC P7; the table is in SECURITY.md)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2
import mcp_types as types
import pytest
from mcp.client.session import ClientRequestContext

from handspan.core.context import ToolContext
from handspan.core.function_tool import tool
from handspan.core.principals import OPERATOR
from handspan.core.question_rights import person
from handspan.core.questions import Answer, Question, QuestionAction
from handspan.core.tool import Annotations
from handspan.core.values import JsonObject
from handspan.models.scripted import call
from handspan.testing import FakeDevice, RunningGateway, running_gateway
from tests.channels.telegram_server import TelegramServer
from tests.gateway.channels.place import gateway_with, telegram_settings
from tests.gateway.mcp.test_door import ERAS, mcp_client
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"decision": {"type": "string"}},
    "required": ["decision"],
}
LOGIN: Final = QuestionAction(url="https://login.test/here", hint="Log in.")
ASKED: Final[dict[str, dict[str, Any]]] = {
    "permission": {"kind": "permission"},
    "approval": {"kind": "approval"},
    "input": {"kind": "input", "schema": SCHEMA},
    "login of an app": {"kind": "login", "action": LOGIN},
    "login of all": {"kind": "login", "action": LOGIN, "for_admin": True},
    "trust": {"kind": "trust", "action": QuestionAction(new={"starts": "mail"})},
}
FOR_ADMIN: Final = ("login of all", "trust")
TOKENS: Final[dict[str, tuple[str, ...]]] = {
    "admin": ("admin",),
    "chat": ("chat",),
    "chat and device": ("chat", "device"),
    "tools": ("tools",),
    "tools that answers": ("tools", "answers"),
    "device": ("device",),
}
CELLS: Final = [(asked, token) for asked in ASKED for token in TOKENS]


def is_allowed(asked: str, token: str) -> bool:
    return token == "admin" or ("chat" in TOKENS[token] and asked not in FOR_ADMIN)


def answer_to(asked: str) -> dict[str, Any]:
    return {"decision": "allow", **({"value": {"decision": "allow"}} if asked == "input" else {})}


@asynccontextmanager
async def open_question(gateway: RunningGateway, asked: str) -> AsyncIterator[Question]:
    """A question of this kind, which no call waits for, open while the block runs."""
    about: dict[str, Any] = {
        "tool": "it",
        "arguments": {},
        "subject": "Well?",
        "session": "",
        "fingerprint": "",
        "expires_in": 600.0,
    }
    question = Question(id=f"asked/{asked}", call_id="", owner=OPERATOR.owner, **about, **ASKED[asked])
    asking = asyncio.create_task(gateway.gateway.parts.questions.ask(question))

    async def is_open() -> bool:
        return bool(await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner))

    try:
        await until(is_open)
        yield question
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def http_of(gateway: RunningGateway, token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, base_url=gateway.url, timeout=60)


@pytest.mark.parametrize(("asked", "token"), CELLS)
async def test_rest_and_the_graph_api_show_a_question_to_those_who_may_answer_it(
    tmp_path: Path, asked: str, token: str
) -> None:
    async with running_gateway(tmp_path) as gateway, open_question(gateway, asked) as question:
        has_chat = not {"chat", "admin"}.isdisjoint(TOKENS[token])
        secret = await gateway.gateway.parts.auth.issue(OPERATOR.owner, TOKENS[token])
        async with http_of(gateway, secret) as http:
            path = f"/api/questions/{quote(question.id, safe='')}"
            listed = await http.get("/api/questions")
            if has_chat:
                seen = [one["id"] for one in listed.json()["questions"]]
                assert seen == ([question.id] if is_allowed(asked, token) else [])
            else:
                assert listed.status_code == 403
            if not is_allowed(asked, token):
                graph = {"question_id": question.id, **answer_to(asked)}
                given = await http.post("/v1/graph/answer", json=graph)
                assert not given.json()["data"]["accepted"] if has_chat else given.status_code == 403
                assert (await http.post(f"{path}/start")).status_code == (404 if has_chat else 403)
            given = await http.post(f"{path}/answer", json=answer_to(asked))
            assert given.status_code == (200 if is_allowed(asked, token) else 404 if has_chat else 403), given.text
        open_ones = await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner)
        assert bool(open_ones) is not is_allowed(asked, token)


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("token", ["admin", "chat", "chat and device"])
async def test_a_chat_is_asked_only_what_its_token_may_answer(tmp_path: Path, asked: str, token: str) -> None:
    async with running_gateway(tmp_path) as gateway:
        secret = await gateway.gateway.parts.auth.issue(OPERATOR.owner, TOKENS[token])
        async with FakeDevice(gateway.url, secret) as chat:
            can = ("events", "questions", "question_kinds")
            await chat.open()
            await chat.send({"type": "connect", "capabilities": list(can)})
            await chat.expect("connected")
            async with open_question(gateway, asked) as question:
                if is_allowed(asked, token):
                    assert (await chat.expect("question"))["id"] == question.id
                await chat.send({"type": "answer", "id": question.id, **answer_to(asked)})
                closed = await chat.expect("question_closed", id=question.id)
                assert closed["accepted"] is is_allowed(asked, token)
                assert any(frame["type"] in ("question", "event") for frame in chat.heard) is is_allowed(asked, token)


async def test_a_device_that_asks_to_be_trusted_cannot_answer_itself(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        secret = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("chat", "device"))
        async with FakeDevice(gateway.url, secret) as device, http_of(gateway, secret) as http:
            await device.connect(label="bridge", capabilities=("trust",))
            new: JsonObject = {"starts": "mail"}
            await device.send({"type": "trust_request", "id": "1", "subject": "May mail start?", "new": new})
            question = await first_open(gateway)
            path = f"/api/questions/{quote(question.id, safe='')}/answer"
            assert (await http.post(path, json={"decision": "allow"})).status_code == 404
            await device.send({"type": "answer", "id": question.id, "decision": "allow"})
            async with http_of(gateway, gateway.token) as admin:
                assert (await admin.post(path, json={"decision": "deny"})).status_code == 200
            assert (await device.expect("trust_answer"))["decision"] == "deny"


async def first_open(gateway: RunningGateway) -> Question:
    found: list[Question] = []

    async def is_asked() -> bool:
        found[:] = await gateway.gateway.parts.questions.open_for(owner=OPERATOR.owner)
        return bool(found)

    await until(is_asked)
    return found[0]


@tool(annotations=Annotations())  # else a channel asks before it runs
async def ask_person(asked: str, ctx: ToolContext) -> str:
    """Ask the person.

    asked: What is asked.
    """
    about = {key: value for key, value in ASKED[asked].items() if key != "kind"}
    return (await ctx.ask(ASKED[asked]["kind"], "Well?", **about)).decision


@pytest.mark.parametrize("asked", [one for one in ASKED if one not in ("permission", "approval")])
async def test_a_chat_of_a_channel_shows_no_question_for_an_administrator(tmp_path: Path, asked: str) -> None:
    turns = [call("ask_person", asked=asked), "Done."]
    async with (
        TelegramServer() as telegram,
        gateway_with(tmp_path, {"telegram": telegram_settings(telegram)}, turns) as place,
    ):
        place.gateway.parts.app.registry.register(ask_person)
        telegram.write("go")
        if asked not in FOR_ADMIN:
            assert "Well?" in await telegram.until_sent(1)
            return
        questions = place.gateway.parts.questions
        found: list[Question] = []

        async def is_asked() -> bool:
            found[:] = await questions.open_for(owner=OPERATOR.owner)
            return bool(found)

        await until(is_asked)
        telegram.write("yes")  # answers nothing: it is the next message
        assert await questions.answer(found[0].id, Answer("allow"), person(OPERATOR))
        assert await telegram.until_sent(1) == "Done."
        assert not any("Well?" in str(sent) for sent in telegram.sent)


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("allowed_by", ["nothing", "setting", "token"])
@pytest.mark.parametrize("asked", ASKED)
async def test_an_mcp_client_is_asked_only_what_it_may_answer_about_its_own_call(
    tmp_path: Path, asked: str, allowed_by: str, mode: str
) -> None:
    at_client: list[str] = []
    reports: list[str | None] = []

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        at_client.append(params.message)
        return types.ElicitResult(action="accept", content={"decision": "allow"})

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    goes_to_client = asked == "input" or (asked in ("permission", "approval") and allowed_by != "nothing")
    async with running_gateway(tmp_path, mcp={"answers": allowed_by == "setting"}) as gateway:
        gateway.gateway.parts.app.registry.register(ask_person)
        scopes = ("tools", "answers") if allowed_by == "token" else ("tools",)
        token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, scopes)
        async with mcp_client(gateway, mode, token=token, elicitation_callback=elicit) as client:
            calling = asyncio.create_task(client.call_tool("ask_person", {"asked": asked}, progress_callback=report))
            if not goes_to_client:
                question = await first_open(gateway)
                await until(lambda: any("handspan questions answer" in (one or "") for one in reports))
                assert await gateway.gateway.parts.questions.answer(question.id, Answer("deny"), person(OPERATOR))
            result = await soon(calling)
            said = result.content[0]
            assert isinstance(said, types.TextContent) and said.text == ("allow" if goes_to_client else "deny")
            assert len(at_client) == (1 if goes_to_client else 0)


async def test_an_mcp_client_does_not_answer_for_the_call_of_another_one(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, mcp={"answers": True}) as gateway, open_question(gateway, "approval") as other:
        token = await gateway.gateway.parts.auth.issue(OPERATOR.owner, ("tools", "answers"))
        async with http_of(gateway, token) as http:
            path = f"/api/questions/{quote(other.id, safe='')}/answer"
            assert (await http.post(path, json={"decision": "allow"})).status_code == 403
