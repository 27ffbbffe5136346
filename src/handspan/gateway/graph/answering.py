"""Answers in the envelope of http.md 1: whatever happens, a client gets one that it can read."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Raw, Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from handspan.core.calls import new_call_id
from handspan.core.values import Json
from handspan.gateway.entry.auth import Admitted, Refused
from handspan.gateway.graph.doors import GraphDoors
from handspan.gateway.graph.faults import GraphFault, fault_of
from handspan.gateway.graph.runs import Client
from handspan.wire import graph
from handspan.wire.graph_faults import code_of

_log = logging.getLogger(__name__)

_JSON = "application/json"

Endpoint: TypeAlias = Callable[[GraphDoors, Client, Request], Awaitable[Struct | Json | Raw | Response]]
"""What a route does: the data of its answer, or an answer of its own form."""


def route(doors: GraphDoors, path: str, **endpoints: Endpoint) -> Route:
    """A route whose answers, good and bad, are in the envelope; what it does for each method."""
    if "GET" in endpoints:
        endpoints["HEAD"] = endpoints["GET"]

    async def serve(request: Request) -> Response:
        admitted: Admitted = request.state.admitted
        answer = await _answer(endpoints[request.method], doors, admitted, request)
        try:
            doors.auth.refuse_revoked(admitted)
        except Refused as refused:  # http.md 7.9: whatever came of it
            return failed(refused)
        return answer

    return Route(path, serve, methods=list(endpoints))


async def _answer(endpoint: Endpoint, doors: GraphDoors, admitted: Admitted, request: Request) -> Response:
    try:
        data = await endpoint(doors, Client.of(admitted), request)
    except Exception as error:  # a client gets an answer that it can read, whatever the fault
        return failed(error)
    return data if isinstance(data, Response) else done(data)


def done(data: Struct | Json | Raw) -> Response:
    """A success (http.md 1.1)."""
    request_id, at = new_call_id(), now()
    return _response(200, graph.success(data, request_id, at), request_id, at)


def failed(error: Exception) -> Response:
    """Anything else (http.md 1.2). What nobody foresaw is in the log, and in no answer."""
    fault = fault_of(error)
    if fault is None:
        _log.error("A request of the graph API failed", exc_info=error)
        fault = GraphFault(500, "GRAPH_ERROR", "The gateway failed inside: its log says more. Try again.")
    request_id, at = new_call_id(), now()
    body = graph.failure(fault.code, fault.message, fault.details, request_id, at)
    return _response(fault.status, body, request_id, at, fault.headers)


async def not_routed(request: Request, error: Exception) -> Response:
    """What Starlette itself says: no such path, no such method."""
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    text = {
        404: f"There is nothing at {request.url.path[:200]!r}: protocol/http.md has the paths.",
        405: f"{request.method} can't be used at {request.url.path[:200]!r}: use {headers.get('Allow')}.",
    }.get(error.status_code, str(error.detail))
    return failed(GraphFault(error.status_code, code_of(error.status_code), text, headers=headers))


def now() -> str:
    """The time, as answers say it."""
    return datetime.now(UTC).isoformat()


def _response(
    status: int, body: bytes, request_id: str, at: str, more: Mapping[str, str] = MappingProxyType({})
) -> Response:
    headers = {"x-request-id": request_id, "x-timestamp": at, "cache-control": "no-store"}
    return Response(body, status, {**headers, **more}, _JSON)
