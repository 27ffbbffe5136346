"""Routing by table: a path and a method lead to one endpoint, and the door's envelope shapes every answer."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias
from urllib.parse import unquote

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal, log_own_fault

JSON: Final = "application/json"
PRIVATE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of most answers: no cache keeps them, no browser guesses what they are."""
_log = logging.getLogger(__name__)


def moment(at: float) -> str:
    """Return seconds since 1970 as a time of RFC 3339."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Endpoint(Struct, frozen=True):
    """What one method of one path does."""

    read: Callable[[AsgiRequest], Awaitable[dict[str, object]]]
    """Reads the arguments of `work` from the request. Its errors are translated by the envelope."""
    work: Callable[..., Awaitable[object]]
    respond: Callable[[object], AsgiResponse]
    """Makes the response from what `work` returned."""


class Envelope(Struct, frozen=True):
    """How a door answers where no endpoint does."""

    translate: Callable[[Exception], Refusal]
    """Returns the refusal for an error; for an unexpected error, a constant one."""
    refuse: Callable[[Refusal], AsgiResponse]
    no_path: str
    """The message for an unknown path; `{path!r}` is the path."""
    no_method: str
    """The message for an unknown method; also with `{method}` and `{allow}`."""
    complete: Callable[[AsgiRequest, AsgiResponse], AsgiResponse]
    """Gets every response before it is sent, and returns the one to send."""

    def refusal(self, request: AsgiRequest, error: Exception) -> AsgiResponse:
        """Return the response for an error. A fault of ours is logged, and its details stay out of the response."""
        refusal = self.translate(error)
        log_own_fault(_log, f"{request.method} {request.path} could not be answered", error, refusal)
        return self.refuse(refusal)


Table: TypeAlias = Mapping[str, Mapping[str, Endpoint]]
"""Endpoints by path and method. `{name}` in a path is the text between two slashes as sent: it may have a %2F."""


class _Path:
    """One path of the table."""

    def __init__(self, path: str, endpoints: Mapping[str, Endpoint]) -> None:
        self.endpoints = dict(endpoints)
        if "GET" in endpoints:
            self.endpoints.setdefault("HEAD", endpoints["GET"])
        self.segments = path.split("/")

    def parameters(self, segments: list[str]) -> dict[str, str] | None:
        """Return the values of the names in the path; None when the segments are of another path."""
        found: dict[str, str] = {}
        for wanted, given in zip(self.segments, segments, strict=True):
            if wanted[:1] == "{" and given:
                found[wanted[1:-1]] = given
            elif wanted != given:
                return None
        return found


class Router:
    """The ASGI application of a door."""

    def __init__(self, table: Table, envelope: Envelope) -> None:
        self.table = table
        self._plain: dict[tuple[str, ...], _Path] = {}
        self._with_names: dict[int, list[_Path]] = {}
        """Paths with names, by the number of segments; those with fewer names first."""
        for path in sorted(table, key=lambda path: path.count("{")):
            known = _Path(path, table[path])
            if "{" in path:
                self._with_names.setdefault(len(known.segments), []).append(known)
            else:
                self._plain[tuple(known.segments)] = known
        self._envelope = envelope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request, envelope = AsgiRequest(scope, receive), self._envelope
        try:
            endpoint = self._find(request)
            response = endpoint.respond(await endpoint.work(**await endpoint.read(request)))
        except Exception as error:  # a client gets an answer that it can read, whatever the fault
            response = envelope.refusal(request, error)
        await envelope.complete(request, response)(scope, receive, send)

    def _find(self, request: AsgiRequest) -> Endpoint:
        """Return the endpoint, and set the path's parameters in the scope. Raises `Refusal` when there is none."""
        scope, segments = request.scope, _segments(request.scope)
        method: str = scope["method"]
        plain = self._plain.get(tuple(segments))
        if plain is not None and method in plain.endpoints:
            scope["path_params"] = {}
            return plain.endpoints[method]
        allowed = None if plain is None else plain.endpoints
        for path in self._with_names.get(len(segments), ()):
            found = path.parameters(segments)
            if found is not None:
                if method in path.endpoints:
                    scope["path_params"] = found
                    return path.endpoints[method]
                allowed = allowed or path.endpoints
        at = request.path[:200]
        if allowed is None:
            raise Refusal(404, "not_found", self._envelope.no_path.format(path=at))
        allow = ", ".join(sorted(allowed))
        text = self._envelope.no_method.format(method=method, path=at, allow=allow)
        raise Refusal(405, "method_not_allowed", text, headers={"allow": allow})


def _segments(scope: Scope) -> list[str]:
    """Return the segments of the path below the prefix."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    segments = [unquote(part) for part in path.split("/")] if "%" in path else path.split("/")
    root = scope.get("root_path", "").rstrip("/").split("/")
    below = segments[len(root) :] if root == segments[: len(root)] else segments[1:]
    return ["", *(below or [""])]  # the prefix alone means its `/`
