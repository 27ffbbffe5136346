"""The contract: every route is in the document, and the gateway keeps to it."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from handspan.gateway.entry.tries import Tries
from handspan.gateway.rest.openapi import document
from handspan.gateway.rest.routes import operations, routes
from tests.gateway.rest.house import House, Knocking, serving, settings

pytestmark = pytest.mark.anyio


async def test_every_route_is_in_the_document(knocking: Knocking, house: House) -> None:
    answer = await knocking.get("/openapi.json")
    told = {(path, method) for path, methods in answer.json()["paths"].items() for method in methods}
    mounted = {
        (route.path, method.lower()) for route in routes(house.doors) for method in (route.methods or set()) - {"HEAD"}
    }
    assert told == mounted and len(told) > 40


def test_the_document_names_every_operation_once_and_explains_it() -> None:
    paths: Any = document(list(operations()))["paths"]
    described = [operation for methods in paths.values() for operation in methods.values()]
    ids = [one["operationId"] for one in described]
    assert len(set(ids)) == len(ids)
    assert all(one["summary"].endswith(".") for one in described)


@pytest.mark.timeout(150)
async def test_schemathesis_finds_no_gap_in_the_contract(tmp_path: Path) -> None:
    async with serving(House(settings(tmp_path))) as knocking:
        doors = knocking.house.doors
        doors.webhook_tries = Tries(1_000_000, 60.0)
        doors.auth._tries = Tries(1_000_000, 60.0)  # it tries wrong tokens, and shall not be locked out for that
        # What never ends, and what would take its own token away.
        without = ("--exclude-operation-id=live", "--exclude-operation-id=revoke_token")
        told = await run_schemathesis(knocking, tmp_path, *without)
        told += await run_schemathesis(knocking, tmp_path, "--include-operation-id=revoke_token")
    assert not told, told


async def run_schemathesis(knocking: Knocking, folder: Path, *more: str) -> str:
    """What it has to complain about."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{knocking.url}/openapi.json",
        f"--header=Authorization: Bearer {knocking.house.owner_token}",
        "--checks=all",
        "--phases=coverage,fuzzing",
        "--max-examples=3",
        "--generation-deterministic",
        "--no-shrink",
        "--continue-on-failure",
        "--request-timeout=10",
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
