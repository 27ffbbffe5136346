"""The contract: every route is in the document, and the gateway keeps to it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from handspan.gateway.entry.auth import is_open
from handspan.gateway.entry.rate_limit import TryLimit
from handspan.gateway.http.routing import Router
from handspan.gateway.paths import OPEN_ANSWERS
from handspan.gateway.rest.door import operations
from handspan.gateway.rest.openapi import document
from tests.gateway.entry.entering import scope
from tests.gateway.raw_clients import running
from tests.gateway.rest.served import Rest, RestClient, serving, settings
from tests.thoroughness import IS_DEEP, examples

pytestmark = pytest.mark.anyio

PHASES = "coverage,fuzzing" if IS_DEEP else "coverage"
"""The values at the borders of each parameter in `make test`; any others, too, in `make chaos`."""


async def test_every_route_is_in_the_document(client: RestClient, rest: Rest) -> None:
    answer = await client.get("/openapi.json")
    told = {(path, method) for path, methods in answer.json()["paths"].items() for method in methods}
    mounted = {(path, method.lower()) for path, methods in rest.router.table.items() for method in methods}
    assert told == mounted and len(told) > 40


async def test_every_http_route_that_the_gateway_serves_is_in_the_document(tmp_path: Path) -> None:
    async with running(tmp_path) as place:
        headers = {"authorization": f"Bearer {place.gateway.operator_token}"}
        async with httpx2.AsyncClient(timeout=60, trust_env=False) as client:
            answer = await client.get(f"{place.url}/openapi.json", headers=headers)
        served = place.gateway.doors["rest"].answer
    told = {(path, method.upper()) for path, methods in answer.json()["paths"].items() for method in methods}
    assert isinstance(served, Router)
    mounted = {(path, method) for path, methods in served.table.items() for method in methods}
    assert mounted <= told, mounted - told
    assert {("GET", path) for path in OPEN_ANSWERS} <= {(method, path) for path, method in told}


def test_a_route_is_declared_open_exactly_where_it_needs_no_token() -> None:
    for operation in operations():
        asked = scope(operation.path, method=operation.method)
        assert is_open(asked) == (operation.right == "open"), operation.path
    paths: Any = document(list(operations()))["paths"]
    assert paths["/pair"]["post"]["security"] == [] == paths["/signin"]["get"]["security"]
    assert paths["/api/signin"]["post"]["security"] == [{"token": []}]


def test_pages_are_declared_as_html_and_what_leads_elsewhere_without_content() -> None:
    paths: Any = document(list(operations()))["paths"]
    signed_in = paths["/signin"]["get"]["responses"]
    assert "content" not in signed_in["303"]
    assert set(signed_in["403"]["content"]) == set(signed_in["503"]["content"]) == {"text/html"}
    returned = paths["/oauth/callback"]["get"]["responses"]
    assert returned["200"]["content"] == {"text/html": {"schema": {"type": "string"}}}
    assert {"200", "400", "403", "408", "413", "429", "503"} <= set(paths["/pair"]["post"]["responses"])
    assert paths["/pair"]["post"]["requestBody"]["required"] is False


def test_the_document_names_every_operation_once_and_explains_it() -> None:
    paths: Any = document(list(operations()))["paths"]
    described = [operation for methods in paths.values() for operation in methods.values()]
    ids = [one["operationId"] for one in described]
    assert len(set(ids)) == len(ids)
    assert all(one["summary"].endswith(".") for one in described)


@pytest.mark.flood
@pytest.mark.timeout(900)
async def test_schemathesis_finds_no_gap_in_the_contract(tmp_path: Path) -> None:
    async with serving(Rest(settings(tmp_path))) as client:
        parts = client.rest.parts
        client.rest.state.webhook_tries = client.rest.state.push_tries = TryLimit(1_000_000, 60.0)
        parts.auth.tries = TryLimit(1_000_000, 60.0)  # it tries wrong tokens, and shall not be locked out for that
        parts.pairing.tries = TryLimit(1_000_000, 60.0)
        told = ""
        for names in runs():
            told += await run_schemathesis(client, tmp_path, *(f"--include-operation-id={name}" for name in names))
    assert not told, told


_REFUSALS = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]

[[operations]]
include-name = "PUT /api/sessions/{session_id}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 429, "5xx"]

[[operations]]
include-name = "POST /api/schedules"
checks.positive_data_acceptance.expected-statuses = ["2xx", 401, 403, 404, 409, 422, 429, "5xx"]
"""
"""A wrong body may also be refused for its size, before it is read (413). A change of a session that changes nothing is
refused with the words that old clients expect (400), and words that name no time, which no schema can tell (422)."""


def runs() -> list[list[str]]:
    """The operations of each run: in `make test` every fourth one, in `make chaos` all of them."""
    paths: Any = document(list(operations()))["paths"]
    found = sorted(one["operationId"] for methods in paths.values() for one in methods.values())
    apart = {"live", "revoke_token"}  # what never ends, and what would take its own token away
    usual = [name for name in found if name not in apart]
    return [usual, ["revoke_token"]] if IS_DEEP else [usual[::4]]


async def run_schemathesis(client: RestClient, folder: Path, *more: str) -> str:
    """What it has to complain about."""
    (folder / "schemathesis.toml").write_text(_REFUSALS, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{client.url}/openapi.json",
        f"--header=Authorization: Bearer {client.rest.owner_token}",
        "--checks=all",
        f"--phases={PHASES}",
        f"--max-examples={examples(4)}",
        "--generation-deterministic",
        "--no-shrink",
        "--continue-on-failure",
        "--request-timeout=60",
        "--suppress-health-check=all",
        *more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    try:
        told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return told.decode() if process.returncode else ""
