"""A caller over REST that comes back with the same key until its call has a result, whatever happens to the gateway."""

import asyncio
from typing import Final, cast

import httpx2

from handspan.core.values import Json, JsonObject
from handspan.testing.device import NotSaid

_BETWEEN_TRIES: Final = 0.02
_WAIT: Final = 5
PATIENCE: Final = 60.0


class RestCaller:
    """Calls tools by `POST /api/tools/{name}/call`."""

    def __init__(self, url: str, token: str) -> None:
        self._client = httpx2.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE,
            trust_env=False,
            limits=httpx2.Limits(max_connections=200, max_keepalive_connections=200),
        )
        self.tries = 0
        """Requests that broke, or were refused because the gateway stops."""

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def call(self, name: str, arguments: JsonObject, key: str) -> tuple[str, JsonObject]:
        """The call's id, and its envelope."""
        headers = {"Idempotency-Key": key}
        answer = await self._asked("POST", f"/api/tools/{name}/call", headers=headers, json={"args": arguments})
        call_id = answer.headers["location"].rpartition("/")[2]
        if answer.status_code == 200:
            return call_id, answer.json()
        return call_id, await self.result(call_id)

    async def result(self, call_id: str) -> JsonObject:
        """The envelope of a call, as soon as there is one."""
        async with asyncio.timeout(PATIENCE):
            while True:
                shown = (await self._asked("GET", f"/api/calls/{call_id}", params={"wait": _WAIT})).json()
                if shown["result"] is not None:
                    return cast(JsonObject, shown["result"])

    async def get(self, path: str) -> Json:
        """What is there."""
        return cast(Json, (await self._asked("GET", path)).json())

    async def _asked(self, method: str, path: str, **more: object) -> httpx2.Response:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await self._client.request(method, path, **more)  # type: ignore[arg-type]  # passed on
                except httpx2.TransportError:
                    self.tries += 1
                else:
                    if answer.status_code in (200, 202):
                        return answer
                    if answer.status_code != 503:
                        raise NotSaid(f"{method} {path} was answered with {answer.status_code}: {answer.text[:300]}")
                    self.tries += 1
                await asyncio.sleep(_BETWEEN_TRIES)
