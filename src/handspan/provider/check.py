"""Tests a provider against `protocol/cetp.md`: what is wrong, with its clause. No tool gets arguments that fit."""

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from handspan.core.errors import DefinitionError, WireError
from handspan.core.schema import Validator
from handspan.core.values import Json, JsonObject, encode
from handspan.provider.connection import PATH, CallFailed, HttpResponse, ProviderSocket
from handspan.wire import strict_json
from handspan.wire.cetp import (
    EXECUTE_TOOL,
    GET_PROVIDER_INFO,
    LIST_TOOLS,
    CetpCode,
    CetpError,
    CetpRequest,
    CetpSuccess,
    ProviderTool,
    execute_request,
    read_bundle,
    read_info,
    read_tools,
)

Verdict: TypeAlias = Literal["ok", "warning", "wrong"]

_GUARDED: Final[tuple[CetpCode, ...]] = ("AUTH_REQUIRED", "PERMISSION_DENIED")
"""Codes with which a provider may answer any call of a consumer that it does not admit."""
_SECONDS: Final = 10.0
_ODD_NAME: Final = "no_such_thing_of_a_check"
_ODD_VALUES: Final[tuple[Json, ...]] = ({"of": "a check"}, "of a check", -1.5, None)


class CheckResult(Struct, frozen=True):
    """One thing that was checked."""

    clause: str
    """The clause of `cetp.md`."""
    verdict: Verdict
    text: str


async def check_provider(calls: ProviderSocket, path: Path) -> AsyncIterator[CheckResult]:
    """Yield every result. The check ends early when the provider can't be reached."""
    for found in _check_file(path):
        yield found
    try:
        listed = await _exchange(calls, "POST", PATH, encode(CetpRequest(LIST_TOOLS)))
    except CallFailed as error:
        yield CheckResult("6.5", "wrong", f"list_tools has no answer: {error}")
        return
    tools: list[ProviderTool] = []
    for found in _check_list(listed, tools):
        yield found
    for found in await _check_methods(calls, listed):
        yield found
    async for found in _check_calls(calls, tools):
        yield found
    async for found in _check_http(calls):
        yield found


def _check_file(path: Path) -> Iterator[CheckResult]:
    """Yield whether only this user can reach the socket."""
    try:
        modes = [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent)]
    except OSError as error:
        yield CheckResult("6.4", "wrong", f"the socket {str(path)!r} can't be seen: {error.strerror}")
        return
    for what, mode, wanted in zip(("socket", "folder"), modes, (0o600, 0o700), strict=True):
        is_private = not mode & 0o077
        text = f"the {what} has mode {mode:o}" + ("" if is_private else f": other users may reach it, use {wanted:o}")
        yield CheckResult("6.4", "ok" if is_private else "warning", text)


# What it lists.


def _check_list(response: HttpResponse, tools: list[ProviderTool]) -> Iterator[CheckResult]:
    """Yield what is right and wrong in the answer to `list_tools`; `tools` gets those that a consumer would take."""
    yield from _check_response(LIST_TOOLS, response)
    answer = read_bundle(_json(response))
    if not isinstance(answer, CetpSuccess):
        is_guarded = answer.error_code in _GUARDED
        why = ": it is called when no person is there, so it needs no login" if is_guarded else ""
        yield CheckResult("5.4" if is_guarded else "1.2", "wrong", f"list_tools failed{why}: {answer.text}")
        return
    try:
        found = read_tools(answer.data)
    except WireError as error:
        yield CheckResult("3.1", "wrong", str(error))
        return
    tools.extend(found.tools)
    count = len(found.tools)
    yield CheckResult("3.1", "ok" if count else "warning", f"tools: {count}")
    for entry in found.left_out:
        yield CheckResult("3.2", "wrong", f"the tool {entry.name[:80]!r} is left out: {entry.reason}")
    for tool in found.tools:
        yield from _check_tool(tool)


def _check_tool(tool: ProviderTool) -> Iterator[CheckResult]:
    """Yield what is wrong with one tool of the list."""
    try:
        Validator(tool.parameters)
    except DefinitionError as error:
        yield CheckResult("3.3", "wrong", f"{tool.name}: {error}")
    if not tool.description.strip():
        yield CheckResult("3.3", "warning", f"{tool.name} has no description: the model can't know when to call it")
    if not tool.only_reads:
        yield CheckResult("3.4", "warning", f"{tool.name} says that it writes: no consumer of version 1 offers it")


# What it answers.


async def _check_methods(calls: ProviderSocket, listed: HttpResponse) -> list[CheckResult]:
    """Return what is right and wrong in how the provider treats methods and fields."""
    info = await _send(calls, encode(CetpRequest(GET_PROVIDER_INFO)))
    unknown = await _send(calls, encode(CetpRequest(_ODD_NAME)))
    more = await _send(calls, b'{"method": "list_tools", "extras": null, "unknown_field": {}}')
    is_ignored = _kind(more) == _kind(listed)
    text = f"an unknown field in a request is {'ignored' if is_ignored else 'not ignored'}"
    return [
        *_check_response(GET_PROVIDER_INFO, info),
        _check_info(info),
        _expect("1.5", "an unknown method", unknown, "TOOL_NOT_FOUND"),
        CheckResult("1.1", "ok" if is_ignored else "wrong", text),
    ]


def _kind(response: HttpResponse | None) -> str:
    """Return what two answers to the same request have in common: the code of an error, or that there is none."""
    answer = read_bundle(_json(response))
    return answer.error_code if isinstance(answer, CetpError) else "success"


def _check_info(response: HttpResponse | None) -> CheckResult:
    """Return whether the answer to `get_provider_info` is right."""
    answer = read_bundle(_json(response))
    if isinstance(answer, CetpError):
        is_missing, is_guarded = answer.error_code == "TOOL_NOT_FOUND", answer.error_code in _GUARDED
        failed = f"get_provider_info failed: {answer.text}"
        text = "there is no get_provider_info, which is optional" if is_missing else failed
        return CheckResult("5.4" if is_guarded else "1.4", "ok" if is_missing else "wrong", text)
    try:
        info = read_info(answer.data)
    except WireError as error:
        return CheckResult("3.5", "wrong", str(error))
    return CheckResult("3.5", "ok", f"get_provider_info: {info.provider_name[:80]!r}, scopes: {len(info.scopes)}")


async def _check_calls(calls: ProviderSocket, tools: list[ProviderTool]) -> AsyncIterator[CheckResult]:
    """Yield what is right and wrong in the answers to calls that can't succeed."""
    name = tools[0].name if tools else _ODD_NAME
    expected: CetpCode = "INVALID_ARGS" if tools else "TOOL_NOT_FOUND"
    wrong: list[tuple[str, CetpCode, JsonObject | None]] = [
        ("a call without tool_name", "INVALID_ARGS", None),
        ("a call of an unknown tool", "TOOL_NOT_FOUND", {"tool_name": _ODD_NAME, "args": "{}"}),
        ("args that is no JSON", expected, {"tool_name": name, "args": "{"}),
        ("args that is no object", expected, {"tool_name": name, "args": "[1]"}),
    ]
    for what, code, extras in wrong:
        response = await _send(calls, encode(CetpRequest(EXECUTE_TOOL, extras)))
        for found in _check_response(what, response):
            yield found
        yield _expect("1.6", what, response, code, *_GUARDED)
    for tool in tools:
        arguments = _unfit_arguments(tool)
        if arguments is not None:
            response = await _send(calls, encode(execute_request(tool.name, arguments)))
            what = f"{tool.name} with arguments that do not fit its schema"
            yield _expect("1.6", what, response, "INVALID_ARGS", *_GUARDED)


def _unfit_arguments(tool: ProviderTool) -> JsonObject | None:
    """Return arguments that the tool's schema refuses; None when none are found."""
    try:
        validator = Validator(tool.parameters)
    except DefinitionError:
        return None
    properties = tool.parameters.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    odd: list[JsonObject] = [{}, {_ODD_NAME: True}, *({name: value} for name in names for value in _ODD_VALUES)]
    return next((arguments for arguments in odd if not validator.is_valid(arguments)), None)


async def _check_http(calls: ProviderSocket) -> AsyncIterator[CheckResult]:
    """Yield what is right and wrong in the answers to requests that are no proper HTTP of CETP."""
    good = encode(CetpRequest(LIST_TOOLS))
    for what, method, target, body, statuses in (
        ("a body that is no JSON", "POST", PATH, b"list_tools", (400,)),
        ("a body without a method", "POST", PATH, b"{}", (400,)),
        ("another path", "POST", f"{PATH}/{_ODD_NAME}", good, (404,)),
        ("another HTTP method", "GET", PATH, b"", (405, 404)),
    ):
        try:
            status = (await _exchange(calls, method, target, body)).status
        except CallFailed as error:
            yield CheckResult("6.6", "wrong", f"{what} has no answer: {error}")
            continue
        is_right = status in statuses
        text = f"{what} gets HTTP status {status}" + ("" if is_right else f" instead of {statuses[0]}")
        yield CheckResult("6.6", "ok" if is_right else "warning", text)


# The form of every answer.


def _check_response(what: str, response: HttpResponse | None) -> Iterator[CheckResult]:
    """Yield only what is wrong with the form of a response."""
    if response is None:
        return
    if response.status != 200:
        yield CheckResult("6.5", "wrong", f"{what} gets HTTP status {response.status}: errors have 200, too")
    if not response.headers.get("content-type", "").startswith("application/json"):
        yield CheckResult("6.5", "warning", f"{what}: the Content-Type is not application/json")
    match _json(response):
        case {"status": "success", "data": str()}:
            return
        case {"status": "success"}:
            yield CheckResult("2.1", "wrong", f"{what}: data must be a string that holds JSON")
        case {"status": "error", "error_code": str(code), "error_message": str(), **more}:
            if code == "AUTH_REQUIRED" and not more.get("resolution_hint"):
                text = f"{what}: AUTH_REQUIRED has no resolution_hint, so no person knows what to do"
                yield CheckResult("2.4", "warning", text)
        case {"status": "error"}:
            yield CheckResult("2.3", "wrong", f"{what}: an error has the texts error_code and error_message")
        case _:
            yield CheckResult("2.5", "wrong", f"{what}: the answer has no status 'success' or 'error'")


def _expect(clause: str, what: str, response: HttpResponse | None, *codes: CetpCode) -> CheckResult:
    """Return the result of a check: the response has to be an error with one of these codes."""
    answer = read_bundle(_json(response))
    if isinstance(answer, CetpError) and answer.error_code in codes:
        return CheckResult(clause, "ok", f"{what}: {answer.error_code}")
    found = answer.text if isinstance(answer, CetpError) else "a success"
    return CheckResult(clause, "wrong", f"{what} must be answered with {codes[0]}, not with {found}"[:500])


async def _send(calls: ProviderSocket, body: bytes) -> HttpResponse | None:
    """Return the answer; None when there is none."""
    try:
        return await _exchange(calls, "POST", PATH, body)
    except CallFailed:
        return None


async def _exchange(calls: ProviderSocket, method: str, target: str, body: bytes) -> HttpResponse:
    try:
        async with asyncio.timeout(_SECONDS):
            return await calls.exchange(method, target, body)
    except TimeoutError:
        raise CallFailed(f"no answer within {_SECONDS:g} seconds") from None


def _json(response: HttpResponse | None) -> Json:
    """Return the value of the body; null when there is none."""
    try:
        return strict_json.parse(response.body) if response is not None else None
    except WireError:
        return None


def is_valid(results: list[CheckResult]) -> bool:
    """Whether nothing is wrong. Warnings do not count."""
    return all(result.verdict != "wrong" for result in results)
