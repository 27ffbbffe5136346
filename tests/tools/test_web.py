"""The web tools against a real server on loopback."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from handspan.core.context import Deadline, ToolContext
from handspan.core.errors import ErrorCode, ToolError
from handspan.core.principals import BUILTIN, GLOBAL
from handspan.core.tool import Tool
from handspan.core.values import Json, JsonObject
from handspan.net.exchange import MEBIBYTE
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from handspan.registry.entry import Entry
from handspan.tools.web import HttpRequest, WebFetch, web_tools
from handspan.tools.web_search import SearchEndpoint, WebSearch
from handspan.tools.workspace import Workspace
from tests.net.site import Site, redirect, response

pytestmark = pytest.mark.anyio

LIMIT = 10 * MEBIBYTE


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.fixture
def guard() -> NetGuard:
    """Lets the test's own server through."""
    return NetGuard(UrlPolicy(allowed_domains=("127.0.0.1", "site.test")), resolve=at_home)


def web_fetch(guard: NetGuard, ctx: ToolContext) -> WebFetch:
    return WebFetch(guard, Workspace(ctx.workspace))


def http_request(guard: NetGuard, ctx: ToolContext, allowed_hosts: tuple[str, ...] | None = None) -> HttpRequest:
    return HttpRequest(guard, Workspace(ctx.workspace), allowed_hosts)


async def run(tool: WebFetch | HttpRequest | WebSearch, ctx: ToolContext, **arguments: Json) -> JsonObject:
    answer = await tool.run(arguments, ctx)
    assert isinstance(answer, dict)
    msgspec.json.encode(answer)
    return answer


async def failure(
    code: ErrorCode, tool: WebFetch | HttpRequest | WebSearch, ctx: ToolContext, **arguments: Json
) -> str:
    with pytest.raises(ToolError) as raised:
        await tool.run(arguments, ctx)
    assert raised.value.code == code, raised.value.message
    return raised.value.message


# All of them


async def test_each_tool_refuses_an_inner_address(ctx: ToolContext) -> None:
    closed = NetGuard(UrlPolicy(), resolve=at_home)
    for tool in (web_fetch(closed, ctx), http_request(closed, ctx)):
        for url in ("http://127.0.0.1/", "http://169.254.169.254/", "http://localhost/", "http://inner.test/"):
            assert "tools.url_policy.allowed_domains" in await failure("policy_denied", tool, ctx, url=url)
        await failure("invalid_arguments", tool, ctx, url="file:///etc/passwd")
        await failure("invalid_arguments", tool, ctx, url="http://2130706433/")
        await failure("invalid_arguments", tool, ctx, url="http://example.com/", headers={"X": "1\r\nY: 2"})


async def test_each_tool_keeps_to_the_time_that_the_call_has_left(ctx: ToolContext, guard: NetGuard) -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with Site({"/": silent}) as site:
        for tool in (web_fetch(guard, ctx), http_request(guard, ctx)):
            ctx.deadline = Deadline(time.monotonic() + 0.2, "the tool's own limit")
            await failure("timeout", tool, ctx, url=site.url())
        ctx.deadline = Deadline(time.monotonic() - 1, "the tool's own limit")
        await failure("timeout", WebSearch(guard, SearchEndpoint(site.url())), ctx, query="x")


def test_the_specs_say_what_the_tools_do(guard: NetGuard, workspace: Path) -> None:
    tools: dict[str, Tool] = {tool.spec.name: tool for tool in web_tools(guard, Workspace(workspace))}
    assert list(tools) == ["web_search", "web_fetch", "http_request"]
    for tool in tools.values():
        spec = tool.spec
        assert (spec.permissions, spec.timeout) == (("network",), 30)
        assert spec.annotations.open_world
        assert spec.annotations.read_only is (spec.name == "web_search")
        assert spec.annotations.destructive is (spec.name != "web_search")
        assert spec.parameters["additionalProperties"] is False
        properties = spec.parameters["properties"]
        assert isinstance(properties, dict)
        assert all(isinstance(schema, dict) and schema["description"] for schema in properties.values())


# web_fetch


async def test_a_page_comes_as_markdown_in_place_of_its_source(ctx: ToolContext, guard: NetGuard) -> None:
    page = b"<html><script>no()</script><h1>Hello</h1><a href=/x>link</a></html>"
    async with Site({"/p": response(page, headers={"Content-Type": "text/html; charset=utf-8"})}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url("/p"))
        assert answer == {
            "status": 200,
            "content_type": "text/html; charset=utf-8",
            "url": site.url("/p"),
            "bytes": len(page),
            "markdown": f"# Hello\n\n[link]({site.url('/x')})",
        }
        raw = await run(web_fetch(guard, ctx), ctx, url=site.url("/p"), raw=True)
        assert raw["body"] == page.decode() and "markdown" not in raw


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_a_page_is_asked_for_with_any_method(ctx: ToolContext, guard: NetGuard, method: str) -> None:
    async with Site({"/": response(b"done")}) as site:
        assert (await run(web_fetch(guard, ctx), ctx, url=site.url(), method=method))["status"] == 200
        assert site.seen[0].method == method


async def test_a_body_is_saved_as_it_is_and_its_folders_are_made(ctx: ToolContext, guard: NetGuard) -> None:
    image = bytes(range(256)) * 100
    async with Site({"/a.png": response(image, headers={"Content-Type": "image/png"})}) as site:
        for tool in (web_fetch(guard, ctx), http_request(guard, ctx)):
            answer = await run(tool, ctx, url=site.url("/a.png"), save_to="images/a.png")
            assert (answer["saved_to"], answer["bytes"]) == ("images/a.png", len(image))
            assert "body" not in answer
            assert (ctx.workspace / "images/a.png").read_bytes() == image
            (ctx.workspace / "images/a.png").unlink()


async def test_an_answer_without_success_is_not_saved(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"no such page", status="404 Not Found")}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url(), save_to="page.txt")
    assert (answer["note"], answer["body"]) == ("Nothing was saved: the server answered 404.", "no such page")
    assert not (ctx.workspace / "page.txt").exists()


async def test_a_body_above_the_limit_is_not_saved(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"x" * (LIMIT + 1))}) as site:
        text = await failure("file_too_large", web_fetch(guard, ctx), ctx, url=site.url(), save_to="a")
    assert f"longer than {LIMIT} bytes, so nothing was saved" in text
    assert not (ctx.workspace / "a").exists()


async def test_a_file_is_saved_nowhere_but_in_the_workspace(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"x")}) as site:
        await failure("invalid_path", web_fetch(guard, ctx), ctx, url=site.url(), save_to="../x")


@pytest.mark.parametrize("path", ["../receipt.json", "/receipt.json", "notes/", "notes", "locked.json", ".git/config"])
async def test_a_request_whose_answer_can_not_be_saved_is_not_sent(
    ctx: ToolContext, guard: NetGuard, path: str
) -> None:
    (ctx.workspace / "notes").mkdir()
    (ctx.workspace / "locked.json").touch(mode=0o444)
    async with Site({"/": response(b"{}", status="201 Created")}) as site:
        for tool in (web_fetch(guard, ctx), http_request(guard, ctx)):
            with pytest.raises(ToolError):
                await tool.run({"url": site.url(), "method": "POST", "save_to": path}, ctx)
        assert site.seen == []


async def test_an_answer_that_can_not_be_saved_any_more_is_returned(ctx: ToolContext, guard: NetGuard) -> None:
    async def answer_late(writer: asyncio.StreamWriter) -> None:
        (ctx.workspace / "receipt.json").mkdir(exist_ok=True)
        writer.write(response(b'{"order": 1}', status="201 Created"))
        await writer.drain()

    async with Site({"/": answer_late}) as site:
        answer = await run(http_request(guard, ctx), ctx, url=site.url(), method="POST", save_to="receipt.json")
    assert (answer["status"], answer["body"]) == (201, '{"order": 1}')
    assert "The request was sent (201); its answer was not saved: 'receipt.json' is a directory" in str(answer["note"])
    assert "saved_to" not in answer


async def test_a_redirect_to_what_is_no_web_page_is_the_servers_fault(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": redirect("file:///etc/passwd")}) as site:
        text = await failure("network_error", web_fetch(guard, ctx), ctx, url=site.url())
    assert "redirects to 'file:///etc/passwd', which can't be asked: url must start with http:// or https://." in text


@pytest.mark.parametrize("name", ["web_fetch", "http_request"])
def test_only_calls_that_read_count_as_read_only(guard: NetGuard, workspace: Path, name: str) -> None:
    tool = next(tool for tool in web_tools(guard, Workspace(workspace)) if tool.spec.name == name)
    entry = Entry(tool, BUILTIN, GLOBAL, {})
    for arguments, only_reads in (
        ({"url": "u"}, True),
        ({"url": "u", "method": "HEAD"}, True),
        ({"url": "u", "method": "POST"}, False),
        ({"url": "u", "save_to": "f"}, False),
    ):
        annotations = entry.spec_for(arguments).annotations
        assert (annotations.read_only, annotations.destructive, annotations.open_world) == (
            only_reads,
            not only_reads,
            True,
        )


async def test_a_page_longer_than_its_markdown_says_so(ctx: ToolContext, guard: NetGuard) -> None:
    page = b"<p>" + b"word " * 200_000
    async with Site({"/": response(page, headers={"Content-Type": "text/html"})}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url())
        assert answer["markdown_truncated"] is True
        assert answer["bytes"] == len(page)


async def test_plain_text_comes_without_markdown(ctx: ToolContext, guard: NetGuard) -> None:
    routes = {
        "/text": response("grüß".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"}),
        "/json": response(b'{"a": 1}', headers={"Content-Type": "application/json"}),
        "/empty": response(b"", headers={"Content-Type": "text/html"}),
        "/untyped": response(b"hello"),
    }
    async with Site(dict(routes)) as site:
        bodies = [await run(web_fetch(guard, ctx), ctx, url=site.url(path)) for path in routes]
        assert [answer["body"] for answer in bodies] == ["grüß", '{"a": 1}', "", "hello"]
        assert all("markdown" not in answer for answer in bodies)


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "image/png"}, {"Content-Type": "text/plain", "Content-Encoding": "br"}]
)
async def test_what_is_not_text_is_named_and_not_shown(
    ctx: ToolContext, guard: NetGuard, headers: dict[str, str]
) -> None:
    async with Site({"/": response(b"\x89PNG\x00\xff", headers=headers)}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url())
        assert (answer["body"], answer["binary"], answer["bytes"]) == ("", True, 6)
        assert headers["Content-Type"] in str(answer["warning"])
        assert "6 bytes" in str(answer["warning"])
        assert "save_to saves it" in str(answer["warning"])


async def test_a_body_over_ten_megabytes_is_cut_and_says_so(ctx: ToolContext, guard: NetGuard) -> None:
    body = b"x" * (LIMIT + 5)
    async with Site({"/": response(body, headers={"Content-Type": "text/plain"})}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url())
        assert (answer["truncated"], answer["limit_bytes"], answer["bytes"]) == (True, LIMIT, LIMIT)
        assert answer["total_bytes"] == LIMIT + 5
        assert answer["body"] == "x" * LIMIT


async def test_a_cut_body_that_is_not_text_says_both(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"\0" * (LIMIT + 1), length=False)}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url())
        assert (answer["truncated"], answer["binary"]) == (True, True)
        assert "total_bytes" not in answer
        assert "of unknown type" in str(answer["warning"])
        assert "or more" in str(answer["warning"])
        assert "save_to" not in str(answer["warning"]), "a cut body can't be saved"


async def test_head_gives_status_and_type_only(ctx: ToolContext, guard: NetGuard) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1234\r\nConnection: close\r\n\r\n"
    async with Site({"/": head}) as site:
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url(), method="HEAD", headers={"Accept": "text/html"})
        assert (answer["status"], answer["content_type"], answer["body"]) == (200, "text/html", "")
        assert (site.seen[0].method, site.seen[0].headers["accept"]) == ("HEAD", "text/html")


async def test_a_page_that_is_missing_or_broken_is_still_an_answer(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/500": response(b"oops", "500 Internal"), "/moved": redirect("/500")}) as site:
        assert (await run(web_fetch(guard, ctx), ctx, url=site.url("/missing")))["status"] == 404
        answer = await run(web_fetch(guard, ctx), ctx, url=site.url("/moved"))
        assert (answer["status"], answer["url"], answer["body"]) == (500, site.url("/500"), "oops")


# http_request


async def test_a_server_error_is_a_network_error_with_the_head_of_its_body(ctx: ToolContext, guard: NetGuard) -> None:
    routes = {
        "/503": response(b"come back " * 300, "503 Busy", {"Content-Type": "text/plain", "Retry-After": "7"}),
        "/500": response(b"", "500 Oops"),
        "/502": response(b"\0\1", "502 Bad", {"Content-Type": "image/png"}),
    }
    async with Site(dict(routes)) as site:
        message = await failure("network_error", http_request(guard, ctx), ctx, url=site.url("/503"))
        assert message.startswith(
            f"HTTP 503 from {site.url('/503')}. Headers: retry-after: 7; content-type: text/plain;"
        )
        assert "Body: come back come back" in message and len(message) < 1300
        assert "The body is empty." in await failure(
            "network_error", http_request(guard, ctx), ctx, url=site.url("/500")
        )
        assert "image/png" in await failure("network_error", http_request(guard, ctx), ctx, url=site.url("/502"))


async def test_a_host_outside_the_own_list_is_refused_with_its_setting(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"ok")}) as site:
        site.routes["/out"] = redirect(site.url(host="site.test"))
        tool = http_request(guard, ctx, ("127.0.0.1",))
        assert (await run(tool, ctx, url=site.url()))["status"] == 200
        for url in (site.url(host="site.test"), site.url("/out")):
            assert "tools.http_request.allowed_hosts" in await failure("policy_denied", tool, ctx, url=url)
        await failure("policy_denied", http_request(guard, ctx, ()), ctx, url=site.url())


async def test_a_get_with_a_body_is_refused(ctx: ToolContext, guard: NetGuard) -> None:
    assert "POST" in await failure(
        "invalid_arguments", http_request(guard, ctx), ctx, url="http://site.test/", body="x"
    )


async def test_every_other_status_is_a_success_with_headers_and_body(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"no such thing", "404 Not Found", {"X-Reason": "gone"})}) as site:
        answer = await run(http_request(guard, ctx), ctx, url=site.url(), body="")
        assert (answer["status"], answer["body"], answer["url"], answer["bytes"]) == (
            404,
            "no such thing",
            site.url(),
            13,
        )
        assert isinstance(answer["headers"], dict)
        assert answer["headers"]["x-reason"] == "gone"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("body", "headers", "content_type"),
    [
        ('{"a": "ü"}', {}, "application/json"),
        (" [1]", {"X-Y": "z"}, "application/json"),
        ("grüß", {}, "text/plain; charset=utf-8"),
        ("a=b", {"content-TYPE": "application/x-www-form-urlencoded"}, "application/x-www-form-urlencoded"),
    ],
)
async def test_a_body_is_sent_with_its_type(
    ctx: ToolContext, guard: NetGuard, method: str, body: str, headers: dict[str, Json], content_type: str
) -> None:
    async with Site({"/": response(b"")}) as site:
        await run(http_request(guard, ctx), ctx, url=site.url(), method=method, body=body, headers=headers)
        seen = site.seen[0]
        assert (seen.method, seen.body.decode(), seen.headers["content-type"]) == (method, body, content_type)


async def test_an_object_or_array_is_sent_as_json(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"")}) as site:
        await run(http_request(guard, ctx), ctx, url=site.url(), method="PATCH", body={"a": ["ü"]})
        seen = site.seen[0]
        assert (seen.body.decode(), seen.headers["content-type"]) == ('{"a":["ü"]}', "application/json")


async def test_a_long_answer_is_cut_and_says_so(ctx: ToolContext, guard: NetGuard) -> None:
    async with Site({"/": response(b"x" * (LIMIT + 1), headers={"Content-Type": "text/plain"})}) as site:
        answer = await run(http_request(guard, ctx), ctx, url=site.url())
        assert (answer["truncated"], answer["limit_bytes"]) == (True, LIMIT)
