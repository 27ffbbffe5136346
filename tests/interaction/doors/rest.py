"""`/api`, one request a call."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from handspan.testing import RunningGateway
from tests.interaction.doors import Asked, Envelope


class RestDoor:
    """Posts calls; one that waits for a person is asked for again."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, *calls: Asked) -> list[Envelope]:
        return await asyncio.gather(*map(self._call, calls))

    async def _call(self, asked: Asked) -> Envelope:
        body = {"args": dict(asked.arguments), "agent": asked.agent}
        answer = await self._http.post(f"/api/tools/{asked.tool}/call", json=body)
        if answer.status_code == 202:
            answer = await self._http.get(answer.headers["location"], params={"wait": "20"})
            envelope: Envelope = answer.json()["result"]
            return envelope
        assert answer.status_code == 200, answer.text
        envelope = answer.json()
        return envelope


@asynccontextmanager
async def open_rest(gateway: RunningGateway) -> AsyncIterator[RestDoor]:
    async with http_client(gateway) as http:
        yield RestDoor(http)


def http_client(gateway: RunningGateway) -> httpx2.AsyncClient:
    """A client with the operator's token."""
    headers = {"authorization": f"Bearer {gateway.token}"}
    return httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60, trust_env=False)
