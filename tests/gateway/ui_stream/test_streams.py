"""Streams that break off, are stopped or resumed, and requests that are refused (SPEC F5, S5)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.images import ImageReader
from handspan.core.tool import ToolSpec
from handspan.models.model import ModelError, ModelEvent, Projection, TextDelta
from handspan.testing.process import SPOKEN, GatewayProcess
from tests.gateway.openai.kit import Slow
from tests.gateway.openai.test_killed import TOOL
from tests.gateway.ui_stream.kit import ASK_WEATHER, WEATHER, Page, Pages, UiFront, ui_front
from tests.waiting import soon, until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


SAID: Any = {"role": "user", "parts": [{"type": "text", "text": "a"}]}


def http(there: UiFront, token: str = "") -> httpx2.AsyncClient:
    """A client that knows nothing of the AI SDK."""
    bearer = {"authorization": f"Bearer {token or there.gateway.token}"}
    return httpx2.AsyncClient(base_url=there.gateway.url, headers=bearer, timeout=60)


class Fails(Slow):
    """A model that can't answer."""

    async def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        yield TextDelta("Well, ")
        raise ModelError("auth", "The key is wrong.")


class TestResume:
    async def test_another_page_gets_the_whole_answer_that_is_being_made(self, there: UiFront) -> None:
        held = there.hold()
        page = await there.page()
        running = page.begin("One.\ncall hold\nthen\nTwo.")
        await soon(held.is_at_work.wait())
        known = (await page.until(has="dynamic-tool")).messages
        other, reloaded = await there.page(), await there.page(messages=known)
        following = [asyncio.ensure_future(one.resume()) for one in (other, reloaded)]
        for one in (other, reloaded):
            await one.until(has="dynamic-tool")
        held.may_end.set()
        first, second, third = await soon(asyncio.gather(running, *following))
        assert first.messages == third.messages
        assert second.messages == first.messages[1:]
        assert first.text == "One.Two." and held.count == 1

    async def test_a_page_whose_connection_broke_goes_on_where_it_was(self, there: UiFront) -> None:
        held = there.hold()
        page = await there.page()
        running = page.begin("One.\ncall hold\nthen\nTwo.")
        await soon(held.is_at_work.wait())
        await page.until(has="dynamic-tool")
        await page.stop()
        await soon(running)
        held.may_end.set()
        again = await page.again()  # the message of the assistant goes on
        assert again.text == "One.Two." and len(again.messages) == 2 and held.count == 1
        assert again.shape == ["step-start", "text done", "dynamic-tool output-available", "step-start", "text done"]

    async def test_the_middle_of_a_text_is_told_whole(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            page = await there.page()
            running = page.begin("one")
            await page.until(has="Well")
            known = (await page.look()).messages
            other, partial = await there.page(), await there.page(messages=known)
            following = [asyncio.ensure_future(other.resume()), asyncio.ensure_future(partial.again())]
            await other.until(has="Well")
            await until(lambda: _listeners(there) >= 2)
            model.may_go_on.set()
            seen = await soon(asyncio.gather(running, *following))
            assert [one.text for one in seen] == ["Well, done"] * 3
            assert model.requests == 1

    async def test_calls_that_wait_for_the_page_are_asked_again_after_a_reload(self, there: UiFront) -> None:
        await (await there.page(body={"tools": WEATHER}, auto=False)).say(ASK_WEATHER)
        page = await there.page(body={"tools": WEATHER}, client={"get_weather": {"output": "sunny"}})
        seen = await page.resume()
        assert seen.called == ["get_weather"] and '"sunny"' in seen.text

    async def test_where_nothing_runs_nothing_is_told(self, there: UiFront) -> None:
        async with http(there) as client:
            assert (await client.get("/ui/General/unknown/stream")).status_code == 204
        page = await there.page()
        await page.say("Hello.")
        seen = await page.resume()
        assert seen.requests[-1][:2] == ["GET", 204] and seen.text == "Hello."

    async def test_a_token_of_another_client_follows_nothing(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            page = await there.page()
            running = page.begin("one")
            await page.until(has="Well")
            other = await there.parts.auth.issue("operator", ("chat",), "other")
            async with http(there, other) as client:
                assert (await client.get("/ui/c1/stream")).status_code == 204
                assert (await client.post("/ui/c1/stop")).json() == {"stopped": False}
            model.may_go_on.set()
            assert (await soon(running)).text == "Well, done"


class TestStop:
    async def test_closing_the_page_lets_the_run_go_on(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            page = await there.page()
            running = page.begin("one")
            await page.until(has="Well")
            await page.stop()
            await soon(running)
            model.may_go_on.set()
            await until(lambda: _is_answered(there))
            assert await there.said() == ["one", "Well, done"] and not model.was_stopped.is_set()

    async def test_stop_ends_the_run_and_its_stream(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            page = await there.page()
            running = page.begin("one")
            await page.until(has="Well")
            async with http(there) as client:
                assert (await client.post("/ui/c1/stop")).json() == {"stopped": True}
                await soon(model.was_stopped.wait())
                seen = await soon(running)
                assert (seen.text, seen.status) == ("Well, ", "ready")
                await until(lambda: _is_answered(there))
                assert (await client.post("/ui/c1/stop")).json() == {"stopped": False}

    async def test_a_call_that_is_stopped_has_an_end_on_the_page(self, there: UiFront) -> None:
        held = there.hold()
        page = await there.page()
        running = page.begin("call hold")
        await soon(held.is_at_work.wait())
        await page.until(has="dynamic-tool")
        async with http(there) as client:
            await client.post("/ui/c1/stop")
        seen = await soon(running)
        assert seen.tools[0]["state"] == "output-error" and len(seen.requests) == 1


class TestRefused:
    async def test_a_wrong_token_and_an_unknown_agent(self, there: UiFront) -> None:
        seen = await (await there.page(token="wrong")).say("Hello.")
        assert seen.status == "error" and '"unauthorized"' in seen.error
        seen = await (await there.page(agent="Nobody")).say("Hello.")
        assert "There is no agent 'Nobody'" in seen.error
        bound = await there.parts.auth.issue("operator", ("chat", "agent:Nobody"), "x")
        assert "It may use: none" in (await (await there.page(agent="General", token=bound)).say("Hello.")).error

    @pytest.mark.parametrize(
        ("body", "status", "says"),
        [
            ({"messages": []}, 400, "id"),
            ({"id": "c"}, 400, "no messages"),
            ({"id": "c", "messages": []}, 400, "no message of a person"),
            ({"id": "", "messages": [SAID]}, 400, "1 to 256"),
            ({"id": "c", "messages": [{"role": "user", "parts": []}]}, 400, "empty"),
            ({"id": "c", "messages": [{"role": "robot", "parts": []}]}, 400, "role"),
            ({"id": "c", "messages": [{"role": "user", "parts": [{"type": "file", "url": "data:,"}]}]}, 200, ""),
            (
                {"id": "c", "messages": [{"role": "user", "parts": [{"type": "file", "mediaType": "audio/wav"}]}]},
                400,
                "Audio",
            ),
            ({"id": "c", "message": {"role": "user", "parts": []}, "trigger": "regenerate-message"}, 400, "messages"),
            (
                {
                    "id": "c",
                    "tools": [{"name": ""}],
                    "messages": [SAID],
                },
                400,
                "",
            ),
        ],
    )
    async def test_a_body_that_cannot_be_used_says_why(
        self, there: UiFront, body: dict[str, Any], status: int, says: str
    ) -> None:
        async with http(there) as client:
            answer = await client.post("/ui", json=body)
            assert (answer.status_code, says in answer.text) == (status, True), answer.text

    async def test_other_paths_methods_and_large_bodies(self, tmp_path: Path, pages: Pages) -> None:
        async with ui_front(tmp_path, pages, fronts={"request_bytes": 2000}) as there, http(there) as client:
            assert (await client.get("/ui/General")).status_code == 405
            assert (await client.get("/ui/a/b/c/d")).status_code == 404
            answer = await client.post("/ui", json={"id": "c", "messages": [], "more": "x" * 3000})
            assert answer.status_code == 413 and "fronts.request_bytes" in answer.text

    async def test_an_error_of_the_model_is_an_error_of_the_chat(self, tmp_path: Path, pages: Pages) -> None:
        async with ui_front(tmp_path, pages, Fails()) as there:
            seen = await (await there.page()).say("Hello.")
            assert (seen.status, seen.error) == ("error", "The key is wrong.")

    async def test_a_token_that_is_revoked_ends_its_streams(self, tmp_path: Path, pages: Pages) -> None:
        model = Slow()
        async with ui_front(tmp_path, pages, model) as there:
            token = await there.parts.auth.issue("operator", ("chat",), "x")
            page = await there.page(token=token)
            running = page.begin("one")
            await page.until(has="Well")
            (record,) = [one for one in await there.parts.store.tokens.all(owner="operator") if one.label == "x"]
            await there.parts.auth.revoke(record.hash, "operator")
            assert "revoked" in (await soon(running)).error
            model.may_go_on.set()


async def test_a_gateway_that_is_killed_goes_on_with_the_run(tmp_path: Path, pages: Pages) -> None:
    tools, flag = tmp_path / "config" / "tools", tmp_path / "flag"
    tools.mkdir(parents=True)
    (tools / "wait.py").write_text(TOOL)
    async with GatewayProcess(tmp_path, "--config", str(tmp_path / "config"), model=SPOKEN) as gateway:
        options: Any = {"id": "c1", "api": f"{gateway.url}/ui", "token": gateway.token}
        await soon(pages.order("killed", "open", **options))
        page = Page(pages, "killed")
        running = page.begin(f'Wait.\ncall wait_here {{"path": "{flag}"}}\nthen\n{{results}}')
        await until(flag.exists)
        await page.until(has="dynamic-tool")
        await gateway.kill()
        assert (await soon(running)).status == "error"
        flag.unlink()
        await gateway.start()
        seen = await page.resume()
        assert "unknown_outcome" in seen.text and not flag.exists()
        assert len(seen.messages) == 2 and seen.tools[0]["state"] == "output-error"
        assert (await page.resume()).requests[-1][:2] == ["GET", 204]


def _listeners(there: UiFront) -> int:
    return sum(len(one.listeners) for one in there.parts.sessions._sessions.values())


async def _is_answered(there: UiFront) -> bool:
    page = await there.parts.store.conversations.page(owner="operator")
    return [(one.state, one.length) for one in page.sessions] == [("idle", 2)]
