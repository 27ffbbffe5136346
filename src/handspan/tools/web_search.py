"""Web search by the API that the operator chose: `web_search` (SPEC B).

An API is data (`SearchApi`): how a query is sent, and by which JSON pointers the answer is read. Every answer becomes a
list of title, url and snippet.
"""

import re
import time
from typing import Final, Literal, TypeAlias, cast
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct, structs

from handspan.core.context import ToolContext
from handspan.core.errors import ConfigError, ToolError
from handspan.core.late_imports import html
from handspan.core.tool import Annotations, Handling, ToolSpec, integer, parameters, string
from handspan.core.values import Arguments, Json, JsonObject, strip_invisible
from handspan.net.exchange import Fetched, OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.urls import parse_url

ENDPOINT_SETTING: Final = "tools.web_search.endpoint"
KEY_SETTING: Final = "tools.web_search.api_key"
POINTERS_SETTING: Final = "tools.web_search.pointers"

_LONGEST_SNIPPET: Final = 2000
_LONGEST_DETAIL: Final = 500
_USED_UP: Final = frozenset({402, 432, 433})
"""Statuses that mean that the plan is used up. 432 and 433 are Tavily's own."""

ApiName: TypeAlias = Literal["searxng", "brave", "tavily", "generic"]


class ResultPointers(Struct, frozen=True):
    """JSON pointers (RFC 6901): the list in the whole answer, and the three texts in each item of the list."""

    results: tuple[str, ...] = ("/results", "/web/results", "/items", "")
    """The first pointer that leads to a list is used."""
    title: tuple[str, ...] = ("/title", "/name")
    url: tuple[str, ...] = ("/url", "/link", "/href")
    snippet: tuple[str, ...] = ("/snippet", "/content", "/description", "/body")


class SearchApi(Struct, frozen=True):
    """How one API is asked, and how its answer is read."""

    query: str = "q"
    """The name of the parameter for the query."""
    count: str = "count"
    """The name of the parameter for the number of results; empty: the API has none."""
    most: int = 50
    """The largest count that the API takes."""
    posts: bool = False
    """Whether the parameters are sent as a JSON object by POST, not in the address."""
    more: tuple[tuple[str, str], ...] = ()
    """Further parameters, unless the endpoint itself has them."""
    path: str = ""
    """The path for an endpoint whose address has none."""
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    detail: tuple[str, ...] = ("/error/detail", "/detail/error", "/detail", "/error/message", "/error", "/message")
    """Where an error answer says what is wrong."""
    pointers: ResultPointers = ResultPointers()


APIS: Final[dict[ApiName, SearchApi]] = {
    "searxng": SearchApi(
        count="",
        more=(("format", "json"),),
        path="/search",
        pointers=ResultPointers(("/results",), snippet=("/content",)),
    ),
    "brave": SearchApi(
        most=20,
        path="/res/v1/web/search",
        key_header="X-Subscription-Token",
        key_prefix="",
        pointers=ResultPointers(("/web/results",), snippet=("/description",)),
    ),
    "tavily": SearchApi(
        query="query",
        count="max_results",
        most=20,
        posts=True,
        path="/search",
        pointers=ResultPointers(("/results",), snippet=("/content",)),
    ),
    "generic": SearchApi(),
}
_BY_HOST: Final[dict[str, ApiName]] = {"api.search.brave.com": "brave", "api.tavily.com": "tavily"}


class SearchEndpoint(Struct, frozen=True):
    """The API that the operator chose."""

    url: str
    key: str = ""
    api: ApiName | None = None
    """None: the API of the endpoint's host, or `generic` for another host."""
    pointers: tuple[tuple[str, str], ...] = ()
    """Pointers in place of the API's own, by their names in `ResultPointers`."""
    missing: str = ""
    """Why the endpoint can't be asked, such as a key that is not set."""


class WebSearch:
    """Searches by the endpoint that the operator configured."""

    spec = ToolSpec(
        name="web_search",
        description="Search the web and get titles, addresses and snippets of the best matches.",
        parameters=parameters(
            "query",
            query=string("Search query", minLength=1),
            num_results=integer("How many results at most", minimum=1, maximum=50, default=5),
        ),
        permissions=("network",),
        annotations=Annotations(read_only=True, open_world=True),
    )

    def __init__(self, guard: NetGuard, endpoint: SearchEndpoint | None) -> None:
        """Raise `ConfigError` for an endpoint that is not a URL, or for an invalid JSON pointer."""
        absent = f"no search API is set: the operator has to set {ENDPOINT_SETTING} to its URL"
        self.handling = Handling(
            missing=absent if endpoint is None else endpoint.missing, result_source=lambda _, value: "web search"
        )
        self._guard = guard
        if endpoint is not None:
            self._api = _api_of(endpoint)
            self._url = _complete_url(endpoint.url, self._api)
            self._headers = _headers(endpoint.key, self._api)
            # The operator chose this host, so it may be private. Redirects are checked like any other request.
            self._guard = guard.trust(endpoint.url)

    async def run(self, arguments: Arguments, ctx: ToolContext) -> Json:
        """Return the query and at most `num_results` results, each with title, url and snippet."""
        query, count = cast("str", arguments["query"]), cast("int", arguments.get("num_results", 5))
        seconds = max(0.001, ctx.deadline.at - time.monotonic()) if ctx.deadline else None
        fetched = await self._guard.fetch(self._request(query, count), RequestLimits(seconds=seconds))
        answer = _decode(fetched, self._api)
        return {"query": query, "results": _results(answer, self._api.pointers)[:count]}

    def _request(self, query: str, count: int) -> OutgoingRequest:
        api = self._api
        asked: JsonObject = {api.query: query} | ({api.count: min(count, api.most)} if api.count else {})
        if api.posts:
            headers = (*self._headers, ("Content-Type", "application/json"))
            return OutgoingRequest(self._url, "POST", headers, msgspec.json.encode(asked))
        joint = "&" if "?" in self._url else "?"
        return OutgoingRequest(f"{self._url}{joint}{urlencode(asked)}", headers=self._headers)


def _api_of(endpoint: SearchEndpoint) -> SearchApi:
    """Return the API of this endpoint, with the operator's pointers. Raises `ConfigError`."""
    try:
        host = parse_url(endpoint.url).host
    except ToolError as error:
        raise ConfigError(f"{ENDPOINT_SETTING}: {error.message}") from error
    api = APIS[endpoint.api or _BY_HOST.get(host, "generic")]
    for name, pointer in endpoint.pointers:
        if not re.fullmatch(r"(/([^~/]|~[01])*)+", pointer):
            text = f"{pointer!r} is no JSON pointer: it begins with '/', such as '/web/results'"
            raise ConfigError(f"{POINTERS_SETTING}.{name}: {text}.")
    given = {name: (pointer,) for name, pointer in endpoint.pointers}
    return structs.replace(api, pointers=structs.replace(api.pointers, **given))


def _complete_url(url: str, api: SearchApi) -> str:
    """Return the operator's address; the API's own path and parameters are added where the address has none."""
    parts = urlsplit(url)
    path = parts.path if parts.path.strip("/") or not api.path else api.path
    given = {pair.partition("=")[0] for pair in parts.query.split("&")}
    more = [f"{name}={value}" for name, value in api.more if name not in given]
    query = "&".join([*([parts.query] if parts.query else []), *more])
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def _headers(key: str, api: SearchApi) -> tuple[tuple[str, str], ...]:
    accept = ("Accept", "application/json")
    return (accept, (api.key_header, f"{api.key_prefix}{key}")) if key else (accept,)


def _decode(fetched: Fetched, api: SearchApi) -> Json:
    """Return the answer's JSON. Raises `ToolError` for an error status, or an answer that is not JSON."""
    try:
        answer: Json = msgspec.json.decode(fetched.body)
    except (msgspec.DecodeError, RecursionError):
        answer = None
        if fetched.status < 400:
            kind = fetched.headers.get("content-type", "no type")
            text = f"The search endpoint answered with {kind}, not with JSON; the operator should check"
            raise ToolError("execution_failed", f"{text} {ENDPOINT_SETTING}.") from None
    if fetched.status >= 400:
        raise _refusal(fetched, _detail(answer, api) or fetched.body.decode("utf-8", "replace"))
    return answer


def _refusal(fetched: Fetched, detail: str) -> ToolError:
    """Return the error for this status: what the API says, and what the model or the operator can do."""
    status, words = fetched.status, " ".join(strip_invisible(detail).split())[:_LONGEST_DETAIL].rstrip(".")
    says = f": {words}." if words else "."
    if status == 429:
        wait = fetched.headers.get("retry-after") or fetched.headers.get("x-ratelimit-reset", "").partition(",")[0]
        when = f"Try again in {wait} s" if wait.isdecimal() else "Try again later"
        return ToolError("rate_limited", f"The search endpoint takes no more requests now (HTTP 429){says} {when}.")
    if status in _USED_UP:
        text = f"The plan of the search endpoint is used up (HTTP {status}){says} The operator has to renew it."
        return ToolError("rate_limited", text)
    hint = f" The operator should check {KEY_SETTING}." if status in (401, 403) else ""
    if status == 403:
        hint += " A SearXNG answers so when its settings do not list `json` in `search.formats`."
    return ToolError("network_error", f"The search endpoint answered HTTP {status}{says}{hint}")


def _detail(answer: Json, api: SearchApi) -> str:
    return next((found for pointer in api.detail if isinstance(found := find(answer, pointer), str) and found), "")


def _results(answer: Json, pointers: ResultPointers) -> list[Json]:
    """Return the results in their order. Raises `ToolError` when no pointer leads to a list in the answer."""
    lists = (find(answer, pointer) for pointer in pointers.results)
    found = next((one for one in lists if isinstance(one, list)), None)
    if found is None:
        keys = ", ".join(map(repr, answer)) if isinstance(answer, dict) else type(answer).__name__
        raise ToolError(
            "execution_failed",
            f"The answer of the search endpoint has no list of results at {' or '.join(map(repr, pointers.results))}. "
            f"It has: {keys[:_LONGEST_DETAIL]}. The operator can name the place in {POINTERS_SETTING}.results.",
        )
    read = ({name: _text(item, getattr(pointers, name)) for name in ("title", "url", "snippet")} for item in found)
    return [cast("Json", result) for result in read if result["url"]]


def _text(item: Json, pointers: tuple[str, ...]) -> str:
    """Return the first text at these pointers, without the tags by which APIs mark matches."""
    found = next((one for pointer in pointers if isinstance(one := find(item, pointer), str) and one), "")
    plain = html.unescape(re.sub(r"</?[a-zA-Z][^<>]{0,100}>", "", found))
    return " ".join(strip_invisible(plain).split())[:_LONGEST_SNIPPET]


def find(value: Json, pointer: str) -> Json:
    """Return the value at this JSON pointer; None when there is no value."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
