"""A model that does what the person says, and the gateway that has it."""

import asyncio
import json
import os
import signal
import sys
import urllib.request
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handspan.core.messages import AssistantMessage, CallResult, Message, ResultsMessage, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.models.model import Replied
from handspan.testing import FakeDevice, running_gateway
from handspan.testing.spoken import Spoken

pytestmark = pytest.mark.anyio

TOOLS = [ToolSpec(name, "For tests.", {"type": "object"}) for name in ("alpha", "beta")]


async def answered(messages: Sequence[Message], tools: Sequence[ToolSpec] = TOOLS) -> AssistantMessage:
    """What the model answers to this conversation."""
    model = Spoken()
    projection = model.projection("")
    for message in messages:
        projection.append(message)
    events = [event async for event in model.reply(projection, tools)]
    assert isinstance(events[-1], Replied)
    return events[-1].message


def asked(script: str) -> UserMessage:
    return UserMessage((Text(script),))


def results_of(message: AssistantMessage) -> ResultsMessage:
    return ResultsMessage(
        tuple(
            CallResult(call.id, call.name, f'{{"status":"success","result":"{call.name}"}}') for call in message.calls
        )
    )


async def test_a_conversation_without_a_person_ends_at_once() -> None:
    assert (await answered([])).text == "done"


async def test_broken_arguments_go_out_as_they_are() -> None:
    reply = await answered([asked('call alpha {"x": ')])
    assert [(call.name, call.arguments) for call in reply.calls] == [("alpha", '{"x":')]


async def test_without_tools_it_calls_nothing() -> None:
    reply = await answered([asked("call alpha")], tools=())
    assert (reply.calls, reply.text) == ((), "done")


async def test_a_round_with_nothing_in_it_says_done() -> None:
    first = await answered([asked("call alpha\nthen\n\nthen\nnever said")])
    second = await answered([asked("call alpha\nthen\n\nthen\nnever said"), first, results_of(first)])
    assert (second.calls, second.text, second.stop) == ((), "done", "end")


async def test_words_alone_are_said() -> None:
    reply = await answered([asked("  Good morning.\nHow are you?")])
    assert (reply.text, reply.stop) == ("Good morning.\nHow are you?", "end")


async def test_the_calls_of_a_round_are_made_at_once_with_the_words() -> None:
    reply = await answered([asked('Let me see.\ncall alpha {"x": 1}\ncall beta')])
    assert reply.text == "Let me see." and reply.stop == "calls"
    assert [(call.name, call.arguments) for call in reply.calls] == [("alpha", '{"x": 1}'), ("beta", "")]
    assert len({call.id for call in reply.calls}) == 2


async def test_the_next_round_can_say_the_results_and_the_tools() -> None:
    talk: list[Message] = [asked("earlier"), AssistantMessage((Text("earlier"),))]
    talk.append(asked("call alpha\ncall beta\nthen\nGot {results} of {tools} {others}"))
    talk.append(first := await answered(talk))
    talk.append(results_of(first))
    reply = await answered(talk)
    assert reply.text == (
        'Got [{"status":"success","result":"alpha"},{"status":"success","result":"beta"}] of ["alpha","beta"] {others}'
    )
    assert (await answered([asked("{results}")])).text == "[]"


async def test_after_the_last_round_it_says_done() -> None:
    talk: list[Message] = [asked("call alpha")]
    talk.append(first := await answered(talk))
    talk.append(results_of(first))
    assert (await answered(talk)).text == "done"


async def test_a_gateway_does_what_the_person_says(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, model=Spoken()) as gateway, FakeDevice(gateway.url, gateway.token) as chat:
        await chat.connect(role="chat")
        script = 'call get_current_time {"timezone": "UTC"}\nthen\nIt is {results}'
        await chat.send({"type": "message", "content": script})
        said = str((await chat.expect("done"))["full_response"])
        assert said.startswith('It is [{"status":"success"'), said


# `python -m handspan.testing`


@asynccontextmanager
async def started(folder: Path, *options: str) -> AsyncIterator[tuple[Process, Path]]:
    """The program, and the file that it writes when it is ready."""
    file = folder / "ready.json"
    words = ["-m", "handspan.testing", "--ready-file", str(file), *options]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, stderr=pipe)
    try:
        yield process, file
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def ready(process: Process, file: Path) -> dict[str, Any]:
    """What it wrote when it was ready."""
    async with asyncio.timeout(60):
        while (told := _told(file)) is None:
            assert process.returncode is None, await process.communicate()
            await asyncio.sleep(0.01)
    return told


def _told(file: Path) -> dict[str, Any] | None:
    text = file.read_text() if file.exists() else ""
    told: dict[str, Any] | None = json.loads(text) if text.startswith("{") else None
    return told


async def test_a_program_that_is_told_nonsense_says_so(tmp_path: Path) -> None:
    async with started(tmp_path, "--set", "gateway.port=none") as (process, _):
        _, said = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 2 and b"'none' is not JSON" in said


async def test_the_program_serves_until_it_is_ended(tmp_path: Path) -> None:
    (tmp_path / "ready.json").write_text("of an earlier process")
    state = ("--state", str(tmp_path / "state"), "--workspace", str(tmp_path / "work"))
    options = (*state, "--origins", "http://page.test", "--set", "gateway.resume_grace=1")
    async with started(tmp_path, *options) as (process, file):
        told = await ready(process, file)
        assert told["pid"] == process.pid and file.stat().st_mode & 0o777 == 0o600
        request = urllib.request.Request(
            f"{told['url']}/api/status",
            headers={"Authorization": f"Bearer {told['token']}", "Origin": "http://page.test"},
        )
        with await asyncio.to_thread(urllib.request.urlopen, request, timeout=10) as answer:
            assert json.load(answer)["model"] == "spoken"
            assert answer.headers["access-control-allow-origin"] == "http://page.test"
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert (tmp_path / "state").is_dir()


async def test_nothing_of_the_program_stays_where_it_was_given_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    async with started(tmp_path) as (process, file):
        await ready(process, file)
        assert os.listdir(temporary)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 60) == 0
    assert os.listdir(temporary) == []
