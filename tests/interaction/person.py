"""The operator at another screen: hears of each question when it is asked, and answers those that were agreed on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

import httpx2

from handspan.testing import RunningGateway
from tests.interaction.doors.rest import http_client


@asynccontextmanager
async def answering(gateway: RunningGateway, decisions: Mapping[str, str]) -> AsyncIterator[None]:
    """Answer questions about these tools; those about others stay open."""
    async with http_client(gateway) as http, http.stream("GET", "/api/live", timeout=None) as live:
        lines = live.aiter_lines()
        while await anext(lines) != "event: ready":
            pass
        task = asyncio.create_task(_answer_each(http, lines, decisions))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _answer_each(http: httpx2.AsyncClient, lines: AsyncIterator[str], decisions: Mapping[str, str]) -> None:
    async for line in lines:
        if line == "event: questions":
            for question in (await http.get("/api/questions")).json()["questions"]:
                if question["tool"] in decisions:
                    body = {"decision": decisions[question["tool"]]}
                    await http.post(f"/api/questions/{quote(question['id'], safe='')}/answer", json=body)
