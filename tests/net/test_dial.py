"""Connections: looked up once, every answer judged, and dialled exactly where it was judged."""

import asyncio
import socket
from collections.abc import Sequence

import httpcore2
import pytest

from handspan.core.errors import ToolError
from handspan.net.dial import Dialer, resolve_by_system
from handspan.net.policy import UrlPolicy, UrlRules
from tests.net.site import Site

pytestmark = pytest.mark.anyio


class Names:
    """A resolver that gives each look-up of a name its next answer, the last one for ever."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(sequence) for name, sequence in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        sequence = self._answers.get(host)
        if not sequence:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return sequence.pop(0) if len(sequence) > 1 else sequence[0]


def dialer(names: Names, **policy: object) -> Dialer:
    return Dialer(UrlRules(UrlPolicy(**policy)), names)  # type: ignore[arg-type] # keywords of the struct, spelt in tests


async def refusal(made: Dialer, host: str, port: int = 80) -> ToolError:
    with pytest.raises(ToolError) as raised:
        await made.connect_tcp(host, port, timeout=5)
    return raised.value


@pytest.mark.parametrize(
    "answer",
    [
        ["127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"],
        ["127.0.0.1", "93.184.216.34"],
        ["2606:4700::1111", "::1"],
        ["::ffff:127.0.0.1"],
        ["::ffff:93.184.216.34"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%lo"],
        ["0.0.0.0"],
    ],
)
async def test_one_answer_that_is_not_public_refuses_the_name(answer: list[str]) -> None:
    names = Names(rebound_test=[answer])
    error = await refusal(dialer(names), "rebound.test")
    assert error.code == "policy_denied"
    assert names.asked == ["rebound.test"]


async def test_a_metadata_name_is_refused_without_a_look_up() -> None:
    names = Names(metadata_google_internal=[["93.184.216.34"]])
    assert (await refusal(dialer(names, allow_private=True), "metadata.google.internal")).code == "policy_denied"
    assert names.asked == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "127.1", "a%41b", "a\\b", "user@host", "-x", "fe80::1%lo"])
async def test_a_host_of_another_parser_is_judged_by_our_own_rules(host: str) -> None:
    names = Names()
    assert (await refusal(dialer(names, enabled=False), host)).code == "invalid_arguments"
    assert names.asked == []


async def test_a_name_that_does_not_exist_is_named() -> None:
    error = await refusal(dialer(Names()), "no-such-host.test")
    assert error.code == "network_error"
    assert "DNS" in error.message
    assert "'no-such-host.test'" in error.message


async def test_a_name_without_addresses_can_not_be_resolved() -> None:
    error = await refusal(dialer(Names(empty_test=[[]])), "empty.test")
    assert error.code == "network_error"
    assert "'empty.test'" in error.message


async def test_a_name_server_that_never_answers_is_given_up() -> None:
    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(ToolError, match=r"DNS: .*timeout") as raised:
        await Dialer(UrlRules(UrlPolicy()), never).connect_tcp("slow.test", 80, timeout=0.05)
    assert raised.value.code == "network_error"


async def test_a_socket_of_this_machine_is_no_way_out() -> None:
    with pytest.raises(ToolError) as raised:
        await dialer(Names(), enabled=False).connect_unix_socket("/run/docker.sock")
    assert raised.value.code == "policy_denied"


async def test_the_address_that_was_judged_is_the_one_that_is_dialled() -> None:
    names = Names(rebound_test=[["127.0.0.2"], ["127.0.0.1"]])
    made = dialer(names, allowed_domains=("127.0.0.2/32",))
    async with Site({}, "127.0.0.2") as allowed, Site({}, "127.0.0.1", allowed.port) as forbidden:
        stream = await made.connect_tcp("rebound.test", allowed.port, timeout=5)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.2"
        await stream.aclose()
        assert names.asked == ["rebound.test"]
        assert (await refusal(made, "rebound.test", allowed.port)).code == "policy_denied"
        assert forbidden.connections == 0


async def test_an_address_that_refuses_gives_way_to_the_next() -> None:
    names = Names(two_test=[["127.0.0.2", "127.0.0.1"]])
    async with Site({}) as site:
        made = dialer(names, allowed_domains=("two.test",))
        stream = await made.connect_tcp("two.test", site.port, timeout=5)
        assert stream.get_extra_info("server_addr")[0] == "127.0.0.1"
        await stream.aclose()


async def test_when_all_addresses_refuse_the_first_failure_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    names = Names(down_test=[["127.0.0.1", "127.0.0.1", "127.0.0.2"]])
    with pytest.raises(httpcore2.ConnectError):
        await dialer(names, allowed_domains=("down.test",)).connect_tcp("down.test", port)


async def test_an_ipv6_address_is_dialled_without_a_look_up() -> None:
    names = Names()
    try:
        site = await Site({}, "::1").__aenter__()
    except OSError:
        pytest.skip("this machine has no IPv6 on loopback")
    try:
        stream = await dialer(names, allowed_domains=("::1",)).connect_tcp("::1", site.port, timeout=5)
        await stream.aclose()
        assert names.asked == []
    finally:
        await site.__aexit__(None, None, None)


async def test_waiting_between_attempts_lets_others_run() -> None:
    await dialer(Names()).sleep(0)


async def test_the_systems_own_resolver_knows_localhost() -> None:
    found = await resolve_by_system("localhost", 80)
    assert {"127.0.0.1", "::1"} & set(found)
