"""The guard with a real server behind it: what works, what is refused, and what hostile answers can't do."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import Callable, Sequence

import httpcore2
import httpx2
import pytest

from handspan.core.errors import ErrorCode, ToolError
from handspan.net.exchange import Fetched, OutgoingRequest, RequestLimits
from handspan.net.guard import NetGuard
from handspan.net.policy import UrlPolicy
from tests.net.site import Site, redirect, response

pytestmark = pytest.mark.anyio

METADATA = "169.254.169.254"


async def all_at_home(host: str, port: int) -> Sequence[str]:
    """A resolver for which every name is this machine."""
    return ["127.0.0.1"]


def open_guard(*allowed: str) -> NetGuard:
    return NetGuard(UrlPolicy(allowed_domains=allowed or ("127.0.0.1", "site.test")), resolve=all_at_home)


async def fetch(url: str, limits: RequestLimits = RequestLimits(seconds=20), **request: object) -> Fetched:  # noqa: B008 - frozen
    return await open_guard().fetch(OutgoingRequest(url, **request), limits)  # type: ignore[arg-type] # struct fields


async def refused(
    code: ErrorCode,
    url: str,
    guard: NetGuard | None = None,
    limits: RequestLimits = RequestLimits(seconds=20),  # noqa: B008
) -> str:
    with pytest.raises(ToolError) as raised:
        await (guard or open_guard()).fetch(OutgoingRequest(url), limits)
    assert raised.value.code == code, raised.value.message
    return raised.value.message


# Refused before a packet is sent


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://localhost.:{port}/",
        "http://sub.localhost:{port}/",
        "http://anything.test:{port}/",
        "http://①②⑦.⓪.⓪.①:{port}/",
        "http://127。0。0。1:{port}/",
        "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:{port}/",
        "http://0.0.0.0:{port}/",
        "http://127.0.0.2:{port}/",
        "http://[::1]:{port}/",
        "http://[::]:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://[::ffff:7f00:1]:{port}/",
        "http://[::127.0.0.1]:{port}/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://[2002:7f00:1::]:{port}/",
        "http://[fe80::1]:{port}/",
        "http://10.0.0.1:{port}/",
        "http://100.64.0.1:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://169.254.169.254./latest/meta-data/",
        "http://[::ffff:169.254.169.254]/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/meta-data/",
        "http://100.100.100.200/latest/meta-data/",
        "http://168.63.129.16/machine?comp=goalstate",
        "http://metadata.google.internal/computeMetadata/v1/",
        "http://METADATA.google.internal./computeMetadata/v1/",
        "https://127.0.0.1:{port}/",
    ],
)
async def test_no_spelling_of_an_inner_address_is_connected_to(url: str) -> None:
    async with Site({"/": response(b"secret")}, "0.0.0.0") as site:
        message = await refused("policy_denied", url.format(port=site.port), NetGuard(UrlPolicy(), resolve=all_at_home))
        assert "tools.url_policy.allowed_domains" in message
        assert site.connections == 0


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "017700000001", "127.1", "0", "0177.0.0.1", "127.0.0.1%00.x"]
)
async def test_a_number_that_only_some_read_as_an_address_is_no_url(host: str) -> None:
    async with Site({"/": response(b"secret")}) as site:
        await refused("invalid_arguments", f"http://{host}:{site.port}/", NetGuard(UrlPolicy(enabled=False)))
        assert site.connections == 0


async def test_an_open_policy_still_parses_strictly_but_judges_no_address() -> None:
    async with Site({"/": response(b"hello")}) as site:
        guard = NetGuard(UrlPolicy(enabled=False))
        await refused("invalid_arguments", f"http://user@127.0.0.1:{site.port}/", guard)
        assert (await guard.fetch(OutgoingRequest(site.url()))).body == b"hello"


async def test_headers_can_not_smuggle_a_second_request() -> None:
    async with Site({"/": response(b"")}) as site:
        for name, value in (("X-A", "1\r\n\r\nGET /admin HTTP/1.1"), ("X\r\nX", "1"), ("Host", "inner.test")):
            with pytest.raises(ToolError) as raised:
                await fetch(site.url(), headers=((name, value),))
            assert raised.value.code == "invalid_arguments"
        with pytest.raises(ToolError):
            await fetch(site.url(), method="GET /admin HTTP/1.1\r\nX:")
        assert site.connections == 0


# Redirects


@pytest.mark.parametrize(
    "location",
    [
        f"http://{METADATA}/latest/meta-data/",
        f"//{METADATA}/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://10.0.0.1/",
        "http://localhost:1/",
        "http://inner.test/",
        "http://127.0.0.3:1/",
        "https://[::1]/",
    ],
)
async def test_a_redirect_is_judged_like_the_first_request(location: str) -> None:
    async with Site({"/": redirect(location)}) as site:
        message = await refused("policy_denied", site.url())
        assert f"{site.url()} redirects to" in message


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://127.1/", "http://u@127.0.0.1/"]
)
async def test_a_redirect_to_what_is_no_web_address_is_refused(location: str) -> None:
    async with Site({"/": redirect(location)}) as site:
        await refused("network_error", site.url())


async def test_a_name_that_turns_inward_between_two_hops_is_refused() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebinding(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    async with Site({"/": redirect("/again")}) as site:
        guard = NetGuard(UrlPolicy(allowed_domains=("127.0.0.0/8",)), resolve=rebinding)
        await refused("policy_denied", site.url(host="rebound.test"), guard)
        assert [seen.target for seen in site.seen] == ["/"]


async def test_a_loop_of_redirects_ends_after_five() -> None:
    async with Site({"/": redirect("/")}) as site:
        assert "redirects more than 5 times" in await refused("network_error", site.url())
        assert len(site.seen) == 6


async def test_five_redirects_are_followed() -> None:
    routes = {f"/{step}": redirect(f"/{step + 1}") for step in range(5)}
    async with Site({**routes, "/5": response(b"arrived")}) as site:
        fetched = await fetch(site.url("/0"))
        assert (fetched.body, fetched.url) == (b"arrived", site.url("/5"))


async def test_secrets_do_not_follow_to_another_origin() -> None:
    async with Site({"/": response(b"")}) as other, Site({"/": redirect(other.url(), "307 Temporary")}) as site:
        secrets = (("Authorization", "Bearer s3cret"), ("Cookie", "a=s3cret"), ("X-Key", "s3cret"), ("Accept", "a/b"))
        await fetch(site.url(), method="POST", headers=secrets, body=b"data")
        assert site.seen[0].headers["authorization"] == "Bearer s3cret"
        assert "s3cret" not in repr(other.seen)
        assert (other.seen[0].method, other.seen[0].body, other.seen[0].headers["accept"]) == ("POST", b"data", "a/b")
        assert other.seen[0].headers["host"] == f"127.0.0.1:{other.port}"


async def test_secrets_and_method_stay_within_one_origin() -> None:
    async with Site({"/": redirect("/b", "303 See Other"), "/b": response(b"ok")}) as site:
        await fetch(site.url(), method="POST", headers=(("X-Key", "s3cret"),), body=b"data")
        after = site.seen[1]
        assert (after.method, after.body, after.headers["x-key"]) == ("GET", b"", "s3cret")
        assert "content-length" not in after.headers


async def test_a_redirect_without_a_location_is_an_answer() -> None:
    async with Site({"/": response(b"choose", "302 Found")}) as site:
        assert (await fetch(site.url())).status == 302


async def test_a_location_with_letters_and_blanks_is_followed() -> None:
    async with Site({"/": redirect("/straße und mehr"), "/stra%C3%9Fe%20und%20mehr": response(b"ok")}) as site:
        assert (await fetch(site.url())).body == b"ok"


# The environment


async def test_proxies_and_netrc_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    async with Site({"/": response(b"direct")}) as site, Site({}) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        netrc = f"{tmp_path}/netrc"
        with open(netrc, "w") as file:  # noqa: ASYNC230 - a test's own small file
            file.write("machine 127.0.0.1 login user password s3cret\n")
        monkeypatch.setenv("NETRC", netrc)
        assert (await fetch(site.url())).body == b"direct"
        assert proxy.connections == 0
        assert "authorization" not in site.seen[0].headers


# Hostile answers

Writer = asyncio.StreamWriter


async def endless(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


async def silent(writer: Writer) -> None:
    await asyncio.Event().wait()


async def dripping(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless_early_hints(writer: Writer) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.001)


async def endless_headers(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-Filler: " + b"y" * 1000 + b"\r\n")
        await writer.drain()


async def hang_up(writer: Writer) -> None:
    writer.close()


async def reset(writer: Writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()


def bomb() -> bytes:
    packed = gzip.compress(bytes(50_000_000))
    return response(packed, headers={"Content-Encoding": "gzip"})


async def test_an_endless_answer_stops_at_the_limit() -> None:
    async with Site({"/": endless}) as site:
        fetched = await fetch(site.url(), RequestLimits(seconds=20, body_bytes=100_000))
        assert fetched.truncated
        assert fetched.body == b"x" * 100_000


async def test_an_inflating_answer_stops_at_the_limit() -> None:
    async with Site({"/": bomb()}) as site:
        fetched = await fetch(site.url(), RequestLimits(seconds=20, body_bytes=1_000_000))
        assert fetched.truncated
        assert len(fetched.body) == 1_000_000


async def test_an_answer_of_exactly_the_limit_is_whole() -> None:
    async with Site({"/": response(b"x" * 1000)}) as site:
        assert not (await fetch(site.url(), RequestLimits(body_bytes=1000))).truncated
        assert (await fetch(site.url(), RequestLimits(body_bytes=999))).truncated


async def test_codings_stacked_on_each_other_are_refused_unread() -> None:
    twice = gzip.compress(gzip.compress(b"x" * 1_000_000))
    for headers in ({"Content-Encoding": "gzip, gzip"}, {"Content-Encoding": "gzip", "content-encoding": "deflate"}):
        async with Site({"/": response(twice, headers=headers)}) as site:
            assert "stacked" in await refused("network_error", site.url())


@pytest.mark.parametrize("answer", [silent, dripping, endless_early_hints])
async def test_the_deadline_covers_everything(answer: Callable[[Writer], object]) -> None:
    async with Site({"/": answer}) as site:  # type: ignore[dict-item] # a coroutine function of this module
        assert "within 0.2 s" in await refused("timeout", site.url(), limits=RequestLimits(seconds=0.2))


async def test_the_deadline_covers_the_look_up_and_the_redirects() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    await refused("timeout", "http://slow.test/", NetGuard(resolve=never), RequestLimits(seconds=0.1))
    async with Site({"/": redirect("/slow"), "/slow": silent}) as site:
        await refused("timeout", site.url(), limits=RequestLimits(seconds=0.2))


@pytest.mark.parametrize(
    "answer",
    [
        response(headers={"X-Huge": "x" * 300_000}),
        endless_headers,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntoo short",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n",
        response(b"this is not gzip", headers={"Content-Encoding": "gzip"}),
        hang_up,
        b"",
    ],
)
async def test_a_broken_answer_is_a_protocol_error(answer: bytes | Callable[[Writer], object]) -> None:
    async with Site({"/": answer}) as site:  # type: ignore[dict-item] # a coroutine function of this module
        message = await refused("network_error", site.url())
        assert "Protocol error" in message
        assert f"'127.0.0.1' port {site.port}" in message


async def test_a_connection_that_breaks_is_told() -> None:
    async with Site({"/": reset}) as site:
        assert "broke" in await refused("network_error", site.url())


async def test_a_refused_connection_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    assert f"refused by '127.0.0.1' port {port}" in await refused("network_error", f"http://127.0.0.1:{port}/")


async def test_an_address_that_can_not_be_reached_is_told() -> None:
    everywhere = "255.255.255.255"  # refused by this machine itself
    assert "No connection to" in await refused("network_error", f"http://{everywhere}/", open_guard(everywhere))


async def test_an_unknown_host_is_named() -> None:
    async def no_address(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert "cannot resolve host 'nowhere.test'" in await refused(
        "network_error", "http://nowhere.test/", NetGuard(resolve=no_address)
    )


async def test_a_connection_that_is_never_answered_is_a_network_error_with_its_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handspan.net.guard.CONNECT_SECONDS", 0.1)
    async with Site({}) as site:
        # This server waits for the end of a plain request, so it never shakes hands.
        assert "Timeout" in await refused("network_error", f"https://127.0.0.1:{site.port}/")


async def test_without_a_total_limit_a_silence_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handspan.net.guard.SILENCE_SECONDS", 0.1)
    async with Site({"/": silent}) as site:
        assert "Timeout" in await refused("network_error", site.url(), limits=RequestLimits(seconds=None))


async def test_a_cancelled_request_leaves_no_connection_behind() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def watch(writer: Writer) -> None:
        arrived.set()
        with pytest.raises(ConnectionError):
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
        gone.set()

    async with Site({"/": watch}) as site:
        task = asyncio.create_task(fetch(site.url(), RequestLimits(seconds=None, body_bytes=10**12)))
        async with asyncio.timeout(60):
            await arrived.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await gone.wait()
        assert task.cancelled()


# What must work


async def test_a_page_is_fetched_with_status_headers_and_body() -> None:
    async with Site({"/a": response(b"hello", headers={"X-Two": "one", "x-two": "two"})}) as site:
        fetched = await fetch(site.url("/a?q=ü&r=%2F#part"))
        assert (fetched.status, fetched.body, fetched.truncated) == (200, b"hello", False)
        assert fetched.headers["x-two"] == "one, two"
        assert fetched.url == site.url("/a?q=ü&r=%2F")
        assert site.seen[0].target == "/a?q=%C3%BC&r=%2F"
        assert site.seen[0].headers["user-agent"] == "handspan"


async def test_the_host_header_stays_the_name() -> None:
    async with Site({"/": response(b"ok")}) as site:
        await fetch(site.url(host="site.test"))
        assert site.seen[0].headers["host"] == f"site.test:{site.port}"


@pytest.mark.parametrize(
    "status", ["200 OK", "204 No Content", "304 Not Modified", "404 Not Found", "500 Oops", "418 Tea"]
)
async def test_every_status_is_an_answer(status: str) -> None:
    async with Site({"/": response(b"", status)}) as site:
        assert (await fetch(site.url())).status == int(status[:3])


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes), ("", bytes)]
)
async def test_a_packed_answer_is_unpacked(coding: str, pack: Callable[[bytes], bytes]) -> None:
    async with Site({"/": response(pack(b"hello" * 1000), headers={"Content-Encoding": coding})}) as site:
        assert (await fetch(site.url())).body == b"hello" * 1000


async def test_chunked_and_unframed_answers_are_read_to_their_end() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    async with Site({"/chunked": chunked, "/unframed": response(b"hello", length=False)}) as site:
        assert (await fetch(site.url("/chunked"))).body == b"hello"
        assert (await fetch(site.url("/unframed"))).body == b"hello"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_usual_method_is_sent(method: str) -> None:
    async with Site({"/": response(b"")}) as site:
        await fetch(site.url(), method=method)
        assert site.seen[0].method == method


async def test_a_body_and_headers_arrive_as_given() -> None:
    async with Site({"/": response(b"")}) as site:
        await fetch(site.url(), method="PUT", headers=(("X-Title", "Zürich"), ("Accept", "a/b")), body="grüß".encode())
        seen = site.seen[0]
        assert (seen.body.decode(), seen.headers["x-title"], seen.headers["accept"]) == ("grüß", "Zürich", "a/b")


async def test_many_requests_at_once_each_get_their_own_answer() -> None:
    async with Site({f"/{n}": response(b"%d" % n) for n in range(30)}) as site:
        guard = open_guard()
        answers = await asyncio.gather(*(guard.fetch(OutgoingRequest(site.url(f"/{n}"))) for n in range(30)))
        assert [answer.body for answer in answers] == [b"%d" % n for n in range(30)]


async def test_a_cookie_of_a_redirect_goes_back_to_its_own_host_only() -> None:
    set_cookie = response(status="302 Found", headers={"Location": "/b", "Set-Cookie": "seen=1"})
    async with Site({"/": response(b"")}) as other, Site({}) as site:
        site.routes = {"/": set_cookie, "/b": redirect(other.url(host="site.test"))}
        await fetch(site.url())
        assert site.seen[1].headers["cookie"] == "seen=1"
        assert "cookie" not in other.seen[0].headers


# Guards made from a guard, and clients for other rooms


async def test_a_trusted_url_may_be_private_with_its_port_and_nothing_else() -> None:
    async with Site({"/": response(b"ok")}) as site, Site({"/": response(b"no")}) as other:
        guard = NetGuard(UrlPolicy(), resolve=all_at_home).trust(site.url(host="search.test"))
        assert (await guard.fetch(OutgoingRequest(site.url(host="search.test")))).body == b"ok"
        for url in (other.url(host="search.test"), site.url(), site.url(host="else.test")):
            await refused("policy_denied", url, guard)
        assert NetGuard().trust("http://[::1]:8080/") is not None


async def test_a_narrowed_guard_reaches_its_hosts_only_also_by_redirect() -> None:
    async with Site({}) as site:
        site.routes = {"/": redirect(site.url(host="site.test"))}
        guard = open_guard().restrict_to(("127.0.0.1",), "tools.x.hosts")
        message = await refused("policy_denied", site.url(), guard)
        assert "tools.x.hosts" in message
        assert len(site.seen) == 1


async def test_a_client_for_other_rooms_is_judged_too() -> None:
    async with Site({"/v1/x": response(b"ok"), "/r": redirect(f"http://{METADATA}/")}) as site:
        headers = {"X-Key": "k", "User-Agent": "model"}
        async with open_guard().client(base_url=site.url("/v1"), headers=headers, timeout=5) as client:
            assert (await client.get("/x")).text == "ok"
            assert site.seen[0].headers["x-key"] == "k"
            assert site.seen[0].headers["user-agent"] == "model"
            assert (await client.get(site.url("/r"))).status_code == 302
            for url in (f"http://{METADATA}/", "http://127.0.0.9/", "http://inner.test/"):
                with pytest.raises(ToolError) as raised:
                    await client.get(url)
                assert raised.value.code == "policy_denied"
            with pytest.raises(ToolError) as raised:
                await client.get("http://2130706433/")
            assert raised.value.code == "invalid_arguments"


def test_httpx2_keeps_its_pool_where_the_guard_puts_its_own() -> None:
    assert isinstance(httpx2.AsyncHTTPTransport()._pool, httpcore2.AsyncConnectionPool)


async def test_a_connection_of_a_client_is_made_by_the_guards_dialer() -> None:
    asked: list[tuple[str, int]] = []

    async def noting(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return ["10.0.0.1"]

    async with NetGuard(resolve=noting).client() as client:
        with pytest.raises(ToolError):
            await client.get("http://watched.test:8080/")
    assert asked == [("watched.test", 8080)]


def test_without_a_place_for_the_guard_there_is_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    class Moved:
        def __init__(self, **_: object) -> None: ...

    monkeypatch.setattr(httpx2, "AsyncHTTPTransport", Moved)
    with pytest.raises(ToolError) as raised:
        NetGuard().client()
    assert raised.value.code == "internal_error"
