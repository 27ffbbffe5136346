"""What the gateway says of itself."""

from pathlib import Path

import pytest

from handspan.core.values import JsonObject
from tests.gateway.rest.served import Rest, RestClient, is_error, serving, settings

pytestmark = pytest.mark.anyio


async def test_status_has_the_fields_that_old_clients_read(client: RestClient) -> None:
    await client.post("/api/tools/memory_write/call", {"args": {"content": "one"}})
    await client.post("/api/tools/memory_write/call", {"args": {"content": "two"}})
    told = (await client.get("/api/status")).json()
    assert (told["provider"], told["model"], told["temperature"], told["paired"]) == ("scripted", "scripted", 1.0, True)
    assert told["gateway_port"] == int(client.url.rpartition(":")[2])
    assert told["memory"] == {"backend": "markdown", "count": 2}
    assert told["agent"] == "General" and told["tools"] > 10
    assert (await client.stranger("GET", "/api/status")).json()["memory"]["count"] == 0


async def test_a_model_of_the_settings_is_told(tmp_path: Path) -> None:
    own: JsonObject = {
        "mine": {"base_url": "http://127.0.0.1:9/v1", "options": {"temperature": 0.5}, "key": "sk-secret"}
    }
    async with serving(Rest(settings(tmp_path, model="mine", models=own), is_inside=True)) as client:
        status = await client.get("/api/status")
        assert (status.json()["provider"], status.json()["model"], status.json()["temperature"]) == (
            "openai-chat",
            "mine",
            0.5,
        )
        models = await client.get("/api/models")
        assert models.json()["models"] == ["mine"] and models.json()["default"]["model"] == "mine"
        assert "sk-secret" not in status.text + models.text


async def test_which_model_answers_for_whom(client: RestClient) -> None:
    await client.post("/api/agents", {"name": "Poet", "model": "ollama:verse"})
    by_agent = (await client.get("/api/models/which?agent=Poet")).json()
    assert (by_agent["model"], by_agent["provider"]) == ("verse", "openai-chat")
    assert (await client.get("/api/models/which")).json()["model"] == "scripted"
    assert (await client.get("/api/models/which?model=offline")).json()["why"]
    assert is_error(await client.get("/api/models/which?model=nothing"), 404, "not_found")
    assert is_error(await client.get("/api/models/which?agent=Nobody"), 404, "not_found")


async def test_the_model_that_the_gateway_was_given_is_the_one_that_is_told(client: RestClient) -> None:
    told = (await client.get("/api/status")).json()
    assert (told["model"], told["provider"]) == ("scripted", "scripted")
    assert told["why"] == "The model is 'scripted', which was given to this gateway."
    assert (await client.get("/api/models/which?model=offline")).json()["model"] == "offline"


async def test_settings_that_name_a_model_that_is_not_there_are_told(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path, model="nothing"), is_inside=True)) as client:
        assert is_error(await client.get("/api/status"), 409, "settings")


async def test_skills_are_listed_with_what_keeps_them_from_being_used(client: RestClient, rest: Rest) -> None:
    folder = rest.settings.workspace / ".handspan" / "skills" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: mine\ndescription: Mine.\n---\nDo it.", encoding="utf-8")
    told = {one["name"]: one for one in (await client.get("/api/skills")).json()["skills"]}
    assert told["summarise-file"]["enabled"] is True
    assert told["mine"]["enabled"] is False and told["mine"]["problems"]
    assert told["mine"]["where"] == "workspace"


async def test_only_the_operator_reads_and_enables_a_skill_of_the_workspace(client: RestClient, rest: Rest) -> None:
    folder = rest.settings.workspace / ".handspan" / "skills" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: mine\ndescription: Mine.\n---\nDo it.", encoding="utf-8")
    read = (await client.get("/api/skills/mine")).json()
    assert (read["name"], read["instructions"]) == ("mine", "Do it.")
    consent = {"enabled": True, "fingerprint": read["fingerprint"]}
    for method, body in (("GET", None), ("PUT", consent)):
        refused = await client.ask(method, "/api/skills/mine", body, token=rest.chat_token)
        assert is_error(refused, 403, "forbidden")
    changed_since = {"enabled": True, "fingerprint": "old"}
    assert is_error(await client.ask("PUT", "/api/skills/mine", changed_since), 409, "not_enabled")
    assert is_error(await client.get("/api/skills/nope"), 404, "not_found")
    for given, changed in ((consent, True), (consent, False), ({"enabled": False}, True), ({"enabled": False}, False)):
        told = (await client.ask("PUT", "/api/skills/mine", given)).json()
        assert told == {"name": "mine", "enabled": given["enabled"], "changed": changed}
    skills = (await client.ask("GET", "/api/skills", token=rest.chat_token)).json()["skills"]
    (listed,) = [one for one in skills if one["name"] == "mine"]
    assert (listed["path"], listed["fingerprint"]) == ("", "")


async def test_usage_is_the_callers_own(client: RestClient) -> None:
    await client.post("/webhook", {"message": "Hi"}, headers={"x-session-id": "s"})
    for by, of in (("model", "scripted"), ("session", "s")):
        told = (await client.get(f"/api/usage?by={by}&session=s&since=2020-01-01")).json()
        assert (told["by"], [one["of"] for one in told["usage"]]) == (by, [of])
        assert told["usage"][0]["replies"] == 1 and told["usage"][0]["input"]["known"] is None
    assert (await client.stranger("GET", "/api/usage?by=day")).json()["usage"] == []
    assert is_error(await client.get("/api/usage?by=owner"), 422, "invalid_request")
    assert is_error(await client.get("/api/usage?since=yesterday"), 422, "invalid_request")
