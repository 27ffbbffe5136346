"""Notifications of several nodes: one key for all, one place first, and each answers for all (SPEC J4, K5)."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.core.principals import OPERATOR
from handspan.core.values import JsonObject
from tests.gateway.push_service import Browser, push_service
from tests.nodes.gateways import ask, nodes_here
from tests.waiting import WAIT, until

pytestmark = pytest.mark.anyio


async def test_a_page_on_one_node_comes_before_browsers_and_any_node_takes_their_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with push_service() as service:
        push: JsonObject = {"hosts": [service.url.removeprefix("http://")], "after": 3600}
        async with nodes_here(tmp_path, "all", "all", push=push) as nodes:
            browser = Browser(service.url)
            await ask(nodes[0], "POST", "/api/push", browser.json)
            keys = [(await ask(node, "GET", "/api/push"))["public_key"] for node in nodes]
            assert keys[0] == keys[1]
            await ask(nodes[0], "POST", "/api/agents", {"name": "Asking", "mode": "ask_always"})

            async def asked(day: str) -> Any:
                body: JsonObject = {"agent": "Asking", "args": {"path": day}}
                return await ask(nodes[0], "POST", "/api/tools/list_directory/call", body)

            headers = {"authorization": f"Bearer {nodes[1].token}"}
            async with (
                httpx2.AsyncClient(timeout=WAIT) as client,
                client.stream("GET", f"{nodes[1].url}/api/live", headers=headers) as page,
            ):
                lines = page.aiter_lines()
                await anext(lines)
                with monkeypatch.context() as patched:  # a busy machine takes longer
                    patched.setattr("handspan.gateway.push.push._SHOWN_SECONDS", WAIT)
                    quiet = (await asked("monday"))["questions"][0]
                    told = nodes[0].gateway.parts.push._asked
                    await until(lambda: quiet in told and told[quiet].shown.is_set())
            await until(lambda: not nodes[1].gateway.parts.live.count(OPERATOR.owner))
            loud = await asked("tuesday")
            [notice] = await service.notices(browser)
            assert notice["tag"] == loud["questions"][0] != quiet
            given = {name: notice[name] for name in ("subscription", "question")}
            answer = {**given, "decision": "deny", "token": notice["deny"]}
            assert (await ask(nodes[1], "POST", "/push/answer", answer, token=""))["accepted"]

            async def is_denied() -> bool:
                shown = await ask(nodes[0], "GET", f"/api/calls/{loud['call_id']}")
                return bool(shown["status"] == "approval_denied")

            await until(is_denied)
