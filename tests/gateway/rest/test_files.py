"""Names of files of the workspace over REST: behind the guards of the file tools, for who may use these."""

import pytest

from tests.gateway.rest.served import Rest, RestClient, is_error

pytestmark = pytest.mark.anyio


async def test_names_of_a_folder_come_by_name_and_say_which_are_folders(client: RestClient, rest: Rest) -> None:
    (rest.settings.workspace / "notes").mkdir()
    (rest.settings.workspace / "notes/to do.txt").write_text("buy bread")
    (rest.settings.workspace / "a.txt").write_text("a")
    found = (await client.get("/api/files")).json()
    assert found == {
        "entries": [{"name": "a.txt", "is_folder": False}, {"name": "notes", "is_folder": True}],
        "total": 2,
    }
    inner = (await client.get("/api/files?folder=notes")).json()
    assert inner["entries"] == [{"name": "to do.txt", "is_folder": False}]


@pytest.mark.parametrize("folder", ["..", "/etc", "a.txt", "missing", "notes/../..", "%00", "link", "x" * 300])
async def test_what_leads_out_of_the_workspace_or_is_no_folder_is_not_found(
    client: RestClient, rest: Rest, folder: str
) -> None:
    (rest.settings.workspace / "a.txt").write_text("a")
    (rest.settings.workspace / "link").symlink_to("/etc")
    assert is_error(await client.get(f"/api/files?folder={folder}"), 404, "not_found")


async def test_an_agent_that_may_not_list_folders_shows_no_names(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Narrow", "tools": ["get_current_time"]})
    assert is_error(await client.get("/api/files?agent=Narrow"), 403, "forbidden")
    assert is_error(await client.get("/api/files?agent=Nobody"), 404, "not_found")


async def test_the_token_of_a_device_gets_no_names(client: RestClient, rest: Rest) -> None:
    answer = await client.get("/api/files", token=rest.device_token)
    assert is_error(answer, 403, "forbidden")
