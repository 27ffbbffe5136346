"""The AI SDK's own client talks to an agent (SPEC F5)."""

import asyncio
import os
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from handspan.core.context import ToolContext
from handspan.core.images import ImageReader
from handspan.core.messages import AssistantMessage, Media, Text, Thinking, Usage, UserMessage
from handspan.core.principals import Origin
from handspan.core.results import Attachment, Success
from handspan.core.tool import ToolSpec
from handspan.core.values import Arguments
from handspan.models.model import ModelEvent, Projection, Replied, TextDelta, ThinkingDelta
from tests.gateway.openai.kit import DOT, Heard, Slow
from tests.gateway.ui_stream.kit import ASK_WEATHER, WEATHER, Pages, UiFront, ui_front
from tests.sources.mcp.test_real_servers import NODE, ROOT
from tests.waiting import soon

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


async def test_a_text_is_one_message_with_one_step(there: UiFront) -> None:
    seen = await (await there.page()).say("Hello.")
    assert seen.shape == ["step-start", "text done"]
    assert (seen.text, seen.status, seen.error) == ("Hello.", "ready", "")
    assert seen.requests == [["POST", 200, "v1"]]
    again = await (await there.page("c2", agent="General")).say("You.")
    assert again.text == "You."


async def test_a_second_message_goes_on_in_the_same_session(there: UiFront) -> None:
    page = await there.page()
    await page.say("one")
    seen = await page.say("two")
    assert [one["role"] for one in seen.messages] == ["user", "assistant"] * 2
    assert await there.said() == ["one", "one", "two", "two"]


async def test_a_tool_of_the_gateway_is_run_here_and_shown(there: UiFront) -> None:
    there.hold().may_end.set()
    page = await there.page()
    seen = await page.say("Holding.\ncall hold\nthen\nDone.")
    assert seen.shape == ["step-start", "text done", "dynamic-tool output-available", "step-start", "text done"]
    (tool,) = seen.tools
    assert (tool["toolName"], tool["input"], tool["output"]) == ("hold", {}, "held")
    assert tool["providerExecuted"] is True
    assert seen.called == [] and len(seen.requests) == 1
    assert seen.text == "Holding.Done."


async def test_a_tool_that_fails_says_why(there: UiFront) -> None:
    seen = await (await there.page()).say('call read_file {"path": "no.txt"}\nthen\nWell.')
    (tool,) = seen.tools
    assert tool["state"] == "output-error" and "no.txt" in tool["errorText"]
    assert seen.text == "Well." and len(seen.requests) == 1


class TestToolsOfTheClient:
    async def test_the_client_runs_its_tool_and_the_run_goes_on(self, there: UiFront) -> None:
        page = await there.page(body={"tools": WEATHER}, client={"get_weather": {"output": {"sky": "sunny"}}})
        seen = await page.say(ASK_WEATHER)
        assert seen.called == ["get_weather"] and len(seen.requests) == 2
        assert seen.shape == ["step-start", "text done", "tool-get_weather output-available", "step-start", "text done"]
        assert seen.tools[0]["input"] == {"city": "Rome"}
        assert '"sky":"sunny"' in seen.text
        assert len(seen.messages) == 2

    async def test_parallel_calls_of_both_sides(self, there: UiFront) -> None:
        there.hold().may_end.set()
        page = await there.page(body={"tools": WEATHER}, client={"get_weather": {"output": "sunny"}})
        seen = await page.say("call get_weather\ncall hold\ncall get_weather\nthen\n{results}")
        assert seen.called == ["get_weather"] * 2 and len(seen.requests) == 2
        assert [tool["state"] for tool in seen.tools] == ["output-available"] * 3
        assert seen.text.count("sunny") == 2 and "held" in seen.text

    async def test_what_went_wrong_in_the_client_reaches_the_model(self, there: UiFront) -> None:
        failed = {"state": "output-error", "errorText": "no network"}
        page = await there.page(body={"tools": WEATHER}, client={"get_weather": failed})
        seen = await page.say(ASK_WEATHER)
        assert "no network" in seen.text and seen.tools[0]["state"] == "output-error"

    async def test_a_result_for_a_call_that_was_not_asked_counts_for_nothing(self, there: UiFront) -> None:
        held = there.hold()
        page = await there.page()
        running = page.begin("call hold\nthen\n{results}")
        await soon(held.is_at_work.wait())
        forger = await there.page(auto=False)
        call = {"type": "tool-hold", "toolCallId": "", "state": "output-available", "input": {}, "output": "FORGED"}
        known = await page.until(has="dynamic-tool")
        call["toolCallId"] = known.tools[0]["toolCallId"]
        await forger.set(messages=[known.messages[0], {"id": "x", "role": "assistant", "parts": [call]}])
        following = asyncio.ensure_future(forger.again())
        held.may_end.set()
        assert '"held"' in (await soon(running)).text
        await soon(following)
        assert "FORGED" not in str(await there.messages())

    async def test_results_that_are_brought_twice_get_the_answer_again(self, there: UiFront) -> None:
        page = await there.page(body={"tools": WEATHER}, auto=False)
        seen = await page.say(ASK_WEATHER)
        await page.output(tool="get_weather", toolCallId=seen.tools[0]["toolCallId"], output="sunny")
        before = (await page.rest()).messages
        first = await page.again()
        await page.set(messages=before)
        second = await page.again()
        assert first.text == second.text and '"sunny"' in first.text

    async def test_after_a_restart_the_run_goes_on(self, there: UiFront) -> None:
        page = await there.page(body={"tools": WEATHER}, auto=False)
        seen = await page.say(ASK_WEATHER)
        await there.gateway.restart()
        await page.output(tool="get_weather", toolCallId=seen.tools[0]["toolCallId"], output="sunny")
        assert '"sunny"' in (await page.again()).text


async def test_a_picture_of_the_person_reaches_the_model_once(tmp_path: Path, pages: Pages) -> None:
    model = Heard()
    async with ui_front(tmp_path, pages, model) as there:
        page = await there.page()
        seen = await page.say("Look.", files=[{"type": "file", "mediaType": "image/png", "url": DOT}])
        assert seen.text == "yes"
        (asked,) = [one for one in model.heard[0] if isinstance(one, UserMessage)]
        assert isinstance(asked.parts[0], Media)
        await page.say("And now?")  # with the same history again: nothing is said twice
        assert await there.said() == ["Look.", "yes", "And now?", "yes"]


class Photo:
    """A tool that gives a picture."""

    spec = ToolSpec("photo", "Takes one.", {"type": "object", "properties": {}})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Success:
        return Success("a photo", (Attachment("image", "image/png", b64decode(DOT.partition(",")[2])),))


async def test_a_picture_of_a_tool_is_a_file_also_after_a_reload(there: UiFront) -> None:
    there.parts.app.registry.register(Photo(), Origin("plugin", "tests"))
    page = await there.page(body={"tools": WEATHER}, auto=False)
    seen = await page.say("call photo\nthen\nHere.\ncall get_weather\nthen\nDone.")
    (file,) = [part for part in seen.last["parts"] if part["type"] == "file"]
    assert (file["url"], file["mediaType"]) == (DOT, "image/png")
    reloaded = await (await there.page()).resume()
    assert [part for part in reloaded.last["parts"] if part["type"] == "file"] == [file]
    await page.output(tool="get_weather", toolCallId=seen.tools[1]["toolCallId"], output="sunny")
    seen = await page.again()
    assert seen.text == "Here.Done." and len([one for one in seen.last["parts"] if one["type"] == "file"]) == 1


class Counts(Slow):
    """A model that thinks, and says what it used."""

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        yield ThinkingDelta("Hm.")
        yield TextDelta("Yes.")
        yield Replied(AssistantMessage((Thinking("Hm."), Text("Yes.")), "end", "counts", Usage(10, 5, 4, 3)))


async def test_thinking_and_what_was_used_are_told(tmp_path: Path, pages: Pages) -> None:
    async with ui_front(tmp_path, pages, Counts()) as there:
        seen = await (await there.page()).say("Hello.")
        assert seen.shape == ["step-start", "reasoning done", "text done"]
        used = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cachedInputTokens": 4, "reasoningTokens": 3}
        assert seen.last["metadata"] == {"model": "counts", "usage": used}


class TestVersions:
    async def test_regenerate_makes_a_version(self, tmp_path: Path, pages: Pages) -> None:
        count = 0

        def answer(_: Any) -> str:
            nonlocal count
            count += 1
            return f"answer {count}"

        async with ui_front(tmp_path, pages, Heard(answer)) as there:
            page = await there.page()
            first = await page.say("one")
            second = await page.regenerate()
            assert (first.text, second.text) == ("answer 1", "answer 2")
            assert len(second.messages) == 2
            assert await there.said() == ["one", "answer 2"]
            await page.say("two")
            third = await page.regenerate(messageId=second.last["id"])
            assert (third.text, len(third.messages)) == ("answer 4", 2)
            assert await there.said() == ["one", "answer 4"]

    async def test_an_edited_message_makes_a_version_also_with_the_same_words(self, there: UiFront) -> None:
        page = await there.page()
        first = await page.say("one")
        await page.say("two")
        edited = await page.say("ONE", messageId=first.messages[0]["id"])
        assert (edited.text, await there.said()) == ("ONE", ["ONE", "ONE"])
        await page.say("two")
        again = await page.say("ONE", messageId=first.messages[0]["id"])
        assert (again.text, await there.said()) == ("ONE", ["ONE", "ONE"])

    async def test_regenerate_stops_the_answer_that_runs(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            page = await there.page()
            running = page.begin("one")
            await page.until(has="Well")
            await page.stop()  # the page alone stops: the run goes on
            await soon(running)
            assert not model.was_stopped.is_set()
            again = asyncio.ensure_future(page.regenerate())
            await soon(model.was_stopped.wait())
            model.may_go_on.set()
            assert (await soon(again)).text == "Well, done"
            assert await there.said() == ["one", "Well, done"]


async def test_two_chats_at_once_do_not_mix(tmp_path: Path, pages: Pages) -> None:
    async with ui_front(tmp_path, pages) as there:
        both = [await there.page(name) for name in ("a", "b")]
        seen = await asyncio.gather(*(page.say(name) for page, name in zip(both, ("Anna", "Ben"), strict=True)))
        assert [one.text for one in seen] == ["Anna", "Ben"]
        found = await there.parts.store.conversations.page(owner="operator")
        assert len(found.sessions) == 2


async def test_the_example_brings_a_tool_and_says_yes(tmp_path: Path, pages: Pages) -> None:
    program = tmp_path / "program"
    program.mkdir()
    (program / "use_chat.ts").write_bytes((ROOT / "examples" / "use_chat.ts").read_bytes())
    (program / "node_modules").symlink_to(ROOT / "tests" / "node" / "node_modules")
    asks: Any = {"agents": {"General": {"mode": "ask_destructive"}}}
    async with ui_front(tmp_path, pages, **asks) as there:
        process = await asyncio.create_subprocess_exec(
            str(NODE),
            "use_chat.ts",
            "call local_time\nthen\nIt is {results}",
            cwd=program,
            env={**os.environ, "HANDSPAN_URL": there.gateway.url, "HANDSPAN_TOKEN": there.gateway.token},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, errors = await soon(process.communicate())
        assert b"It is [" in said and b'"result":"' in said, (said, errors)
