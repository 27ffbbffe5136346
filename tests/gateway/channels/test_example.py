"""The example of a program behind a webhook channel does what its text says."""

import asyncio
import socket
from pathlib import Path

import pytest
from examples import webhook

from tests.gateway.channels.place import SECRET, gateway_with
from tests.waiting import soon

pytestmark = pytest.mark.anyio


async def test_the_program_passes_a_message_on_and_prints_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OFFICE_SECRET", SECRET)
    office = {"type": "webhook", "url": f"http://127.0.0.1:{port}/", "secret": "env:OFFICE_SECRET", "allow": ["me"]}
    async with gateway_with(tmp_path, {"office": office}, ["It is late in Tokyo."]) as place:
        words = ["What time is it?", "--gateway", place.url, "--port", str(port)]
        assert await soon(asyncio.to_thread(webhook.main, words)) == 0
    assert capsys.readouterr().out == "It is late in Tokyo.\n"


async def test_a_wrong_secret_is_told_in_the_words_of_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    office = {"type": "webhook", "url": "http://127.0.0.1:1/", "secret": SECRET, "allow": ["me"]}
    monkeypatch.setenv("OFFICE_SECRET", "another one, which is long enough")
    async with gateway_with(tmp_path, {"office": office}, []) as place:
        words = ["What time is it?", "--gateway", place.url, "--port", "0"]
        assert await soon(asyncio.to_thread(webhook.main, words)) == 1
    said = capsys.readouterr().err
    assert said.startswith("The gateway refused the message (401): ") and "signature" in said


def test_without_a_gateway_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OFFICE_SECRET", SECRET)
    assert webhook.main(["hi", "--gateway", "http://127.0.0.1:1", "--port", "0"]) == 1
    assert "No gateway answers at http://127.0.0.1:1" in capsys.readouterr().err


def test_without_the_secret_it_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OFFICE_SECRET", raising=False)
    assert webhook.main(["hi"]) == 2
    assert "OFFICE_SECRET" in capsys.readouterr().err
