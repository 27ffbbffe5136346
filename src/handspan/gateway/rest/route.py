"""How a route is declared: one function, whose types say what comes in and what goes out.

    @family.put("/api/sessions/{session_id}", also_refuses=(409,))
    async def rename(request: RestRequest, session_id: str, body: NewName) -> Renamed:
        \"\"\"Give a session another name.\"\"\"

Parameters: `request`, the names in the path as `str`, and `query`, `headers`, `body` as Structs. The Structs decide
what is decoded, what is refused with 422, and what the OpenAPI document shows.
"""

import contextlib
import functools
import inspect
import operator
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from handspan.agent.sessions import Sessions
from handspan.core.names import did_you_mean
from handspan.core.principals import Principal, TokenScope
from handspan.core.records import SessionRecord
from handspan.core.store import Store
from handspan.core.values import Json, encode
from handspan.gateway.app import App
from handspan.gateway.entry.auth import INSIDE, Admitted, unauthorized_refusal
from handspan.gateway.http.bodies import read_json, read_json_or_null
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE, Endpoint
from handspan.gateway.live import Topic
from handspan.gateway.parts import GatewayParts
from handspan.gateway.rest.errors import explain_error
from handspan.gateway.rest.state import BodySize, RestState

Work: TypeAlias = Callable[..., Awaitable[Any]]
W = TypeVar("W", bound=Work)
Right: TypeAlias = Literal["open", "chat", "device", "tools", "admin"]
"""The scope that a route needs. `device`, `tools`: `chat` is enough too. `admin` tokens may do everything."""

_SCOPES: Final[dict[Right, tuple[TokenScope, ...]]] = {
    "open": (),
    "chat": ("chat",),
    "device": ("device", "chat"),
    "tools": ("tools",),
    "admin": ("admin",),
}
HTML: Final = "text/html"
_IGNORED: Final = "token"
"""A field that every query may have: old clients put their token there."""
_MAX_FIELDS: Final = 50
_LARGE_BODIES: Final = "gateway.request_bytes"


class RestRequest(Struct, frozen=True):
    """One request: the caller, the parts of the gateway, and the state of the door."""

    parts: GatewayParts
    rest: RestState
    asgi: AsgiRequest
    admitted: Admitted | None
    """None: the route is open."""

    @property
    def app(self) -> App:
        return self.parts.app

    @property
    def store(self) -> Store:
        return self.parts.store

    @property
    def sessions(self) -> Sessions:
        return self.parts.sessions

    @property
    def who(self) -> Principal:
        assert self.admitted is not None  # `Operation` has checked the right
        return self.admitted.who

    @property
    def owner(self) -> str:
        return self.who.owner

    @property
    def token_hash(self) -> str:
        """The hash of the caller's token; its first characters are the id that people see."""
        assert self.admitted is not None
        return self.admitted.token

    async def find_session(self, session: str) -> SessionRecord:
        """Return a session of the caller. Raises `ToolError` when there is none."""
        return await self.parts.sessions.find_record(session, self.owner)

    def publish(self, topic: Topic, **data: str) -> None:
        """Publish to the owner's other clients that a list changed."""
        self.parts.live.publish(self.owner, topic, dict(data))


class Reply(Struct, frozen=True):
    """An answer with another status than the declared one, with headers, or with JSON that is encoded already."""

    content: Struct | bytes
    status: int = 200
    headers: Mapping[str, str] = {}


class Form(Struct, frozen=True):
    """The types of a route's parameters and answer."""

    path: tuple[str, ...]
    answer: Any
    query: type[Struct] | None = None
    headers: type[Struct] | None = None
    body: type[Struct] | None = None


class Operation(Struct, kw_only=True, eq=False, dict=True):
    """One method of one path."""

    method: str
    path: str
    work: Work
    tag: str
    right: Right
    status: int = 200
    also: Mapping[int, Any] = {}
    """Other statuses of success, with the type of their answer."""
    also_refuses: tuple[int, ...] = ()
    media_type: str = JSON
    takes: str = JSON
    """The media type of the body. The function itself reads a body that is not JSON."""
    size: BodySize = "small"
    lenient: bool = False
    """Whether fields that do not fit are ignored, and the media type, too: foreign clients send what they like."""
    streams: Any = None
    """The type of an event, where a client may ask for a stream with `Accept`."""
    invalid: tuple[int, str, str] | None = None
    """Status, code and message for a body with a wrong `name`, where old clients expect their own."""

    @functools.cached_property
    def form(self) -> Form:
        """The types, read from the signature at first use: most processes use few routes."""
        hints = get_type_hints(self.work, include_extras=True)
        names = [name for name in inspect.signature(self.work).parameters if name != "request"]
        structs = {name: hints[name] for name in ("query", "headers", "body") if name in names}
        path = tuple(name for name in names if name not in structs)
        return Form(path, answer=_answer_type(hints["return"]), **structs)

    @property
    def refuses(self) -> tuple[int, ...]:
        """The statuses of refusals that a correct client may get."""
        form = self.form
        found = set(self.also_refuses)
        found |= {401, 403, 429} if self.right != "open" else set()
        found |= {404} if form.path else set()
        found |= {422} if form.query or form.headers or (form.body and not self.lenient) else set()
        found |= {415} if form.body and not self.lenient else set()
        found |= {400, 408, 413} if form.body or self.takes != JSON else set()
        return tuple(sorted(found))

    def endpoint(self, parts: GatewayParts, rest: RestState) -> Endpoint:
        """Return this operation as an entry of a router's table."""

        async def read(request: AsgiRequest) -> dict[str, object]:
            return await self._arguments(RestRequest(parts, rest, request, self._check_right(request)))

        return Endpoint(read, self.work, self._response)

    def _check_right(self, request: AsgiRequest) -> Admitted | None:
        """Return the caller; None for an open route. Raises `Refusal` when the token has none of the right's scopes."""
        if self.right == "open":
            return None
        admitted: Admitted | None = request.scope.get("state", {}).get("admitted")
        if admitted is None:
            raise unauthorized_refusal()
        scopes = _SCOPES[self.right]
        if not any(map(admitted.may, scopes)):
            admitted.require(scopes[0])  # raises, and names the usual one
        return admitted

    async def _arguments(self, request: RestRequest) -> dict[str, object]:
        """Return the arguments of the function, read from the request. Raises `Refusal` for wrong ones."""
        form, asgi = self.form, request.asgi
        arguments: dict[str, object] = {"request": request}
        for name in form.path:
            arguments[name] = asgi.path_params[name]
        if form.query is not None:
            arguments["query"] = _decode(_query(asgi), form.query, "query", strict=False)
        if form.headers is not None:
            wanted = form.headers.__struct_encode_fields__
            sent = {name: value for name, value in asgi.headers.items() if name in wanted}
            arguments["headers"] = _decode(sent, form.headers, "headers", strict=False)
        if form.body is not None:
            limits = request.rest.limits
            limit = sys.maxsize if INSIDE in asgi.scope.get("extensions", {}) else limits.of(self.size)
            if self.lenient:
                arguments["body"] = _decode_leniently(await read_json_or_null(asgi, limit, limits.seconds), form.body)
            else:
                setting = _LARGE_BODIES if limit == limits.large else ""
                arguments["body"] = self._body(await read_json(asgi, limit, limits.seconds, setting), form.body)
        return arguments

    def _body(self, value: Json, form: type[Struct]) -> Struct:
        """Return the body as its type. Raises `Refusal`, in old words where only the name is wrong (`invalid`)."""
        try:
            return _decode(value, form, "body")
        except Refusal:
            if self.invalid is None:
                raise
            if isinstance(value, dict):
                _decode({field: given for field, given in value.items() if field != "name"}, form, "body")
            raise Refusal(*self.invalid) from None

    def _response(self, answered: object) -> AsgiResponse:
        if isinstance(answered, AsgiResponse):
            return answered
        reply = answered if isinstance(answered, Reply) else Reply(answered, self.status)  # type: ignore[arg-type] # a Struct: the function's return type says so
        content = reply.content if isinstance(reply.content, bytes) else encode(reply.content)
        return AsgiResponse(content, reply.status, {**PRIVATE, **reply.headers}, self.media_type)


class Family:
    """Routes of one subject, declared in one module."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.operations: list[Operation] = []

    def get(self, path: str, right: Right = "chat", **more: Any) -> Callable[[W], W]:
        return self._declare("GET", path, right, more)

    def post(self, path: str, right: Right = "chat", **more: Any) -> Callable[[W], W]:
        return self._declare("POST", path, right, more)

    def put(self, path: str, right: Right = "chat", **more: Any) -> Callable[[W], W]:
        return self._declare("PUT", path, right, more)

    def patch(self, path: str, right: Right = "chat", **more: Any) -> Callable[[W], W]:
        return self._declare("PATCH", path, right, more)

    def delete(self, path: str, right: Right = "chat", **more: Any) -> Callable[[W], W]:
        return self._declare("DELETE", path, right, more)

    def _declare(self, method: str, path: str, right: Right, more: dict[str, Any]) -> Callable[[W], W]:
        def declare(work: W) -> W:
            given = {"tag": self.tag, **more}
            self.operations.append(Operation(method=method, path=path, work=work, right=right, **given))
            return work

        return declare


def _answer_type(answer: Any) -> Any:
    """Return the declared type of the answer, without `Reply` and `AsgiResponse`."""
    if Reply not in get_args(answer):
        return answer
    return functools.reduce(operator.or_, (one for one in get_args(answer) if one not in (Reply, AsgiResponse)))


def _query(request: AsgiRequest) -> dict[str, str]:
    """Return the fields of the query. Raises `Refusal` for too many fields, or one that comes twice."""
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise Refusal(422, "invalid_request", f"The query has more than {_MAX_FIELDS} fields. Send fewer.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Refusal(422, "invalid_request", f"The query names {name[:60]!r} twice. Send it once.")
        if name != _IGNORED:
            found[name] = value
    return found


_fields: Final = functools.cache(msgspec.structs.fields)
"""The fields of a form. To find them takes long and leaves garbage in a cycle each time."""


def _with_whole_numbers(value: object, form: type[Struct]) -> object:
    """Return the value with 20 in place of 20.0 where a field wants an integer: in JSON both are the same."""
    if not isinstance(value, dict) or float not in map(type, value.values()):
        return value
    wanted = {each.encode_name for each in _fields(form) if _takes_whole_numbers(each.type)}
    return {
        name: int(given) if name in wanted and isinstance(given, float) and given.is_integer() else given
        for name, given in value.items()
    }


def _takes_whole_numbers(hint: Any) -> bool:
    return hint is int or any(map(_takes_whole_numbers, get_args(hint)))


def _decode_leniently(value: Json, form: type[Struct]) -> Struct:
    """Return the form with the fields that fit. Other fields are ignored."""
    given = value if isinstance(value, dict) else {}
    found = {}
    for each in _fields(form):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            found[each.name] = msgspec.convert(given[each.encode_name], each.type)
    return form(**found)


def _decode(value: object, form: type[Struct], where: str, *, strict: bool = True) -> Struct:
    """Return the value as a Struct. Raises `Refusal` that says what does not fit."""
    try:
        return msgspec.convert(_with_whole_numbers(value, form), form, strict=strict)
    except msgspec.ValidationError as error:
        text, known = explain_error(value, _fields(form), error), form.__struct_encode_fields__
        unknown = sorted(set(value) - set(known)) if isinstance(value, dict) else []
        hint = did_you_mean(unknown[0], known) if unknown and "unknown field" in str(error) else ""
        listed = f" It may have: {', '.join(known)}." if unknown or not isinstance(value, dict) else ""
        raise Refusal(422, "invalid_request", f"The {where} is not right: {text}{hint}{listed}") from None
