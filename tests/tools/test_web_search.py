"""`web_search`: each API is asked in its own words, and every answer has the same form."""

from collections.abc import Sequence

import msgspec
import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ConfigError, ErrorCode, ToolError
from handspan.core.values import Json, JsonObject
from handspan.net.guard import NetGuard
from handspan.tools.web_search import SearchEndpoint, WebSearch, find
from tests.net.site import Seen, Site, redirect, response

pytestmark = pytest.mark.anyio

# What each API answers, in the form that its documentation shows, with contents of our own.
SEARXNG: JsonObject = {
    "query": "tide",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://sea.example/tides",
            "title": "Tide tables",
            "content": "High water at &quot;noon&quot;.",
            "engine": "wikipedia",
            "parsed_url": ["https", "sea.example", "/tides", "", "", ""],
            "engines": ["wikipedia"],
            "positions": [1],
            "score": 1.0,
            "category": "general",
        },
        {"url": "https://moon.example/", "title": "The moon", "content": ""},
    ],
    "answers": [],
    "corrections": [],
    "infoboxes": [],
    "suggestions": ["tide times"],
    "unresponsive_engines": [["brave", "timeout"]],
}
BRAVE: JsonObject = {
    "type": "search",
    "query": {"original": "tide", "more_results_available": True},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "Tide tables",
                "url": "https://sea.example/tides",
                "is_source_local": False,
                "description": "High <strong>water</strong> at &quot;noon&quot;.",
                "profile": {"name": "Sea", "url": "https://sea.example/tides"},
                "language": "en",
            },
            {"title": "The moon", "url": "https://moon.example/", "description": ""},
        ],
        "family_friendly": True,
    },
}
TAVILY: JsonObject = {
    "query": "tide",
    "follow_up_questions": None,
    "answer": None,
    "images": [],
    "results": [
        {
            "title": "Tide tables",
            "url": "https://sea.example/tides",
            "content": 'High water at "noon".',
            "score": 0.98,
            "raw_content": None,
        },
        {"title": "The moon", "url": "https://moon.example/", "content": "", "score": 0.5},
    ],
    "response_time": "1.09",
    "request_id": "11111111-2222-4333-8444-555555555555",
}
FOUND: Json = [
    {"title": "Tide tables", "url": "https://sea.example/tides", "snippet": 'High water at "noon".'},
    {"title": "The moon", "url": "https://moon.example/", "snippet": ""},
]


async def at_home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def run(tool: WebSearch, ctx: ToolContext, **arguments: Json) -> JsonObject:
    answer = await tool.run(arguments, ctx)
    assert isinstance(answer, dict)
    return answer


async def failure(code: ErrorCode, ctx: ToolContext, endpoint: SearchEndpoint) -> str:
    with pytest.raises(ToolError) as raised:
        await WebSearch(NetGuard(), endpoint).run({"query": "x"}, ctx)
    assert raised.value.code == code, raised.value.message
    return raised.value.message


def test_without_an_endpoint_the_setting_is_named() -> None:
    assert "tools.web_search.endpoint" in WebSearch(NetGuard(), None).handling.missing


def test_an_endpoint_that_is_no_url_stops_the_start() -> None:
    with pytest.raises(ConfigError, match=r"tools\.web_search\.endpoint"):
        WebSearch(NetGuard(), SearchEndpoint("search.example"))


@pytest.mark.parametrize("pointer", ["results", "/a~2", "/~"])
def test_a_pointer_that_is_none_stops_the_start(pointer: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.web_search\.pointers\.results: .* is no JSON pointer"):
        WebSearch(NetGuard(), SearchEndpoint("http://search.test", pointers=(("results", pointer),)))


async def test_an_endpoint_is_asked_with_q_and_count(ctx: ToolContext) -> None:
    async with Site({"/s": response(b"[]")}) as site:
        tool = WebSearch(NetGuard(), SearchEndpoint(site.url("/s")))
        assert await run(tool, ctx, query="a b&c=ü", num_results=3) == {"query": "a b&c=ü", "results": []}
        assert site.seen[0].target == "/s?q=a+b%26c%3D%C3%BC&count=3"
        assert "authorization" not in site.seen[0].headers


async def test_an_endpoint_with_a_query_of_its_own_and_a_key_keeps_both(ctx: ToolContext) -> None:
    async with Site({"/s": response(b"[]")}) as site:
        await run(WebSearch(NetGuard(), SearchEndpoint(site.url("/s?lang=de"), "k3y")), ctx, query="x")
        assert site.seen[0].target == "/s?lang=de&q=x&count=5"
        assert site.seen[0].headers["authorization"] == "Bearer k3y"


@pytest.mark.parametrize(
    ("answer", "urls"),
    [
        ({"results": [{"url": f"https://{n}.example"} for n in range(9)]}, ["https://0.example", "https://1.example"]),
        ({"web": {"results": [{"link": "https://a.example"}]}}, ["https://a.example"]),
        ({"items": [{"href": "https://a.example"}, {"title": "without an address"}, 7]}, ["https://a.example"]),
        ([{"url": "https://a.example"}], ["https://a.example"]),
        ({"results": []}, []),
    ],
)
async def test_a_generic_answer_is_read_at_the_usual_places(ctx: ToolContext, answer: Json, urls: list[str]) -> None:
    async with Site({"/s": response(msgspec.json.encode(answer))}) as site:
        found = await run(WebSearch(NetGuard(), SearchEndpoint(site.url("/s"))), ctx, query="x", num_results=2)
    results = msgspec.convert(found["results"], list[dict[str, str]])
    assert [one["url"] for one in results] == urls
    assert all(set(one) == {"title", "url", "snippet"} for one in results)


async def test_an_answer_of_another_form_is_read_by_pointers(ctx: ToolContext) -> None:
    answer: Json = {"data": {"hits/1": [{"doc": {"name": "N"}, "at": ["https://a.example"], "text": "T"}]}}
    pointers = (("results", "/data/hits~11"), ("title", "/doc/name"), ("url", "/at/0"), ("snippet", "/text"))
    async with Site({"/s": response(msgspec.json.encode(answer))}) as site:
        found = await run(WebSearch(NetGuard(), SearchEndpoint(site.url("/s"), pointers=pointers)), ctx, query="x")
        message = await failure("execution_failed", ctx, SearchEndpoint(site.url("/s")))
    assert found["results"] == [{"title": "N", "url": "https://a.example", "snippet": "T"}]
    assert "It has: 'data'" in message and "tools.web_search.pointers.results" in message


async def search(site: Site, endpoint: SearchEndpoint, ctx: ToolContext, count: int) -> Seen:
    """Search, and return the request that came."""
    found = await run(WebSearch(NetGuard(resolve=at_home), endpoint), ctx, query="tide", num_results=count)
    assert found == {"query": "tide", "results": FOUND}
    return site.seen[-1]


async def test_searxng_is_asked_for_json_at_its_own_path(ctx: ToolContext) -> None:
    async with Site({"/search": response(msgspec.json.encode(SEARXNG))}) as site:
        for path in ("/", "/search", "/search?format=json"):
            asked = await search(site, SearchEndpoint(site.url(path), api="searxng"), ctx, 2)
            assert (asked.method, asked.target) == ("GET", "/search?format=json&q=tide")
        one = await run(
            WebSearch(NetGuard(), SearchEndpoint(site.url(), api="searxng")), ctx, query="tide", num_results=1
        )
    assert one["results"] == msgspec.convert(FOUND, list[JsonObject])[:1]


async def test_brave_is_known_by_its_host_and_gets_its_key_in_its_own_header(ctx: ToolContext) -> None:
    async with Site({"/res/v1/web/search": response(msgspec.json.encode(BRAVE))}) as site:
        asked = await search(site, SearchEndpoint(site.url("/", host="api.search.brave.com"), "k3y"), ctx, 50)
    assert asked.target == "/res/v1/web/search?q=tide&count=20"
    assert asked.headers["x-subscription-token"] == "k3y" and "authorization" not in asked.headers


async def test_tavily_is_known_by_its_host_and_asked_by_post(ctx: ToolContext) -> None:
    async with Site({"/search": response(msgspec.json.encode(TAVILY))}) as site:
        asked = await search(site, SearchEndpoint(site.url("", host="api.tavily.com"), "tvly-k3y"), ctx, 7)
    assert (asked.method, asked.target, asked.headers["authorization"]) == ("POST", "/search", "Bearer tvly-k3y")
    assert msgspec.json.decode(asked.body) == {"query": "tide", "max_results": 7}


async def test_a_search_endpoint_is_trusted_itself_and_its_redirects_are_not(ctx: ToolContext) -> None:
    async with Site({"/s": redirect("http://127.0.0.1:1/")}) as site:
        await failure("policy_denied", ctx, SearchEndpoint(site.url("/s"), "k3y"))


BRAVE_LIMIT = {"type": "ErrorResponse", "error": {"status": 429, "code": "RATE_LIMITED", "detail": "Slow down."}}


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (response(b"who are you", "401 Unauthorized"), "network_error", ("401", "tools.web_search.api_key")),
        (response(b"", "403 Forbidden"), "network_error", ("tools.web_search.api_key", "search.formats")),
        (response(b"oops", "500 Oops"), "network_error", ("HTTP 500: oops.",)),
        (
            response(msgspec.json.encode(BRAVE_LIMIT), "429 Too Many", {"X-RateLimit-Reset": "1, 2419200"}),
            "rate_limited",
            ("HTTP 429", "Slow down.", "in 1 s"),
        ),
        (response(b"", "429 Too Many", {"Retry-After": "30"}), "rate_limited", ("Try again in 30 s.",)),
        (
            response(b'{"detail": {"error": "This request exceeds your plan."}}', "432 Limit"),
            "rate_limited",
            ("HTTP 432", "exceeds your plan", "operator has to renew"),
        ),
        (response(b"<html>", headers={"Content-Type": "text/html"}), "execution_failed", ("text/html",)),
        (response(b"[" * 100_000), "execution_failed", ("not with JSON",)),
        (response(b'{"answer": "42"}'), "execution_failed", ("no list of results", "'answer'")),
    ],
)
async def test_a_refusal_of_the_api_says_what_it_is_and_what_to_do(
    ctx: ToolContext, answer: bytes, code: ErrorCode, says: tuple[str, ...]
) -> None:
    async with Site({"/s": answer}) as site:
        message = await failure(code, ctx, SearchEndpoint(site.url("/s")))
    assert [word for word in says if word not in message] == [], message


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a": [{"b/c": 1, "~": 2}]}),
        ("/a/0/b~1c", 1),
        ("/a/0/~0", 2),
        ("/a/1", None),
        ("/a/x", None),
        ("/a/0/q/r", None),
    ],
)
def test_a_pointer_leads_to_a_value_or_to_none(pointer: str, found: Json) -> None:
    assert find({"a": [{"b/c": 1, "~": 2}]}, pointer) == found
