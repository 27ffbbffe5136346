"""The kit's router: which endpoint a request reaches, and what the door's envelope says where none answers."""

import logging
from typing import Any

import msgspec
import pytest

from handspan.gateway.http.message import AsgiRequest, AsgiResponse
from handspan.gateway.http.refusals import Refusal
from handspan.gateway.http.routing import Endpoint, Envelope, Router
from tests.gateway.entry.entering import Answer, nothing_received, scope

pytestmark = pytest.mark.anyio


def endpoint(name: str) -> Endpoint:
    """Says its name, and what the path has."""

    async def read(request: AsgiRequest) -> dict[str, object]:
        return {"found": dict(request.path_params)}

    async def work(found: dict[str, str]) -> object:
        if name == "broken":
            raise ValueError("secret")
        if name == "refuses":
            raise Refusal(409, "busy", "Not now.", 2.5)
        return [name, found]

    return Endpoint(read, work, lambda answered: AsgiResponse(msgspec.json.encode(answered)))


def translate(error: Exception) -> Refusal:
    return error if isinstance(error, Refusal) else Refusal(500, "failed", "It failed.")


def router(completed: list[int] | None = None) -> Router:
    def complete(request: AsgiRequest, response: AsgiResponse) -> AsgiResponse:
        if completed is not None:
            completed.append(response.status)
        return response

    envelope = Envelope(
        translate,
        lambda refusal: AsgiResponse(refusal.body(), refusal.status, refusal.headers),
        no_path="Nothing at {path!r}.",
        no_method="{method} is none of {allow} at {path!r}.",
        complete=complete,
    )
    table = {
        "/": {"GET": endpoint("home")},
        "/things": {"GET": endpoint("list"), "POST": endpoint("add")},
        "/things/{id}": {"PUT": endpoint("change"), "GET": endpoint("one")},
        "/things/all": {"GET": endpoint("all")},
        "/things/{id}/parts/{part}": {"GET": endpoint("part")},
        "/things/all/parts/{part}": {"GET": endpoint("part of all")},
        "/broken": {"GET": endpoint("broken")},
        "/refuses": {"GET": endpoint("refuses")},
    }
    return Router(table, envelope)


async def ask(path: str, method: str = "GET", *, root: str = "", raw: bytes | None = None) -> Answer:
    answer = Answer()
    asked = scope(path, method=method, root_path=root)
    if raw is not None:
        asked["raw_path"] = raw
    await router()(asked, nothing_received, answer)
    return answer


def told(answer: Answer) -> Any:
    return msgspec.json.decode(answer.body)


@pytest.mark.parametrize(
    ("method", "path", "name", "found"),
    [
        ("GET", "/", "home", {}),
        ("GET", "/things", "list", {}),
        ("POST", "/things", "add", {}),
        ("GET", "/things/7", "one", {"id": "7"}),
        ("GET", "/things/all", "all", {}),
        ("PUT", "/things/all", "change", {"id": "all"}),
        ("GET", "/things/all/parts/3", "part of all", {"part": "3"}),
        ("GET", "/things/7/parts/3", "part", {"id": "7", "part": "3"}),
        ("GET", "/things/手", "one", {"id": "手"}),
    ],
)
async def test_a_path_without_names_comes_before_one_with_them(
    method: str, path: str, name: str, found: dict[str, str]
) -> None:
    assert told(await ask(path, method)) == [name, found]


async def test_a_slash_that_was_sent_in_a_name_is_part_of_it() -> None:
    assert told(await ask("/things/a/b", raw=b"/things/a%2Fb?x=/y")) == ["one", {"id": "a/b"}]
    assert (await ask("/things/7/parts", raw=b"/things%2F7")).status == 404


async def test_below_a_prefix_the_table_begins_behind_it() -> None:
    assert told(await ask("/hs/things/7", root="/hs")) == ["one", {"id": "7"}]
    assert told(await ask("/hs", root="/hs")) == ["home", {}]


@pytest.mark.parametrize("path", ["/nothing", "/things/", "//things", "/things//parts/3", "/things/1/parts"])
async def test_a_path_that_is_none_is_told_in_the_words_of_the_door(path: str) -> None:
    answer = await ask(path)
    assert (answer.status, told(answer)) == (404, {"error": f"Nothing at {path!r}.", "code": "not_found"})


async def test_a_method_that_is_none_is_told_those_that_are() -> None:
    answer = await ask("/things/7", "DELETE")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, PUT")
    assert told(answer)["error"] == "DELETE is none of GET, HEAD, PUT at '/things/7'."


async def test_head_is_answered_as_get() -> None:
    assert (await ask("/things", "HEAD")).status == 200


async def test_a_refusal_is_sent_as_it_is_and_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask("/refuses")
    assert (answer.status, answer.headers["retry-after"]) == (409, "3")
    assert told(answer) == {"error": "Not now.", "code": "busy", "retry_after": 3}
    assert not caplog.records


async def test_what_no_rule_foresees_is_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    answer = await ask("/broken")
    assert (answer.status, told(answer)["code"]) == (500, "failed") and b"secret" not in answer.body
    (record,) = caplog.records
    assert record.levelno == logging.ERROR and "secret" in caplog.text


async def test_every_response_passes_the_door_before_it_is_sent() -> None:
    completed: list[int] = []
    for path in ("/things", "/refuses", "/nothing"):
        await router(completed)(scope(path), nothing_received, Answer())
    assert completed == [200, 409, 404]
