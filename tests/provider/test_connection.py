"""A consumer's calls to a provider that fails in every way: each is one answer, and none takes the consumer along."""

import asyncio
import sys
from pathlib import Path

import pytest

from handspan.provider.connection import ProviderSocket
from handspan.provider.launch import start_program, wait_until_listening
from handspan.testing import FakeProvider
from handspan.testing.provider import CODES
from handspan.wire.cetp import (
    CetpError,
    CetpRequest,
    CetpResponse,
    CetpSuccess,
    execute_request,
    read_data,
    read_info,
    read_tools,
)
from tests.waiting import soon

pytestmark = pytest.mark.anyio
UNANSWERED = ("cut_off", "cut_in_half", "not_http", "http_500", "says_more", "endless_head")


async def ask(provider: FakeProvider, tool: str, timeout: float | None = None) -> CetpResponse:
    """Call one tool over a connection of its own."""
    socket = ProviderSocket("org.example.fake", provider.path)
    try:
        return await soon(socket.call(execute_request(tool, {"a": 1}, "r1"), timeout))
    finally:
        socket.close()


@pytest.fixture
def path(run_folder: Path) -> Path:
    return run_folder / "fake.sock"


async def test_the_three_methods_are_answered_over_one_connection(path: Path) -> None:
    async with FakeProvider(path, ["echo", "writes"]) as provider:
        socket = ProviderSocket("org.example.fake", path)
        listed, info, called = [
            await socket.call(request)
            for request in (
                CetpRequest("list_tools"),
                CetpRequest("get_provider_info"),
                execute_request("echo", {"a": 1}),
            )
        ]
        assert isinstance(listed, CetpSuccess) and isinstance(info, CetpSuccess) and isinstance(called, CetpSuccess)
        assert [(tool.name, tool.only_reads) for tool in read_tools(listed.data).tools] == [
            ("echo", True),
            ("writes", False),
        ]
        assert read_info(info.data).provider_name == "Fake"
        assert read_data(called.data) == {"a": 1}
        assert provider.connections == 1
        socket.close()


@pytest.mark.parametrize("code", CODES)
async def test_every_error_code_arrives(code: str, path: Path) -> None:
    async with FakeProvider(path) as provider:
        answer = await ask(provider, code.lower())
    assert isinstance(answer, CetpError)
    assert answer.error_code == code
    assert (answer.authorize_intent != "") == (code == "AUTH_REQUIRED")


@pytest.mark.parametrize("fault", UNANSWERED)
async def test_a_provider_without_a_proper_answer_fails_that_call_alone(fault: str, path: Path) -> None:
    async with FakeProvider(path) as provider:
        answer = await ask(provider, fault)
        assert isinstance(answer, CetpError)
        assert answer.is_unanswered and "org.example.fake" in answer.error_message
        assert isinstance(await ask(provider, "echo"), CetpSuccess)


@pytest.mark.parametrize("fault", ["not_json", "odd_status", "odd_code", "says_less", "flood", "drip"])
async def test_an_answer_of_another_form_counts_as_an_internal_error(fault: str, path: Path) -> None:
    async with FakeProvider(path) as provider:
        answer = await ask(provider, fault)
        assert isinstance(answer, CetpError)
        assert (answer.error_code, answer.is_unanswered) == ("INTERNAL_ERROR", False)


async def test_data_that_is_too_deep_is_a_text(path: Path) -> None:
    async with FakeProvider(path) as provider:
        answer = await ask(provider, "deep")
    assert isinstance(answer, CetpSuccess)
    assert isinstance(read_data(answer.data), str)


async def test_a_provider_that_hangs_ends_with_the_time_and_hurts_no_other_call(path: Path) -> None:
    async with FakeProvider(path) as provider:
        answer = await ask(provider, "hang", timeout=0.05)
        assert isinstance(answer, CetpError)
        assert answer.is_unanswered and "0.05 seconds" in answer.error_message
        waiting = asyncio.create_task(ask(provider, "hang"))
        assert isinstance(await ask(provider, "echo"), CetpSuccess)
        provider.release()
        assert isinstance(await waiting, CetpSuccess)


async def test_a_provider_that_is_not_there_can_not_be_reached(path: Path) -> None:
    answer = await ProviderSocket("org.example.none", path).call(CetpRequest("list_tools"))
    assert isinstance(answer, CetpError)
    assert answer.is_unanswered


async def test_a_kept_connection_that_the_provider_closed_is_opened_again(path: Path) -> None:
    socket = ProviderSocket("org.example.fake", path)
    async with FakeProvider(path):
        assert isinstance(await socket.call(execute_request("echo", {})), CetpSuccess)
    async with FakeProvider(path):
        assert isinstance(await soon(socket.call(execute_request("echo", {}))), CetpSuccess)
    socket.close()


async def test_a_request_that_is_too_large_is_not_sent(path: Path) -> None:
    async with FakeProvider(path) as provider:
        socket = ProviderSocket("org.example.fake", path)
        answer = await socket.call(execute_request("echo", {"a": "x" * 2_000_000}))
        assert isinstance(answer, CetpError) and answer.error_code == "INVALID_ARGS"
        assert provider.requests == []


async def test_a_process_that_dies_in_mid_call_fails_the_call(path: Path, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "handspan.testing.provider"]
    process = await start_program(argv, path, environment)
    await wait_until_listening(path, process, 60)
    answer = await soon(ProviderSocket("org.example.fake", path).call(execute_request("die", {})))
    assert isinstance(answer, CetpError) and answer.is_unanswered
    assert await soon(process.wait()) == 1
