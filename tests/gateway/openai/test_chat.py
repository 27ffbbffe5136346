"""Chat completions of the real `openai` client: whole and streamed, with tools of both sides (SPEC F2)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from handspan.core.messages import Media, Usage, UserMessage
from handspan.gateway.stores import check_store
from handspan.models.scripted import Scripted, ScriptedReply, call
from tests.gateway.openai.kit import (
    ASK_WEATHER,
    DOT,
    WEATHER,
    Front,
    Heard,
    Slow,
    assistant,
    front,
    result,
    user,
    words,
)
from tests.waiting import soon, until

pytestmark = pytest.mark.anyio


class TestAnswers:
    async def test_a_whole_answer_has_text_and_an_end(self, there: Front) -> None:
        answer = await there.ask("hello you")
        (choice,) = answer.choices
        assert (choice.message.content, choice.finish_reason) == ("hello you", "stop")
        assert (answer.object, answer.model) == ("chat.completion", "handspan")

    async def test_a_stream_brings_the_same_with_its_role_first(self, there: Front) -> None:
        chunks = [chunk async for chunk in await there.stream("hello you")]
        assert words(chunks) == "hello you"
        assert chunks[0].choices[0].delta.role == "assistant"
        assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
        assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
        assert len({chunk.id for chunk in chunks}) == 1

    async def test_the_clients_own_accumulator_takes_the_stream(self, there: Front) -> None:
        asked: Any = {"model": "handspan", "messages": [user(ASK_WEATHER)], "tools": [WEATHER]}
        async with there.client.chat.completions.stream(**asked) as stream:
            whole = await stream.get_final_completion()
        (called,) = whole.choices[0].message.tool_calls or []
        assert (called.function.name, json.loads(called.function.arguments)) == ("get_weather", {"city": "Rome"})

    async def test_usage_is_that_of_all_rounds_and_a_stream_has_it_last(self, tmp_path: Path) -> None:
        used = [
            ScriptedReply([call("read_file", path="no.txt")], Usage(100, 10, cached=60)),
            ScriptedReply(["It is not there."], Usage(150, 20, reasoning=5)),
        ]
        async with front(tmp_path, Scripted([*used, *used])) as there:
            usage = (await there.ask("read it")).usage
            assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (250, 30, 280)
            assert usage.prompt_tokens_details.cached_tokens == 60
            assert usage.completion_tokens_details.reasoning_tokens == 5
            chunks = [one async for one in await there.stream("again", stream_options={"include_usage": True})]
            assert chunks[-1].choices == []
            assert chunks[-1].usage.total_tokens == 280
            assert {chunk.usage for chunk in chunks[:-1]} == {None}

    async def test_what_a_reply_costs_is_in_the_usage(self, tmp_path: Path) -> None:
        price = {
            "models": {"scripted": {"model": "x", "price": {"input": 1.0, "output": 10.0}, "base_url": "http://x"}}
        }
        reply = ScriptedReply(["yes"], Usage(1_000_000, 100_000))
        async with front(tmp_path, Scripted([reply]), **price) as there:
            assert (await there.ask("well?")).usage.cost == pytest.approx(2.0)

    async def test_a_cost_has_no_digits_that_only_come_of_adding(self, tmp_path: Path) -> None:
        price = {"models": {"scripted": {"model": "x", "price": {"input": 0.1, "output": 0.2}, "base_url": "http://x"}}}
        reply = ScriptedReply(["yes"], Usage(1_000_000, 1_000_000))
        async with front(tmp_path, Scripted([reply]), **price) as there:
            assert (await there.ask("well?")).usage.cost == 0.3  # 0.1 + 0.2 is 0.30000000000000004

    async def test_unknown_parameters_are_ignored_and_named_once(self, there: Front) -> None:
        raw = await there.client.chat.completions.with_raw_response.create(
            model="handspan", messages=[user("hi")], logit_bias={"5": 1}, extra_body={"frob": 1}
        )
        assert raw.headers["x-handspan-ignored"] == "frob, logit_bias"
        assert raw.parse().choices[0].message.content == "hi"

    async def test_nothing_of_a_request_without_a_key_is_left_but_what_it_used(self, tmp_path: Path) -> None:
        async with front(tmp_path, Scripted([ScriptedReply(["yes"], Usage(3, 4))])) as there:
            await there.text("well?")
            await until(lambda: _none(there))
            (spent,) = await there.parts.store.usage.sums("day", owner="operator")
            assert (spent.replies, spent.input.known) == (1, 3)

    async def test_the_calls_of_a_request_without_a_key_stay_in_the_journal(self, there: Front) -> None:
        await there.text('call read_file {"path": "no.txt"}\nthen\nIt is not there.')
        await until(lambda: _none(there))
        async with httpx2.AsyncClient(base_url=there.gateway.url) as client:
            headers = {"authorization": f"Bearer {there.gateway.token}"}
            (kept,) = (await client.get("/api/calls", headers=headers)).json()["calls"]
        assert (kept["tool"], kept["status"]) == ("read_file", "file_not_found")

    async def test_what_it_leaves_is_no_fault_of_the_store(self, tmp_path: Path) -> None:
        async with front(tmp_path, Scripted([ScriptedReply(["yes"], Usage(3, 4))])) as there:
            await there.text("well?")
            await until(lambda: _none(there))
            assert (await check_store(there.parts.app.settings)).faults == {}


class TestInstructions:
    async def test_they_are_laid_on_top_of_the_agents(self, tmp_path: Path) -> None:
        model = Heard()
        agents = {"agents": {"Pirate": {"instructions": "Talk like a pirate."}}}
        async with front(tmp_path, model, **agents) as there:
            system: Any = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}]
            await there.text(*system, "hi", model="handspan/Pirate")
            await there.text("hi", model="handspan/Pirate")
        on_top, alone = model.instructions
        assert alone.startswith("Talk like a pirate.")
        assert on_top == f"{alone}\n\nBe brief.\n\nBe kind."

    async def test_a_task_of_open_webui_is_answered_by_the_model_alone(self, tmp_path: Path) -> None:
        model = Heard()
        async with front(tmp_path, model, agents={"General": {"instructions": "Long ones."}}) as there:
            await there.text("### Task:\nGenerate a title.", extra_headers={"X-OpenWebUI-Chat-Id": "c1"})
            await there.text("A title, please", extra_headers={"X-OpenWebUI-Task": "title_generation"})
            await until(lambda: _none(there))
        assert model.instructions == ["", ""]
        assert model.tools == [[], []]


class TestHistory:
    async def test_a_request_without_a_key_brings_its_own(self, tmp_path: Path) -> None:
        model = Heard()
        async with front(tmp_path, model) as there:
            await there.text("I am Ann.", assistant("Hello Ann."), "Who am I?")
        shown = [(type(one).__name__, one.parts[0].text) for one in model.heard[0]]  # type: ignore[union-attr]
        assert shown == [
            ("UserMessage", "I am Ann."),
            ("AssistantMessage", "Hello Ann."),
            ("UserMessage", "Who am I?"),
        ]

    async def test_calls_that_we_did_not_ask_for_are_text_for_the_model(self, tmp_path: Path) -> None:
        model = Heard()
        called: Any = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x":4}'}}],
        }
        async with front(tmp_path, model) as there:
            await there.text("Look.", called, result("c1", "a cat"), "What was it?")
            await there.text("Look.", called, result("c1", "a dog"))
        first, second = model.heard
        assert not any(getattr(one, "calls", ()) for one in [*first, *second])
        assert "look" in str(first[1]) and "a cat" in str(first[1])
        assert [type(one) for one in second] == [UserMessage]
        assert "a dog" in str(second[0])

    async def test_an_image_reaches_the_model_and_audio_is_refused_in_words(self, tmp_path: Path) -> None:
        model = Heard()
        async with front(tmp_path, model) as there:
            picture: Any = {"type": "image_url", "image_url": {"url": DOT}}
            shown: Any = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
            await there.text(shown)
            (part,) = (part for part in model.heard[0][0].parts if isinstance(part, Media))  # type: ignore[union-attr]
            assert (part.attachment.kind, part.attachment.media_type) == ("image", "image/png")
            assert part.attachment.data.startswith(b"\x89PNG")
            sound: Any = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
            with pytest.raises(openai.BadRequestError, match="Audio is not taken"):
                await there.text({"role": "user", "content": [sound]})

    async def test_an_image_at_an_address_goes_through_the_network_guard(self, there: Front) -> None:
        inside: Any = {"type": "image_url", "image_url": {"url": f"{there.gateway.url}/health"}}
        with pytest.raises(openai.BadRequestError, match="could not be fetched"):
            await there.text({"role": "user", "content": [inside]})


class TestToolsOfTheClient:
    async def test_one_is_asked_for_and_its_result_goes_on(self, there: Front) -> None:
        first = await there.ask(ASK_WEATHER, tools=[WEATHER])
        (choice,) = first.choices
        (called,) = choice.message.tool_calls
        assert choice.finish_reason == "tool_calls"
        assert (called.function.name, json.loads(called.function.arguments)) == ("get_weather", {"city": "Rome"})
        second = await there.ask(
            ASK_WEATHER, choice.message.model_dump(exclude_none=True), result(called.id, "sunny"), tools=[WEATHER]
        )
        assert '"result":"sunny"' in second.choices[0].message.content
        assert second.choices[0].finish_reason == "stop"
        await until(lambda: _none(there))

    async def test_several_at_once_come_in_one_answer(self, there: Front) -> None:
        both = "call get_weather {}\ncall get_weather {}\nthen\n{results}"
        first = [chunk async for chunk in await there.stream(both, tools=[WEATHER])]
        calls = [one for chunk in first for one in chunk.choices[0].delta.tool_calls or []]
        assert [one.index for one in calls] == [0, 1]
        said = {"role": "assistant", "tool_calls": [one.model_dump(exclude={"index"}) for one in calls]}
        results = [result(one.id, f"r{one.index}") for one in calls]
        text = await there.text(both, said, *reversed(results), tools=[WEATHER])
        assert [one["result"] for one in json.loads(text)] == ["r0", "r1"]

    async def test_when_only_some_are_answered_the_others_are_asked_for_again(self, there: Front) -> None:
        both = "call get_weather {}\ncall get_weather {}\nthen\n{results}"
        first = (await there.ask(both, tools=[WEATHER])).choices[0].message
        one, other = first.tool_calls
        said = first.model_dump(exclude_none=True)
        second = (await there.ask(both, said, result(one.id, "1"), tools=[WEATHER])).choices[0]
        assert [call.id for call in second.message.tool_calls] == [other.id]
        text = await there.text(both, said, result(one.id, "1"), result(other.id, "2"), tools=[WEATHER])
        assert [answer["result"] for answer in json.loads(text)] == ["1", "2"]

    async def test_a_round_with_tools_of_both_sides_runs_ours_and_asks_for_theirs(self, there: Front) -> None:
        (there.parts.settings.workspace / "a.txt").write_text("in a")
        both = 'call read_file {"path": "a.txt"}\ncall get_weather {}\nthen\n{results}'
        chunks = [chunk async for chunk in await there.stream(both, tools=[WEATHER])]
        (called,) = (one for chunk in chunks for one in chunk.choices[0].delta.tool_calls or [])
        assert called.function.name == "get_weather"
        said = {"role": "assistant", "tool_calls": [called.model_dump(exclude={"index"})]}
        text = await there.text(both, said, result(called.id, "sunny"), tools=[WEATHER])
        read, weather = json.loads(text)
        assert "in a" in json.dumps(read["result"])
        assert weather["result"] == "sunny"

    async def test_rounds_of_the_gateways_tools_before_are_remembered(self, there: Front) -> None:
        (there.parts.settings.workspace / "a.txt").write_text("in a")
        script = 'call read_file {"path": "a.txt"}\nthen\ncall get_weather {}\nthen\nend'
        first = (await there.ask(script, tools=[WEATHER])).choices[0].message
        second = await there.text(
            script, first.model_dump(exclude_none=True), result(first.tool_calls[0].id, "x"), tools=[WEATHER]
        )
        assert second == "end"

    async def test_they_are_not_offered_when_the_choice_is_none(self, tmp_path: Path) -> None:
        model = Heard()
        async with front(tmp_path, model) as there:
            await there.text("hi", tools=[WEATHER], tool_choice="none")
            await there.text("hi", tools=[WEATHER])
        assert ["get_weather" in tools for tools in model.tools] == [False, True]

    async def test_a_call_of_another_token_takes_no_result(self, there: Front) -> None:
        asked = (await there.ask(ASK_WEATHER, tools=[WEATHER])).choices[0].message
        token = await there.parts.auth.issue("operator", ("chat",), "another")
        other = there.another(token)
        answer = await other.chat.completions.create(
            model="handspan",
            messages=[user("hello"), asked.model_dump(exclude_none=True), result(asked.tool_calls[0].id, "forged")],
        )
        assert "forged" in str(answer.choices[0].message.content)  # as text of its own, which Spoken repeats
        (record,) = await there.parts.store.ledger.open_calls(owner="operator")
        assert (record.id, record.state) == (asked.tool_calls[0].id, "pending")

    async def test_a_name_of_ours_stays_ours_and_is_theirs_on_their_wire(self, there: Front) -> None:
        theirs = {"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}
        answer = await there.ask("call tools__read_file {}\nthen\nend", tools=[theirs])
        assert answer.choices[0].message.tool_calls[0].function.name == "read_file"


CITY: Any = {
    "type": "json_schema",
    "json_schema": {
        "name": "city",
        "schema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
}


class TestForms:
    async def test_an_answer_of_a_schema_is_json_that_fits(self, tmp_path: Path) -> None:
        script = [call("final_answer", wrong=1), call("final_answer", name="Bern")]
        async with front(tmp_path, Scripted(script)) as there:
            assert json.loads(await there.text("Which?", response_format=CITY)) == {"name": "Bern"}

    async def test_a_model_that_writes_the_json_itself_is_taken_too(self, tmp_path: Path) -> None:
        async with front(tmp_path, Scripted(['```json\n{"name": "Bern"}\n```'])) as there:
            chunks = [one async for one in await there.stream("Which?", response_format=CITY)]
            assert json.loads(words(chunks)) == {"name": "Bern"}

    async def test_an_answer_that_does_not_fit_is_a_refusal(self, tmp_path: Path) -> None:
        async with front(tmp_path, Scripted(["I can't say."])) as there:
            message = (await there.ask("Which?", response_format=CITY)).choices[0].message
            assert message.refusal and not message.content

    async def test_an_answer_that_is_no_object_is_wrapped_for_the_model_alone(self, tmp_path: Path) -> None:
        numbers = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}}
        async with front(tmp_path, Scripted([call("final_answer", answer=[1, 2])])) as there:
            assert json.loads(await there.text("Which?", response_format=numbers)) == [1, 2]

    async def test_a_schema_that_is_none_is_refused(self, there: Front) -> None:
        wrong = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nonsense"}}}
        with pytest.raises(openai.BadRequestError, match="schema"):
            await there.text("Which?", response_format=wrong)


class TestLeaving:
    async def test_a_stream_that_is_closed_stops_its_run_and_leaves_nothing(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            stream = await there.stream("hi")
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
            await soon(model.was_stopped.wait())
            await until(lambda: _none(there))

    async def test_a_request_that_is_cancelled_stops_its_run(self, tmp_path: Path) -> None:
        model = Slow()
        async with front(tmp_path, model) as there:
            asking = asyncio.create_task(there.text("hi"))
            await soon(model.has_begun.wait())
            asking.cancel()
            await soon(model.was_stopped.wait())

    async def test_tools_of_the_gateway_that_run_are_stopped_too(self, there: Front) -> None:
        held = there.hold()
        stream = await there.stream("Wait.\ncall hold\nthen\nend")
        async for _ in stream:
            break
        await soon(held.is_at_work.wait())
        await stream.close()
        await soon(held.was_stopped.wait())

    async def test_two_chats_at_once_do_not_meet(self, there: Front) -> None:
        held = there.hold()
        slow = asyncio.create_task(there.text("call hold\nthen\nfirst"))
        await soon(held.is_at_work.wait())
        assert await there.text("second") == "second"
        held.may_end.set()
        assert await slow == "first"

    async def test_the_same_request_under_a_key_is_done_once(self, there: Front) -> None:
        held = there.hold()
        held.may_end.set()
        headers, other = {"Idempotency-Key": "k1"}, {"Idempotency-Key": "k2"}
        script = "call hold\nthen\n{results}"
        told = [await there.text(script, extra_headers=headers) for _ in range(2)]
        streams = [await there.stream(script, extra_headers=other) for _ in range(2)]
        chunks = [words([one async for one in stream]) for stream in streams]
        assert told[0] == told[1]
        assert chunks[0] == chunks[1] != ""
        assert held.count == 2


class TestActivity:
    async def test_without_the_setting_only_comments_tell_of_tools(self, there: Front) -> None:
        assert await there.text('call read_file {"path": "no.txt"}\nthen\nend') == "end"

    async def test_with_the_setting_a_round_is_one_folded_block_that_does_not_come_back(self, tmp_path: Path) -> None:
        async with front(tmp_path, fronts={"openai": {"activity": "text"}}) as there:
            text = await there.text('call read_file {"path": "no.txt"}\nthen\nend')
            block, _, rest = text.rpartition("\n\n")
            assert rest == "end"
            assert block.startswith("<details>\n<summary>Used 1 tool</summary>\n\n- `read_file`")
            assert block.endswith("</details>")
            repeated = await there.text("a", assistant(text), "b")
            assert repeated == "b"


async def _none(there: Front) -> bool:
    return await there.sessions() == []
