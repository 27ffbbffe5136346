"""What the gateway says to its operator alone: what works, and the settings in force."""

from pathlib import Path

import pytest

from handspan.core.values import JsonObject
from tests.gateway.rest.served import Rest, RestClient, is_error, serving, settings

pytestmark = pytest.mark.anyio


async def test_only_the_operator_hears_of_folders_and_settings(client: RestClient, rest: Rest) -> None:
    for method, path in (("GET", "/api/doctor"), ("GET", "/api/settings"), ("POST", "/api/sources/reload")):
        assert is_error(await client.ask(method, path, token=rest.chat_token), 403, "forbidden")
        assert (await client.ask(method, path)).status_code == 200


async def test_a_workspace_that_can_not_be_written_has_a_remedy_and_the_journal_stays_empty(
    client: RestClient, rest: Rest
) -> None:
    folder = rest.settings.workspace
    for folder_is_there in (True, False):
        if not folder_is_there:
            folder.rename(folder.with_name("moved"))
            folder.write_text("a file in its place")
        findings = {one["what"]: one for one in (await client.get("/api/doctor")).json()["findings"]}
        assert findings["workspace"]["ok"] is folder_is_there
        assert str(folder) in findings["workspace"]["found"]
        assert bool(findings["workspace"]["remedy"]) is not folder_is_there
    assert not list(folder.with_name("moved").iterdir())
    assert (await client.get("/api/calls")).json()["calls"] == []


async def test_settings_are_shown_without_secrets(tmp_path: Path) -> None:
    own: JsonObject = {"mine": {"base_url": "http://127.0.0.1:9/v1", "key": "sk-secret"}}
    async with serving(Rest(settings(tmp_path, models=own))) as client:
        shown = await client.get("/api/settings")
    rows = {row["key"]: row["value"] for row in shown.json()["settings"]}
    assert rows["models.mine.key"] == "…" and "sk-secret" not in shown.text
    assert not shown.json()["is_changed"]
