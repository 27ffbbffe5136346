"""What went wrong on the way, in words that name the cause (SPEC X2)."""

import ssl

from handspan.core.errors import ToolError
from handspan.net.urls import Url


def network_error(url: Url, error: Exception) -> ToolError:
    """The `ToolError` for an exception of the HTTP library: timeout, TLS, refused, broken or not HTTP."""
    return ToolError("network_error", _explained(f"{url.host!r} port {url.port}", error))


def _explained(place: str, error: Exception) -> str:
    import httpx2  # noqa: PLC0415 - loaded with the first request, not with the gateway

    match error, _first_cause(error):
        case httpx2.TimeoutException(), _:
            return f"Timeout: {place} did not answer in time. Try again later."
        case _, ssl.SSLError() as cause:
            return f"TLS: no trusted connection to {place}: {_text(cause)}. Check the host and its certificate."
        case _, ConnectionRefusedError():
            return f"Connection refused by {place}. Check the port, and whether the server is running."
        case httpx2.ConnectError(), cause:
            return f"No connection to {place}: {_text(cause)}. Check the host and the port."
        case httpx2.NetworkError(), cause:
            return f"The connection to {place} broke: {_text(cause)}. Try again."
    return f"Protocol error: the answer of {place} is not proper HTTP: {_text(error)}."


def _first_cause(error: BaseException) -> BaseException:
    """What the operating system or TLS said, below the layers of the library."""
    found, current = error, error.__cause__ or error.__context__
    while current is not None:
        if isinstance(current, OSError):
            found = current
        current = current.__cause__ or current.__context__
    return found


def _text(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")
