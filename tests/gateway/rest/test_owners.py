"""What belongs to another owner, and what never was, is "not found" at every route with an id (SPEC S6)."""

import re

import pytest

from handspan.core.principals import OPERATOR
from handspan.core.values import JsonObject
from handspan.gateway.rest.door import operations
from tests.gateway.rest.served import RestClient, session_of

pytestmark = pytest.mark.anyio

OWNED = {"session_id", "call_id", "question_id", "artifact_id", "token_id", "label"}
"""The names of ids in paths that an owner has. Agents are the other thing, and are called by `name`."""
BODIES: dict[tuple[str, str], JsonObject] = {
    ("PUT", "/api/sessions/{session_id}"): {"name": "x"},
    ("POST", "/api/sessions/{session_id}/skills"): {"name": "x", "on": True},
    ("POST", "/api/sessions/{session_id}/compact"): {"keep": "x"},
    ("PATCH", "/api/agents/{name}"): {"description": "x"},
    ("POST", "/api/agents/{name}/clone"): {"name": "Copy"},
    ("PATCH", "/api/agents/{name}/tools"): {"on": ["read_file"]},
    ("PUT", "/api/devices/{label}"): {"label": "x"},
    ("POST", "/api/questions/{question_id}/answer"): {"decision": "allow"},
}
ROUTES = [
    (one.method, one.path)
    for one in operations()
    if OWNED & set(re.findall(r"{(\w+)}", one.path)) or one.path.startswith("/api/agents/{name}")
]


async def test_the_table_has_every_route_with_an_id_of_an_owner() -> None:
    assert len(ROUTES) >= 25 and BODIES.keys() <= set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=[f"{method} {path}" for method, path in ROUTES])
async def test_what_is_not_the_callers_own_is_not_found(client: RestClient, method: str, path: str) -> None:
    session = await session_of(client.rest, OPERATOR.owner)
    client.rest.devices.connect(OPERATOR.owner, "phone", "", "token")
    (token, *_) = (await client.get("/api/tokens")).json()["tokens"]
    artifact = (await client.post("/api/artifacts", content=b"x")).json()["id"]
    await client.post("/api/tools/current_time/call", {"args": {}})
    call = (await client.get("/api/calls")).json()["calls"][0]["id"]
    await client.post("/api/agents", {"name": "Mine"})
    ids = {"session_id": session, "label": "phone", "token_id": token["id"], "artifact_id": artifact, "name": "Mine"}
    ids |= {"call_id": call, "question_id": "q", "seq": "1", "index": "0", "branch": "1"}
    for known in (ids, dict.fromkeys(ids, "0" * 32) | {"name": "Nobody"}):
        answered = await client.stranger(method, path.format(**known), BODIES.get((method, path)))
        assert (answered.status_code, answered.json()["code"]) == (404, "not_found"), (known, answered.text)
