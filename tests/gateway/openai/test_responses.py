"""The responses API with the real `openai` client (SPEC F2, F3)."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

from handspan.core.messages import Media, Usage
from handspan.models.model import ModelError
from handspan.models.scripted import PlainTurn, Scripted, ScriptedReply, call
from tests.gateway.openai.kit import DOT, Front, Heard, Slow, front
from tests.gateway.openai.test_keyed_chats import said
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
ASK = "call get_weather {}\nthen\nIt is {results}"


async def made(there: Front, given: Any, **more: Any) -> Any:
    """A response."""
    return await there.client.responses.create(**{"model": "handspan", "input": given, **more})


async def events(there: Front, given: Any, **more: Any) -> list[Any]:
    """The events of a response."""
    return [event async for event in await made(there, given, stream=True, **more)]


def outputs(items: Sequence[Any]) -> list[str]:
    """The types of items."""
    return [item.type for item in items]


class TestMaking:
    async def test_a_whole_response_has_what_the_types_want(self, there: Front) -> None:
        response = await made(there, "hello", metadata={"a": "b"}, instructions="Be brief.")
        assert response.output_text == "hello"
        assert (response.status, response.metadata, response.instructions) == ("completed", {"a": "b"}, "Be brief.")
        assert (response.parallel_tool_calls, response.tool_choice, response.tools) == (True, "auto", [])

    async def test_the_clients_accumulator_gets_the_same_from_the_stream(self, there: Front) -> None:
        asked: Any = {"model": "handspan", "input": "hello you"}
        async with there.client.responses.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == "hello you"
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert kinds[-1] == "response.completed"

    async def test_every_event_is_numbered(self, there: Front) -> None:
        found = await events(there, 'call read_file {"path": "no.txt"}\nthen\nend')
        assert [event.sequence_number for event in found] == [*range(len(found))]

    async def test_tools_of_the_gateway_are_items_that_no_client_runs(self, there: Front) -> None:
        (there.parts.settings.workspace / "a.txt").write_text("in a")
        script = 'Let me see.\ncall read_file {"path": "a.txt"}\ncall read_file {"path": "no.txt"}\nthen\nend'
        response = await made(there, script)
        assert outputs(response.output) == ["message", "mcp_call", "mcp_call", "message"]
        _, good, bad, last = response.output
        assert (good.name, good.server_label, good.status) == ("read_file", "builtin", "completed")
        assert "in a" in good.output
        assert bad.status == "failed"
        assert last.content[0].text == "end"

    async def test_usage_is_that_of_all_rounds(self, tmp_path: Path) -> None:
        script = [
            ScriptedReply([call("read_file", path="x")], Usage(100, 10, cached=50)),
            ScriptedReply(["no"], Usage(9, 2, reasoning=1)),
        ]
        async with front(tmp_path, Scripted(script)) as there:
            usage = (await made(there, "read")).usage
            assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (109, 12, 121)
            assert (usage.input_tokens_details.cached_tokens, usage.output_tokens_details.reasoning_tokens) == (50, 1)

    async def test_an_image_and_instructions_among_the_items_reach_the_model(self, tmp_path: Path) -> None:
        model = Heard()
        async with front(tmp_path, model) as there:
            parts = [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": DOT, "detail": "auto"},
            ]
            await made(there, [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": parts}])
        assert any(isinstance(part, Media) for part in model.heard[0][0].parts)  # type: ignore[union-attr]
        assert model.instructions[0].endswith("Be kind.")

    async def test_a_form_is_kept(self, tmp_path: Path) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        form: Any = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
        async with front(tmp_path, Scripted([call("final_answer", n=4)])) as there:
            response = await made(there, "How many?", text=form)
            assert json.loads(response.output_text) == {"n": 4}
            assert outputs(response.output) == ["message"]

    async def test_a_failing_model_is_told_as_that(self, tmp_path: Path) -> None:
        script: list[PlainTurn] = [["Hm.", call("read_file", path="x")], ModelError("refused", "Not that.")]
        async with front(tmp_path, Scripted([*script, *script])) as there:
            with pytest.raises(openai.BadRequestError) as found:
                await made(there, "hi")
            assert found.value.code == "content_filter"
            last = (await events(there, "hi"))[-1]
            assert (last.type, last.response.error.message) == ("response.failed", "Not that.")


class TestToolsOfTheClient:
    async def test_one_is_asked_for_and_its_result_goes_on(self, there: Front) -> None:
        first = await made(there, ASK, tools=[TOOL])
        (item,) = first.output
        assert (item.type, item.name, item.status) == ("function_call", "get_weather", "completed")
        answer = {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        second = await made(there, [answer], previous_response_id=first.id, tools=[TOOL])
        assert '"result":"sunny"' in second.output_text

    async def test_a_stream_asks_with_its_events_and_a_whole_history_brings_the_result(self, there: Front) -> None:
        found = await events(there, ASK, tools=[TOOL], store=False)
        done = next(event for event in found if event.type == "response.function_call_arguments.done")
        assert (done.name, done.arguments) == ("get_weather", "{}")
        asked = found[-1].response.output[0]
        given = [
            {"role": "user", "content": ASK},
            {"type": "function_call", "call_id": asked.call_id, "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": asked.call_id, "output": "sunny"},
        ]
        response = await made(there, given, tools=[TOOL], store=False)
        assert '"result":"sunny"' in response.output_text
        await until(lambda: _none(there))

    async def test_a_call_of_ours_comes_back_as_text_with_its_output(self, tmp_path: Path) -> None:
        model = Heard()
        item = {
            "type": "mcp_call",
            "id": "mcp_x",
            "name": "look",
            "server_label": "a",
            "arguments": "{}",
            "output": "cat",
        }
        async with front(tmp_path, model) as there:
            await made(there, [{"role": "user", "content": "a"}, item, {"role": "user", "content": "b"}], store=False)
        assert "cat" in str(model.heard[0][1])
        assert not getattr(model.heard[0][1], "calls", ())


class TestSessions:
    async def test_a_previous_response_is_gone_on_with(self, there: Front) -> None:
        first = await made(there, "one")
        await made(there, "two", previous_response_id=first.id)
        assert said(await there.messages()) == ["one", "one", "two", "two"]

    async def test_an_older_response_begins_a_version_from_there(self, there: Front) -> None:
        first = await made(there, "one")
        await made(there, "two", previous_response_id=first.id)
        await made(there, "TWO", previous_response_id=first.id)
        assert said(await there.messages()) == ["one", "one", "TWO", "TWO"]

    async def test_a_conversation_is_a_name_of_the_clients_choice(self, there: Front) -> None:
        await made(there, "one", conversation="mine")
        await made(there, "one", conversation="mine")
        assert said(await there.messages()) == ["one", "one", "one", "one"]

    async def test_what_is_not_stored_leaves_nothing(self, there: Front) -> None:
        response = await made(there, "one", store=False)
        await until(lambda: _none(there))
        with pytest.raises(openai.NotFoundError):
            await there.client.responses.retrieve(response.id)

    async def test_another_token_finds_no_response(self, there: Front) -> None:
        response = await made(there, "one")
        other = there.another(await there.parts.auth.issue("operator", ("chat",), "x"))
        with pytest.raises(openai.NotFoundError):
            await other.responses.retrieve(response.id)
        with pytest.raises(openai.NotFoundError):
            await other.responses.create(model="handspan", input="x", previous_response_id=response.id)


class TestLater:
    async def test_a_response_is_read_again_also_after_a_restart(self, there: Front) -> None:
        response = await made(there, "one")
        await there.gateway.restart()
        again = await there.client.responses.retrieve(response.id)
        assert again.model_dump() == response.model_dump()
        items = await there.client.responses.input_items.list(response.id)
        assert [item.role for item in items.data] == ["user"]

    async def test_deleting_forgets_the_id_and_not_the_conversation(self, there: Front) -> None:
        response = await made(there, "one")
        await there.client.responses.delete(response.id)
        with pytest.raises(openai.NotFoundError):
            await there.client.responses.retrieve(response.id)
        assert said(await there.messages()) == ["one", "one"]

    async def test_in_the_background_it_is_queued_and_can_be_read_when_it_is_done(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            response = await made(there, "one", background=True)
            assert response.status == "queued"
            await soon(model.has_begun.wait())
            assert (await there.client.responses.retrieve(response.id)).status == "in_progress"
            model.may_go_on.set()
            await until(lambda: _has_status(there, response.id, "completed"))
            assert (await there.client.responses.retrieve(response.id)).output_text == "Well, done"

    async def test_one_in_the_background_can_be_cancelled(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            response = await made(there, "one", background=True)
            await soon(model.has_begun.wait())
            await there.client.responses.cancel(response.id)
            await soon(model.was_stopped.wait())
            await until(lambda: _has_status(there, response.id, "cancelled"))

    async def test_what_was_streamed_can_not_be_streamed_again(self, there: Front) -> None:
        response = await made(there, "one")
        with pytest.raises(openai.BadRequestError, match="leave stream out"):
            await there.client.responses.retrieve(response.id, stream=True, starting_after=1)


async def _has_status(there: Front, response_id: str, status: str) -> bool:
    await asyncio.sleep(0)
    return bool((await there.client.responses.retrieve(response_id)).status == status)


async def _none(there: Front) -> bool:
    return await there.sessions() == []
