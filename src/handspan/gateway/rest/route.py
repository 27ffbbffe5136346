"""How a route is declared: one function, whose types say what comes in and what goes out.

    @family.put("/api/sessions/{session_id}", also_refuses=(409,))
    async def rename(visit: Visit, session_id: str, body: NewName) -> Renamed:
        \"\"\"Give a session another name.\"\"\"

Parameters: `visit`, the names in the path as `str`, and `query`, `headers`, `body` as Structs. What a Struct says about
its fields is what is decoded, what is refused with 422, and what the OpenAPI document shows.
"""

import contextlib
import functools
import inspect
import operator
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from handspan.core.names import did_you_mean
from handspan.core.principals import Principal
from handspan.core.values import Json, encode
from handspan.gateway.entry.auth import Admitted, TokenScope, unauthorized
from handspan.gateway.http.bodies import read_json, read_leniently
from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import JSON, PRIVATE, Endpoint
from handspan.gateway.live import Topic
from handspan.gateway.rest.doors import BodySize, Doors

Work: TypeAlias = Callable[..., Awaitable[Any]]
W = TypeVar("W", bound=Work)
Right: TypeAlias = Literal["open", "chat", "device", "admin"]
"""Whom a route is for. `device`: tokens of devices too. `admin` tokens may do everything."""

_SCOPES: Final[dict[Right, tuple[TokenScope, ...]]] = {
    "open": (),
    "chat": ("chat",),
    "device": ("device", "chat"),
    "admin": ("admin",),
}
HTML: Final = "text/html"
_PASSED_OVER: Final = "token"
"""In any query: where old clients put it."""
_MOST_FIELDS: Final = 50


class Visit(Struct, frozen=True):
    """One request: who comes, and what the house has."""

    doors: Doors
    request: AsgiRequest
    admitted: Admitted | None
    """None only where a route is open."""

    @property
    def who(self) -> Principal:
        assert self.admitted is not None  # looked at before the route's function is called
        return self.admitted.who

    @property
    def owner(self) -> str:
        return self.who.owner

    def tell(self, topic: Topic, **data: str) -> None:
        """Let the owner's other fronts know that a list changed."""
        self.doors.live.publish(self.owner, topic, dict(data))


class Reply(Struct, frozen=True):
    """An answer that is not simply 200 with a Struct: raw bytes of JSON, another status, headers."""

    content: Struct | bytes
    status: int = 200
    headers: Mapping[str, str] = {}


class Form(Struct, frozen=True):
    """What the types of a route's function say."""

    path: tuple[str, ...]
    query: type[Struct] | None
    headers: type[Struct] | None
    body: type[Struct] | None
    answer: Any


class Operation:
    """One method of one path."""

    def __init__(
        self,
        method: str,
        path: str,
        work: Work,
        tag: str,
        right: Right = "chat",
        *,
        status: int = 200,
        also: Mapping[int, Any] | None = None,
        also_refuses: tuple[int, ...] = (),
        media_type: str = JSON,
        takes: str = JSON,
        size: BodySize = "small",
        lenient: bool = False,
        streams: Any = None,
        invalid: tuple[int, str, str] | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.work = work
        self.tag = tag
        self.right: Right = right
        self.status = status
        self.also = also or {}
        """Other statuses that are no refusals, with the type of their answer."""
        self.also_refuses = also_refuses
        self.media_type = media_type
        self.takes = takes
        """The media type of the body; other than JSON, the function reads it itself."""
        self.size: BodySize = size
        self.lenient = lenient
        """What in the body does not fit is passed over, and so is its kind: clients of others send what they like."""
        self.streams = streams
        """What one event is where the answer may also be a stream, for who asks for that by `Accept`."""
        self.invalid = invalid
        """What a body that does not fit is told, where old clients know it in these words: status, code, sentence."""

    @functools.cached_property
    def form(self) -> Form:
        """Read from the signature when it is first needed: most routes are not used in most processes."""
        hints = get_type_hints(self.work, include_extras=True)
        names = [name for name in inspect.signature(self.work).parameters if name != "visit"]
        structs = {name: hints[name] for name in names if name in ("query", "headers", "body")}
        path = tuple(name for name in names if name not in structs)
        answer = _plain(hints["return"])
        return Form(path, structs.get("query"), structs.get("headers"), structs.get("body"), answer)

    @property
    def refuses(self) -> tuple[int, ...]:
        """Every status of a refusal that a well-meaning client may see."""
        form = self.form
        found = set(self.also_refuses)
        found |= {401, 403, 429} if self.right != "open" else set()
        found |= {404} if form.path else set()
        found |= {422} if form.query or form.headers or (form.body and not self.lenient) else set()
        found |= {415} if form.body and not self.lenient else set()
        found |= {400, 408, 413} if form.body or self.takes != JSON else set()
        return tuple(sorted(found))

    def endpoint(self, doors: Doors) -> Endpoint:
        """This operation as a line of the kit's table."""

        async def read(request: AsgiRequest) -> dict[str, object]:
            return await self._arguments(Visit(doors, request, self._admitted(request)))

        return Endpoint(read, self.work, self._response)

    def _admitted(self, request: AsgiRequest) -> Admitted | None:
        if self.right == "open":
            return None
        admitted: Admitted | None = request.scope.get("state", {}).get("admitted")
        if admitted is None:
            raise unauthorized()
        scopes = _SCOPES[self.right]
        if not any(map(admitted.may, scopes)):
            admitted.require(scopes[0])
        return admitted

    async def _arguments(self, visit: Visit) -> dict[str, object]:
        form, request = self.form, visit.request
        arguments: dict[str, object] = {"visit": visit}
        for name in form.path:
            arguments[name] = request.path_params[name]
        if form.query is not None:
            arguments["query"] = _decoded(_query(request), form.query, "query", strict=False)
        if form.headers is not None:
            wanted = {each.encode_name for each in msgspec.structs.fields(form.headers)}
            sent = {name: value for name, value in request.headers.items() if name in wanted}
            arguments["headers"] = _decoded(sent, form.headers, "headers", strict=False)
        if form.body is not None:
            limits = visit.doors.limits
            within = (limits.of(self.size), limits.seconds)
            if self.lenient:
                arguments["body"] = _what_fits(await read_leniently(request, *within), form.body)
            else:
                arguments["body"] = self._body(await read_json(request, *within), form.body)
        return arguments

    def _body(self, value: Json, form: type[Struct]) -> Struct:
        try:
            return _decoded(value, form, "body")
        except Refusal:
            if self.invalid is None:
                raise
            raise Refusal(*self.invalid) from None

    def _response(self, answered: object) -> AsgiResponse:
        if isinstance(answered, AsgiResponse):
            return answered
        reply = answered if isinstance(answered, Reply) else Reply(answered, self.status)  # type: ignore[arg-type] # a Struct: the function's return type says so
        content = reply.content if isinstance(reply.content, bytes) else encode(reply.content)
        return AsgiResponse(content, reply.status, {**PRIVATE, **reply.headers}, self.media_type)


class Family:
    """Routes that belong together."""

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
            self.operations.append(Operation(method, path, work, self.tag, right, **more))
            return work

        return declare


def _plain(answer: Any) -> Any:
    """What a function may return beside `Reply`, which can hold what is declared in `also`, and beside a stream."""
    if Reply not in get_args(answer):
        return answer
    return functools.reduce(operator.or_, (one for one in get_args(answer) if one not in (Reply, AsgiResponse)))


def _query(request: AsgiRequest) -> dict[str, str]:
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise Refusal(422, "invalid_request", f"The query has more than {_MOST_FIELDS} fields. Send fewer.") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Refusal(422, "invalid_request", f"The query names {name[:60]!r} twice. Say it once.")
        if name != _PASSED_OVER:
            found[name] = value
    return found


def _with_whole_numbers(value: object, form: type[Struct]) -> object:
    """The same with 20 for 20.0 where a whole number is wanted: to JSON they are one number."""
    if not isinstance(value, dict) or float not in map(type, value.values()):
        return value
    wanted = {each.encode_name for each in msgspec.structs.fields(form) if _takes_whole_numbers(each.type)}
    return {
        name: int(given) if name in wanted and isinstance(given, float) and given.is_integer() else given
        for name, given in value.items()
    }


def _takes_whole_numbers(hint: Any) -> bool:
    return hint is int or any(map(_takes_whole_numbers, get_args(hint)))


def _what_fits(value: Json, form: type[Struct]) -> Struct:
    """The fields that are as the form wants them; the others are as if nobody had sent them."""
    given = value if isinstance(value, dict) else {}
    found = {}
    for each in msgspec.structs.fields(form):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            found[each.name] = msgspec.convert(given[each.encode_name], each.type)
    return form(**found)


def _decoded(value: object, form: type[Struct], where: str, *, strict: bool = True) -> Struct:
    try:
        return msgspec.convert(_with_whole_numbers(value, form), form, strict=strict)
    except msgspec.ValidationError as error:
        known = [each.encode_name for each in msgspec.structs.fields(form)]
        unknown = sorted(set(value) - set(known)) if isinstance(value, dict) else []
        hint = did_you_mean(unknown[0], known) if unknown and "unknown field" in str(error) else ""
        listed = f" It may have: {', '.join(known)}." if unknown or not isinstance(value, dict) else ""
        raise Refusal(422, "invalid_request", f"The {where} is not right: {error}.{hint}{listed}") from None
