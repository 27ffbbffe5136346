"""One bucket of an S3-compatible storage: objects by their key, put and read in pieces."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from handspan.config.secrets import read_secret
from handspan.config.store_settings import BucketSettings
from handspan.core.errors import ConfigError, StoreError, ToolError
from handspan.core.late_imports import httpx2
from handspan.net.exchange import describe_http_error
from handspan.net.guard import NetGuard
from handspan.store.bodies import Body, digest_of, pieces_of
from handspan.store.objects.signature import EMPTY_DIGEST, SigningKey, escape_path

_TRIES: Final = 3
_FIRST_DELAY: Final = 0.2
_PASSING: Final = frozenset((408, 429, 500, 502, 503, 504))
"""Statuses of failures that may pass: another try may succeed."""
_MAX_ERROR: Final = 16 * 1024
"""Bytes that are read of an error's body."""
_CONNECTIONS: Final = 16
_CODE: Final = r"<Code>([A-Za-z0-9]{1,60})</Code>"
_ADVICE: Final = {
    "NoSuchBucket": "there is no such bucket. Create it, or correct `store.objects.bucket`",
    "InvalidAccessKeyId": "it does not know the key. Correct `store.objects.access_key`",
    "SignatureDoesNotMatch": "it refuses the signature. Correct `store.objects.secret_key`",
    "AccessDenied": "this key may not do that. Let it put, get and delete objects of the bucket",
    "RequestTimeTooSkewed": "its clock and this computer's differ too much. Set the clock",
    "AuthorizationHeaderMalformed": "it expects another region. Correct `store.objects.region`",
    "PermanentRedirect": "the bucket is at another address. Correct `store.objects.url` and `store.objects.region`",
    "QuotaExceeded": "it is full. Make room",
    "XMinioStorageFull": "it is full. Make room",
}


class Bucket:
    """Objects in one bucket.

    Requests go only to the address in the operator's settings, through the network guard (SPEC S2).
    """

    def __init__(self, settings: BucketSettings, key: SigningKey, guard: NetGuard) -> None:
        parts = urlsplit(settings.url)
        self.name = f"{parts.scheme}://{parts.netloc}/{settings.bucket}"
        """For people: where the objects are."""
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._base = f"{parts.path.rstrip('/')}/{settings.bucket}"
        self._prefix = settings.prefix
        self._key = key
        self._guard = guard.trust(settings.url)
        self._timeout = settings.timeout
        self._client: httpx2.AsyncClient | None = None

    async def put(self, key: str, body: Body) -> None:
        """Store an object, the whole of it or nothing. Raises `StoreError`."""
        headers = {"content-length": str(body.size), "content-type": "application/octet-stream"}
        await self._send("PUT", key, headers, body)

    async def get(self, key: str, begin: int, end: int) -> bytes | None:
        """Return the bytes from `begin` up to `end`, or None if there is no such object. Raises `StoreError`."""
        if begin >= end:
            return b""
        found = await self._send("GET", key, {"range": f"bytes={begin}-{end - 1}"}, limit=end - begin + 1)
        if found is not None and len(found) != end - begin:
            raise self._error("it does not answer with the range that was asked for. Use a storage that does")
        return found

    async def remove(self, key: str) -> None:
        """Remove an object; a missing object counts as removed. Raises `StoreError`."""
        await self._send("DELETE", key, {})

    async def check(self) -> str:
        """Return why the bucket can't be used; empty when it answers."""
        try:
            found = await self._send("HEAD", None, {})
        except StoreError as error:
            return error.message
        return "" if found is not None else self._error(_ADVICE["NoSuchBucket"]).message

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _send(
        self, method: str, key: str | None, headers: dict[str, str], body: Body | None = None, limit: int = _MAX_ERROR
    ) -> bytes | None:
        """Send a request, several times if a failure may pass. Return the answer's body; None if there is no object."""
        digest = EMPTY_DIGEST if body is None else await digest_of(body)
        path = escape_path(self._base if key is None else f"{self._base}/{self._prefix}{key}")
        for attempt in range(1, _TRIES + 1):
            try:
                status, answer = await self._exchange(method, path, headers, digest, body=body, limit=limit)
            except StoreError:
                if attempt == _TRIES:
                    raise
            else:
                if status < 300:
                    return answer
                if status == 404 and _code_of(answer) != "NoSuchBucket":
                    return None
                if attempt == _TRIES or status not in _PASSING:
                    raise self._refusal(status, answer)
            await asyncio.sleep(_FIRST_DELAY * 2 ** (attempt - 1))
        raise AssertionError("the last try returns or raises")

    async def _exchange(
        self, method: str, path: str, headers: dict[str, str], digest: str, body: Body | None, limit: int
    ) -> tuple[int, bytes]:
        """Send one signed request. Return the status and the body of the answer. Raises `StoreError`."""
        signed = self._key.sign(method, path, {"host": self._host, **headers}, digest, now=datetime.now(UTC))
        content: AsyncIterator[bytes] | None = None if body is None else pieces_of(body)
        try:
            async with AsyncExitStack() as stack:
                client = await self._open_client()
                url = httpx2.URL(self._origin).copy_with(raw_path=path.encode())
                response = await stack.enter_async_context(client.stream(method, url, headers=signed, content=content))
                is_good = response.status_code < 300
                return response.status_code, await _read(response, limit if is_good else _MAX_ERROR)
        except httpx2.RequestError as error:
            raise self._error(describe_http_error(error).rstrip(".")) from error
        except httpx2.HTTPError as error:
            raise self._error(str(error)) from error
        except StoreError:
            raise
        except ToolError as error:  # the network guard refuses the address
            raise self._error(error.message.rstrip(".")) from error

    async def _open_client(self) -> "httpx2.AsyncClient":
        """Return the client. The first call makes it."""
        if self._client is None:
            self._client = await asyncio.to_thread(
                self._guard.client,
                timeout=self._timeout,
                connections=_CONNECTIONS,
                headers={"accept-encoding": "identity"},
            )
        return self._client

    def _refusal(self, status: int, answer: bytes) -> StoreError:
        """Return the error for an answer that refuses, with a remedy where one is known."""
        code = _code_of(answer)
        unknown = {401: "InvalidAccessKeyId", 403: "AccessDenied", 301: "PermanentRedirect", 307: "PermanentRedirect"}
        advice = _ADVICE.get(code) or _ADVICE.get(unknown.get(status, ""))
        return self._error(advice or f"it answered {status} {code}".rstrip())

    def _error(self, reason: str) -> StoreError:
        return StoreError(f"The object storage {self.name} can't be used: {reason}.")


def bucket_of(settings: BucketSettings, guard: NetGuard) -> Bucket | None:
    """Return the bucket of these settings; None without an address. Raises `ConfigError` when a part is missing."""
    if not settings.url:
        return None
    for name in ("bucket", "access_key", "secret_key"):
        if not getattr(settings, name):
            raise ConfigError(f"store.objects.{name} is missing: store.objects.url needs it.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}", settings.bucket):
        raise ConfigError(f"store.objects.bucket: {settings.bucket!r} is no name of a bucket.")
    access = read_secret(settings.access_key, os.environ, "store.objects.access_key")
    secret = read_secret(settings.secret_key, os.environ, "store.objects.secret_key")
    return Bucket(settings, SigningKey(access, secret, settings.region), guard)


async def _read(response: "httpx2.Response", limit: int) -> bytes:
    """Return at most `limit` bytes of the body. If there are more, the connection is not used again."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > limit:
            break
    return bytes(body[:limit])


def _code_of(answer: bytes) -> str:
    """Return the error code in the XML of an answer; empty without one."""
    found = re.search(_CODE, answer[:_MAX_ERROR].decode(errors="replace"))
    return found[1] if found else ""
