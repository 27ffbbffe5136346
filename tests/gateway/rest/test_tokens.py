"""Tokens and pairing codes over REST."""

from typing import Any

import pytest

from tests.gateway.rest.served import Knocking, is_error

pytestmark = pytest.mark.anyio


async def test_somebody_elses_token_is_one_that_never_was(knocking: Knocking) -> None:
    theirs = (await knocking.stranger("GET", "/api/tokens")).json()["tokens"][0]["id"]
    mine = [one["id"] for one in (await knocking.get("/api/tokens")).json()["tokens"]]
    assert theirs not in mine
    for token in (theirs, "0" * 16, theirs[:4]):
        assert is_error(await knocking.ask("DELETE", f"/api/tokens/{token}"), 404, "not_found")
    assert (await knocking.stranger("GET", "/api/tokens")).status_code == 200


@pytest.mark.parametrize("body", [{"scopes": []}, {"scopes": ["root"]}, {"scopes": "chat"}, {"label": "x" * 65}])
async def test_a_token_that_can_not_be_is_not_made(knocking: Knocking, body: Any) -> None:
    assert is_error(await knocking.post("/api/tokens", body), 422, "invalid_request")


async def test_a_token_is_made_shown_once_used_and_revoked(knocking: Knocking) -> None:
    made = await knocking.post("/api/tokens", {"scopes": ["chat", "chat"], "label": "script"})
    token = made.json()["token"]
    assert made.status_code == 201 and made.json()["scopes"] == ["chat"]
    assert (await knocking.get("/api/sessions", token=token)).status_code == 200
    listing = await knocking.get("/api/tokens")
    assert token not in listing.text
    shown = next(one for one in listing.json()["tokens"] if one["label"] == "script")
    assert shown["id"] == made.json()["id"]
    assert shown["revoked"] is None and shown["current"] is False and shown["scopes"] == ["chat"]
    assert [one["label"] for one in listing.json()["tokens"] if one["current"]] == ["operator"]
    assert (await knocking.ask("DELETE", f"/api/tokens/{shown['id']}")).json() == {"revoked": True, "id": shown["id"]}
    assert is_error(await knocking.ask("DELETE", f"/api/tokens/{shown['id']}"), 404, "not_found")
    assert (await knocking.get("/api/sessions", token=token)).status_code == 401
    again = next(one for one in (await knocking.get("/api/tokens")).json()["tokens"] if one["label"] == "script")
    assert again["revoked"] is not None


async def test_a_pairing_code_becomes_a_token(knocking: Knocking) -> None:
    made = await knocking.post("/api/pairing", {"scopes": ["device"]})
    assert made.status_code == 201 and made.json()["scopes"] == ["device"] and made.json()["expires_in"] == 300
    assert made.json()["url"] is None  # nobody else reaches a gateway that listens to this computer alone
    token = await knocking.rest.parts.pairing.pair(made.json()["code"], "phone", "127.0.0.1")
    assert (await knocking.post("/api/artifacts", content=b"x", token=token)).status_code == 201
    assert is_error(await knocking.get("/api/sessions", token=token), 403, "forbidden")
