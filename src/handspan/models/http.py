"""Runs any codec over HTTP: sends the conversation, and reads the answer while it arrives (SPEC M1).

The key is only in the headers of the request: never in an error, a log or a repr (SPEC S5).
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, Protocol, runtime_checkable

import msgspec

from handspan.config.settings import ModelSettings
from handspan.core.errors import ToolError, WireError
from handspan.core.images import ImageReader
from handspan.core.late_imports import httpx2
from handspan.core.messages import AssistantMessage, CallPart
from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.models.json_values import parse_json
from handspan.models.kept_messages import message_events
from handspan.models.model import (
    Codec,
    ModelError,
    ModelEvent,
    NoModel,
    Projection,
    Prompt,
    Queued,
    Replied,
    Retrying,
)
from handspan.models.projection import EncodedProjection
from handspan.models.retry import STREAM_TYPES, FailedTry, RetryPolicy, pause_before_retry, requested_wait
from handspan.models.schema.lowering import Target, Toolset, drop_nulls, lower_all
from handspan.models.sse import SseReader
from handspan.models.wishes import NO_WISHES, ReplyWishes, wished_options
from handspan.net.exchange import network_error
from handspan.net.guard import MAX_CONNECTIONS, NetGuard
from handspan.net.urls import parse_url

SILENCE_SECONDS: Final = 300.0
"""The longest pause between two pieces of an answer: models that think are slow."""

_MAX_ERROR_BYTES: Final = 64 * 1024
_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MAX_QUOTED: Final = 200
_VERSION: Final = re.compile(r"/v\d+\w*")
_HEADERS: Final = {"content-type": "application/json", "accept": "text/event-stream, application/json"}


class HttpModel:
    """A model behind an HTTP API, in the format of `codec`. It keeps connections between turns until it is closed."""

    def __init__(
        self,
        codec: Codec,
        guard: NetGuard,
        given: ModelSettings,
        *,
        target: Target,
        name: str = "",
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        silence: float = SILENCE_SECONDS,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        requests: int = MAX_CONNECTIONS,
    ) -> None:
        """`given` has the address, the model's id and the key itself. `target` is the target of the schema compiler.

        At most so many `requests` run at once; the others wait for their turn and say so (`Queued`).
        """
        self.name = name or given.model
        self.model = given.model
        self.base_url = given.base_url.rstrip("/")
        self._codec = codec
        self._key = _check_key(given.key, self.name)
        self._guard = _trust(guard, given.base_url, self.name)
        self._target = target
        self._options = given.options
        self._stream = given.stream
        self._sees_images = given.images
        self._retry = retry
        self._silence = silence
        self._pause = pause
        self._requests = requests
        self._slots = asyncio.Semaphore(requests)
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HttpModel({self._codec.api!r}, {self.model!r}, base_url={self.base_url!r})"

    def projection(self, instructions: str = "") -> EncodedProjection:
        """Return an empty conversation in this API's format."""
        return EncodedProjection(self._codec, instructions, sees_images=self._sees_images)

    def _body(self, projection: Projection, toolset: Toolset, wishes: ReplyWishes) -> bytes:
        """Return the bytes of the request. Raises `ModelError` for a projection of another API."""
        if not isinstance(projection, EncodedProjection) or projection.api != self._codec.api:
            raise ModelError(
                "rejected", f"This conversation was not encoded for {self._codec.api}: make a new projection."
            )
        projection.check_complete()
        options = self._options
        if wishes is not NO_WISHES:
            is_vendor = parse_url(self.base_url).host.endswith("api.openai.com")
            options = wished_options(self._codec.api, wishes, toolset.tools, options, is_vendor=is_vendor)
        return self._codec.request(
            Prompt(
                self.model,
                projection.instructions,
                projection.items,
                toolset.tools,
                stream=self._stream,
                options=options,
            )
        )

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncGenerator[ModelEvent, None]:
        """Send the conversation. Yield events, `Replied` last; raises `ModelError` when it fails.

        A failed request is sent again only while nothing was yielded, so that a person never sees a text twice.
        """
        return self.reply_as_wished(projection, specs, artifacts, NO_WISHES)

    async def reply_as_wished(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None, wishes: ReplyWishes
    ) -> AsyncGenerator[ModelEvent, None]:
        """Reply as `reply` does, as these wishes say."""
        toolset = lower_all(specs, self._target)
        if artifacts is not None and isinstance(projection, EncodedProjection):
            await projection.fit_images(artifacts)
        body = self._body(projection, toolset, wishes)
        began, tried, is_delivered = time.monotonic(), 0, False
        while True:
            tried += 1
            try:
                async with aclosing(self._attempt(body, toolset.names)) as events:
                    async for event in events:
                        is_delivered = is_delivered or type(event) is not Queued
                        yield Replied(_drop_nulls(event.message, toolset)) if type(event) is Replied else event
                return
            except _AttemptFailed as failed:
                failure = msgspec.structs.replace(failed.failure, is_delivered=is_delivered)
                error = failed.error
                if self._key and self._key in str(error):  # the server may repeat the key in its message
                    error.args = (str(error).replace(self._key, "…"),)
            elapsed, now = time.monotonic() - began, time.time()
            seconds = pause_before_retry(
                failure, self._retry, tried=tried, elapsed=elapsed, now=now, roll=random.random()
            )
            if seconds is None:
                if (wait := requested_wait(failure, now)) is not None:
                    error.wait = wait
                    error.args = (f"{error} It asks to wait {wait:.0f} s.",)
                raise error
            yield Retrying(str(error), seconds)
            await self._pause(seconds)

    async def close(self) -> None:
        """Close the connections. The next `reply` opens new ones."""
        client, loop, self._client = self._client, self._loop, None
        if client is not None and loop is asyncio.get_running_loop():
            await client.aclose()

    async def _attempt(self, body: bytes, names: dict[str, str]) -> AsyncGenerator[ModelEvent, None]:
        """Send the request once. Raises `_AttemptFailed` for every failure."""
        url = join_url(self.base_url, self._codec.path(self.model, stream=self._stream))
        headers = {**_HEADERS, **self._codec.headers(self._key)}
        client = await self._open_client()
        slots, has_begun = self._slots, False
        if slots.locked():
            yield Queued(self._requests)
        try:
            async with slots, client.stream("POST", url, headers=headers, content=body) as response:
                has_begun = response.status_code == 200
                try:
                    async with aclosing(self._events(response, names)) as events:
                        async for event in events:
                            yield event
                except ModelError as fault:
                    given = {name.lower(): value for name, value in response.headers.items()}
                    wait = None if has_begun else fault.wait
                    failure = FailedTry(fault.fault, response.status_code, given, requested=wait)
                    raise _AttemptFailed(fault, failure) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as cause:
            if has_begun:
                is_silent = isinstance(cause, httpx2.TimeoutException)
                why = f"nothing more came for {self._silence:.0f} s" if is_silent else "the connection ended too early"
                error = ModelError("cut", f"The answer broke off: {why} ({parse_url(url).host}). Try again.")
            else:
                error = ModelError("network", network_error(parse_url(url), cause).message)
            raise _AttemptFailed(error, FailedTry(error.fault)) from None
        except ToolError as cause:  # from the network guard: DNS, or a host that is not allowed
            failure = FailedTry("network", is_sent=cause.code == "network_error")
            raise _AttemptFailed(ModelError("network", cause.message), failure) from None

    async def _events(self, response: "httpx2.Response", names: dict[str, str]) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of a stream, or of an answer that came whole."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != 200:
            body = await _read_head(response, _MAX_ERROR_BYTES)
            codec = self._codec
            message = codec.failed_reply(body, names, self.model) if isinstance(codec, _HasFailedReplies) else None
            if message is None:
                raise self._error_of(response, body)
        elif kind in STREAM_TYPES or (not kind and self._stream):
            async with aclosing(self._read_stream(response, names)) as events:
                async for event in events:
                    yield event
            return
        elif kind in ("application/json", ""):  # also when we asked for a stream: some servers can't stream
            message = self._codec.decode(await _read_json_body(response), names, self.model)
        else:
            head = await _read_head(response, _MAX_QUOTED)
            raise _unreadable(f"it sent {kind!r} that begins with {head.decode('utf-8', 'replace')!r}")
        for event in message_events(message):
            yield event

    async def _read_stream(
        self, response: "httpx2.Response", names: dict[str, str]
    ) -> AsyncGenerator[ModelEvent, None]:
        """Yield what the model says, and at the end the whole reply. Raises `ModelError` if it is cut off."""
        reader, decoder = SseReader(), self._codec.decoder(names, self.model)
        broken: httpx2.HTTPError | None = None
        try:
            async with aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    for name, data in reader.feed(chunk):
                        for event in decoder.feed(name, data):
                            yield event
        except WireError as error:
            raise _unreadable(str(error)) from None
        except httpx2.HTTPError as error:  # the answer may have been complete before
            broken = error
        for name, data in reader.close():
            for event in decoder.feed(name, data):
                yield event
        try:
            yield Replied(decoder.finish())
        except ModelError:
            if broken is None:
                raise
            raise broken from None  # when the answer is cut, this error tells more than the decoder's

    def _error_of(self, response: "httpx2.Response", body: bytes) -> ModelError:
        """Return the error for an answer without success."""
        status = response.status_code
        if status >= 400:
            return self._codec.fault(status, body)
        place = response.headers.get("location", "")[:_MAX_QUOTED]
        leads = f" (it redirects to {place!r})" if place else ""
        return ModelError("rejected", f"The server answered {status}{leads}: check base_url.", status=status)

    async def _open_client(self) -> "httpx2.AsyncClient":
        """Return the client of this event loop. A thread makes it: loading library and certificates takes 0.2 s."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            client = await asyncio.to_thread(self._guard.client, timeout=self._silence, connections=self._requests)
            if self._client is None or self._loop is not loop:  # another turn may have been faster
                self._client, self._loop, self._slots = client, loop, asyncio.Semaphore(self._requests)
        return self._client


class _AttemptFailed(Exception):
    """One try failed: the error for the caller, and the facts that decide about another try."""

    def __init__(self, error: ModelError, failure: FailedTry) -> None:
        super().__init__()
        self.error = error
        self.failure = failure


@runtime_checkable
class _HasFailedReplies(Protocol):
    """A codec whose API answers with an error when the model wrote a call wrongly."""

    def failed_reply(self, body: bytes, names: dict[str, str], model: str) -> AssistantMessage | None: ...


def join_url(base_url: str, path: str) -> str:
    """Return the whole URL. A version at the end of the base and at the start of the path is written once."""
    base = base_url.rstrip("/")
    version = path[: path.find("/", 1)]
    return (base.removesuffix(version) if _VERSION.fullmatch(version) else base) + path


def _drop_nulls(message: AssistantMessage, toolset: Toolset) -> AssistantMessage:
    """Return the message without the nulls that strict mode makes a model send for parameters that it leaves out."""
    strict = {toolset.names[tool.name]: tool.spec for tool in toolset.tools if tool.strict}
    if not any(call.name in strict for call in message.calls):
        return message
    parts = [_drop_call_nulls(part, strict) if type(part) is CallPart else part for part in message.parts]
    return msgspec.structs.replace(message, parts=tuple(parts))


def _drop_call_nulls(call: CallPart, strict: Mapping[str, ToolSpec]) -> CallPart:
    arguments = parse_json(call.arguments or "{}")
    if call.name not in strict or not isinstance(arguments, dict):
        return call
    kept = drop_nulls(arguments, strict[call.name])
    return call if kept == arguments else msgspec.structs.replace(call, arguments=msgspec.json.encode(kept).decode())


def _check_key(key: str, name: str) -> str:
    key = key.strip()
    if not key.isascii() or any(character <= " " or character == "\x7f" for character in key):
        raise NoModel(
            "auth", f"The key of the model {name!r} holds blanks or characters that no key has. Copy it again."
        )
    return key


def _trust(guard: NetGuard, base_url: str, name: str) -> NetGuard:
    try:
        return guard.trust(base_url)
    except ToolError as error:
        raise NoModel("rejected", f"The base_url of the model {name!r} can't be used. {error.message}") from None


async def _read_head(response: "httpx2.Response", limit: int) -> bytes:
    """Return the first bytes of a body."""
    kept = bytearray()
    async with aclosing(response.aiter_bytes()) as chunks:
        async for chunk in chunks:
            kept += chunk
            if len(kept) >= limit:
                break
    return bytes(kept[:limit])


async def _read_json_body(response: "httpx2.Response") -> JsonObject:
    raw = await _read_head(response, _MAX_ANSWER_BYTES)
    body = parse_json(raw)
    if not isinstance(body, dict):
        raise _unreadable(f"it is not a JSON object; it begins with {raw[:_MAX_QUOTED].decode('utf-8', 'replace')!r}")
    return body


def _unreadable(reason: str) -> ModelError:
    return ModelError(
        "unreadable", f"The answer of the model's server can't be read: {reason}. Check base_url and api."
    )
