"""Tokens and pairing codes over REST."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.rest.served import Rest, RestClient, is_error, serving, settings

pytestmark = pytest.mark.anyio


async def test_somebody_elses_token_is_one_that_never_was(client: RestClient) -> None:
    theirs = (await client.stranger("GET", "/api/tokens")).json()["tokens"][0]["id"]
    mine = [one["id"] for one in (await client.get("/api/tokens")).json()["tokens"]]
    assert theirs not in mine
    for token in (theirs, "0" * 16, theirs[:4]):
        assert is_error(await client.ask("DELETE", f"/api/tokens/{token}"), 404, "not_found")
    assert (await client.stranger("GET", "/api/tokens")).status_code == 200


@pytest.mark.parametrize("body", [{"scopes": []}, {"scopes": ["root"]}, {"scopes": "chat"}, {"label": "x" * 65}])
async def test_a_token_that_can_not_be_is_not_made(client: RestClient, body: Any) -> None:
    assert is_error(await client.post("/api/tokens", body), 422, "invalid_request")


async def test_a_token_is_made_shown_once_used_and_revoked(client: RestClient) -> None:
    made = await client.post("/api/tokens", {"scopes": ["chat", "chat"], "label": "script"})
    token = made.json()["token"]
    assert made.status_code == 201 and made.json()["scopes"] == ["chat"]
    assert (await client.get("/api/sessions", token=token)).status_code == 200
    listing = await client.get("/api/tokens")
    assert token not in listing.text
    shown = next(one for one in listing.json()["tokens"] if one["label"] == "script")
    assert shown["id"] == made.json()["id"]
    assert shown["revoked"] is None and shown["current"] is False and shown["scopes"] == ["chat"]
    assert [one["label"] for one in listing.json()["tokens"] if one["current"]] == ["operator"]
    assert (await client.ask("DELETE", f"/api/tokens/{shown['id']}")).json() == {"revoked": True, "id": shown["id"]}
    assert is_error(await client.ask("DELETE", f"/api/tokens/{shown['id']}"), 404, "not_found")
    assert (await client.get("/api/sessions", token=token)).status_code == 401
    again = next(one for one in (await client.get("/api/tokens")).json()["tokens"] if one["label"] == "script")
    assert again["revoked"] is not None


async def test_a_pairing_code_becomes_a_token(client: RestClient) -> None:
    made = await client.post("/api/pairing", {})
    assert made.status_code == 201 and made.json()["scopes"] == ["device"] and made.json()["expires_in"] == 300
    assert made.json()["url"] is None  # nobody else reaches a gateway that listens to this computer alone
    assert made.json()["link"] == f"{client.url}/device#code={made.json()['code']}" and made.json()["qr"] is None
    paired = (await client.post("/pair", {"code": made.json()["code"], "label": "phone"})).json()
    token = paired["token"]
    assert paired["message"].endswith("It may do what its scopes say: device.")
    assert (await client.post("/api/artifacts", content=b"x", token=token)).status_code == 201
    assert is_error(await client.get("/api/sessions", token=token), 403, "forbidden")


async def test_a_pairing_code_for_other_computers_is_a_qr_code_too(tmp_path: Path) -> None:
    given = settings(tmp_path, gateway={"port": 0, "host": "0.0.0.0"})
    async with serving(Rest(given)) as client:
        made = (await client.post("/api/pairing", {})).json()
        assert made["link"].startswith(made["url"]) and made["link"].endswith(f"/device#code={made['code']}")
        assert made["qr"].startswith("<svg") and "script" not in made["qr"]
        assert is_error(await client.post("/api/pairing", {}, token=client.rest.chat_token), 403, "forbidden")
