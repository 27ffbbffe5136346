"""A browser's call goes the way of every call: hooks, policy, limits, journal (graph.md 5.7, SPEC E1)."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import Struct

from handspan.core.results import Failure, Success, ToolResult
from handspan.engine.builtin_hooks import BUILTIN_HOOKS
from handspan.engine.hooks import HookedCall
from tests.gateway.graph.pages import ECHO, Page, graph_gateway, result, tool

pytestmark = pytest.mark.anyio


class Louder:
    """A hook that puts a louder result in the place of the client's."""

    class Config(Struct, frozen=True):
        """Nothing to say."""

    def __init__(self, config: Config) -> None: ...

    async def before(self, call: HookedCall) -> None: ...

    async def after(self, call: HookedCall, result: ToolResult) -> ToolResult:
        assert isinstance(result, Success)
        return Success(f"{call.name} said {result.value}!")


async def test_a_call_that_a_hook_cancels_is_never_handed_out(tmp_path: Path) -> None:
    hook = {"type": "rate_limit", "config": {"per_minute": 1, "tools": ["echo"]}}
    async with graph_gateway(tmp_path, hooks={"chain": [hook]}) as there:
        await there.page.set_up(ECHO)
        first = await there.page.say("call echo\ncall echo\nthen\n{results}", "t")
        (asked,) = first.calls
        assert first.meta["open_calls"] == [asked["id"]]
        last = await there.page.answer(result(asked["id"], "in time"))
        assert sorted(one.get("code", "success") for one in json.loads(last.words)) == ["hook_cancelled", "success"]


async def test_an_after_hook_sees_what_a_client_answered_and_may_replace_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        cast(dict[str, Any], BUILTIN_HOOKS), "louder", (lambda config, _: Louder(config), Louder.Config)
    )
    async with graph_gateway(tmp_path, hooks={"chain": [{"type": "louder"}]}) as there:
        await there.page.set_up(ECHO)
        first = await there.page.say("call echo\nthen\n{results}")
        last = await there.page.answer(result(first.calls[0]["id"], "hello"))
        assert json.loads(last.words)[0]["result"] == "echo said hello!"
        (record,) = await there.gateway.journal()
        assert isinstance(record.true_result, Success)
        assert record.true_result.value == "hello"  # the journal has what the client said, too


async def test_an_audit_log_has_a_line_for_the_call_and_one_for_its_result(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, hooks={"chain": [{"type": "audit_log"}]}) as there:
        await there.page.set_up(ECHO)
        first = await there.page.say("call echo\nthen\nend", "t")
        failed = result(first.calls[0]["id"], {"error": "bang"}, is_error=True, status="failed")
        await there.page.answer(failed)
        log = there.gateway.gateway.settings.state / "audit.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    told = [(line["event"], line["tool"], line["session"], line.get("status")) for line in lines]
    assert told == [("call", "echo", "t", None), ("result", "echo", "t", "execution_failed")]


async def test_a_tool_that_is_switched_off_or_denied_to_the_agent_is_neither_seen_nor_asked(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, agents={"General": {"deny": ["echo"]}}) as there:
        page = there.page
        await page.set_up(ECHO, tool("look"))
        there.gateway.gateway.parts.app.registry.disable("look")
        assert not {"echo", "look"} & set(json.loads((await page.say("{tools}")).words))
        answer = await page.say("call echo\ncall look\nthen\n{results}")
        assert answer.calls == []
        assert [one["status"] for one in json.loads(answer.words)] == ["error", "error"]


async def test_a_read_only_agent_asks_no_client_for_what_may_change_things(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, agents={"General": {"mode": "read_only"}}) as there:
        answer = await there.page.say("call echo\nthen\n{results}", tools=[ECHO])
        assert answer.calls == []
        (envelope,) = json.loads(answer.words)
        assert envelope["status"] == "error"


async def test_a_permission_that_the_settings_forbid_is_refused_by_its_place(tmp_path: Path) -> None:
    async with graph_gateway(tmp_path, gateway={"remote": {"deny_permissions": ["camera"]}}) as there:
        refused = await there.page.set_up(ECHO, tool("photo", permissions=["camera"]))
        assert (refused.status, refused.error["code"]) == (422, "VALIDATION_ERROR")
        assert refused.error["details"][0]["loc"] == ["body", "tools", "1"]
        assert "'camera'" in refused.error["message"]
        inside = await there.page.say("hello", tools=[tool("photo", permissions=["camera"])])
        assert (inside.status, inside.error["code"]) == (422, "VALIDATION_ERROR")


@pytest.mark.parametrize("ends", ["answered", "failed", "expired", "stopped"])
async def test_the_journal_has_one_result_for_every_call_however_it_ended(tmp_path: Path, ends: str) -> None:
    async with graph_gateway(tmp_path) as there, asyncio.timeout(60):
        page = there.page
        await page.set_up(tool("echo", timeout=0.05 if ends == "expired" else 60))
        first = await page.say('call echo {"x": 1}\nthen\nend', "t")
        call = first.meta["open_calls"][0]
        if ends == "answered":
            await page.answer(result(call, {"y": 2}))
        elif ends == "failed":
            await page.answer(result(call, {"error": "bang"}, is_error=True))
        elif ends == "stopped":
            await page.ask("POST", "/v1/graph/stop", {"thread_id": "t"})
        journal = there.gateway.gateway.parts.store.ledger
        while not isinstance(getattr(await journal.find(call), "result", None), Success | Failure):
            await asyncio.sleep(0.01)
        (record,) = await there.gateway.journal()
        codes: dict[str, Any] = {"failed": "execution_failed", "expired": "timeout", "stopped": "cancelled"}
        shown = record.result.code if isinstance(record.result, Failure) else cast(Success, record.result).value
        assert shown == codes.get(ends, {"y": 2})
        assert (record.name, record.session, record.owner, record.agent) == ("echo", "t", "operator", "General")


async def test_the_size_limit_keeps_the_whole_where_the_model_can_read_on(page: Page) -> None:
    await page.set_up(ECHO)
    call = (await page.say("call echo\nthen\n{results}", "t")).calls[0]["id"]
    (envelope,) = json.loads((await page.answer(result(call, {"text": "x" * 200_000 + "the end"}))).words)
    named = re.search(r"\b[0-9a-f]{32}\b", json.dumps(envelope))
    assert named is not None
    handle = named[0]
    read = await page.say(f'call read_artifact {{"id": "{handle}", "query": "the end"}}\nthen\n{{results}}', "t")
    (found,) = json.loads(read.words)
    assert found["status"] == "success"
    assert "the end" in json.dumps(found["result"])
