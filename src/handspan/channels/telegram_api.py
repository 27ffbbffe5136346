"""Requests to the Bot API of Telegram. The token is part of each address, so no address is shown or logged."""

import logging
import re
from typing import Final

import msgspec

from handspan.channels.bus import Unsent
from handspan.core.errors import ConfigError, ToolError
from handspan.core.late_imports import httpx2
from handspan.core.values import Json, JsonObject
from handspan.net.exchange import describe_http_error
from handspan.net.guard import NetGuard

_TOKEN: Final = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{20,100}")
_IN_ADDRESS: Final = re.compile(r"/bot[0-9]+:[A-Za-z0-9_-]+")
_SECONDS: Final = 20.0
_MAX_BYTES: Final = 8 * 1024 * 1024
_REMEDIES: Final = {
    401: "Check channels.{name}.token: @BotFather shows it.",
    404: "Check channels.{name}.token: @BotFather shows it.",
    409: "One program alone can receive for a bot: stop the other one, or remove its webhook (deleteWebhook).",
    403: "The person has to write to the bot first, or has blocked it.",
}


class _HiddenTokens(logging.Filter):
    """Takes the token out of the lines that the HTTP library logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the token, and let every line pass."""
        if isinstance(record.args, tuple):
            record.args = tuple(
                _IN_ADDRESS.sub("/bot…", str(arg)) if "/bot" in str(arg) else arg for arg in record.args
            )
        return True


logging.getLogger("httpx2").addFilter(_HiddenTokens())


class _Parameters(msgspec.Struct):
    retry_after: float = 0.0


class _Answer(msgspec.Struct):
    ok: bool = False
    result: Json = None
    description: str = ""
    error_code: int = 0
    parameters: _Parameters = msgspec.field(default_factory=_Parameters)


_answer: Final = msgspec.json.Decoder(_Answer, strict=False)


class TelegramApi:
    """Calls methods of the Bot API over one client of the network guard."""

    def __init__(self, name: str, token: str, base_url: str, guard: NetGuard) -> None:
        """Raise `ConfigError` for a token that can't be one."""
        if not _TOKEN.fullmatch(token):
            text = f"channels.{name}.token is not the token of a bot, which looks like 123456:ABC-DEF…"
            raise ConfigError(f"{text}. @BotFather shows it.")
        self._name = name
        self._path = f"/bot{token}/"
        self._base_url = base_url.rstrip("/")
        self._guard = guard.trust(base_url)
        self._client: httpx2.AsyncClient | None = None

    async def call(self, method: str, parameters: JsonObject, seconds: float = _SECONDS) -> Json:
        """Return the result of a method. Raises `Unsent` when it was not done, `ToolError` when that is not known."""
        if self._client is None:
            self._client = self._guard.client(base_url=self._base_url)
        try:
            response = await self._client.post(self._path + method, json=parameters, timeout=seconds)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise Unsent(f"Telegram can't be reached. {describe_http_error(error)}") from None
        except httpx2.RequestError as error:
            raise ToolError("network_error", f"Telegram did not answer. {describe_http_error(error)}") from None
        return self._read(response)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _read(self, response: "httpx2.Response") -> Json:
        """Return the result in the answer. Raises `ToolError`."""
        try:
            answer = _answer.decode(response.content[:_MAX_BYTES])
        except (msgspec.DecodeError, RecursionError):
            text = f"{self._base_url} answered HTTP {response.status_code} without JSON: is the Bot API there?"
            raise ToolError("network_error", text) from None
        if answer.ok:
            return answer.result
        raise self._refusal(answer, answer.error_code or response.status_code)

    def _refusal(self, answer: _Answer, status: int) -> ToolError:
        remedy = _REMEDIES.get(status, "").format(name=self._name)
        said = _IN_ADDRESS.sub("/bot…", answer.description)[:300].rstrip(".") or "no reason"
        text = f"Telegram refused it ({status}): {said}. {remedy}".rstrip()
        if status == 429 or status >= 500:
            return Unsent(text, answer.parameters.retry_after)
        return ToolError("execution_failed", text)


def utf16_length(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text) + sum(character > "\uffff" for character in text)


def split_text(text: str, most: int) -> list[str]:
    """Return the text in parts of at most so many UTF-16 units, cut at line ends or spaces where there are some."""
    parts: list[str] = []
    while utf16_length(text) > most:
        end = _longest_prefix(text, most)
        # Not in the first half: an early line end would make a short part, and so more messages.
        cut = max(text.rfind("\n", end // 2, end), text.rfind(" ", end // 2, end))
        end = cut + 1 if cut >= 0 else end
        parts.append(text[:end].rstrip() or "…")  # Telegram refuses a message of blanks
        text = text[end:]
    return [*parts, text] if text.strip() or not parts else parts


def _longest_prefix(text: str, most: int) -> int:
    units = 0
    for index, character in enumerate(text):
        units += 2 if character > "\uffff" else 1
        if units > most:
            return index
    return len(text)
