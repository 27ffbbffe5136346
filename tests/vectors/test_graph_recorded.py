"""What the unmodified AgentFlow client once sent, sent again to our gateway: every answer is one that it can use.

The recorded servers did not complete its loop; ours does. Calls in recorded results are those of the servers of that
time: here they are replaced by those that our gateway asked.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from handspan.core.images import ImageReader
from handspan.core.messages import Message, Text, UserMessage
from handspan.core.tool import ToolSpec
from handspan.core.values import Json
from handspan.models.kept_messages import KeptMessages
from handspan.models.model import ModelEvent, Projection
from handspan.testing import running_gateway
from handspan.testing.spoken import Spoken
from tests.recorded import FOLDER

CLIENTS: dict[str, list[tuple[str, str, Json]]] = json.loads((FOLDER / "graph_client.json").read_text(encoding="utf-8"))
"""What the client sent, one conversation a name: method, path and body of each request."""
ROLES = {"user", "assistant", "system", "tool"}

# What the graphs of that time did when a person said these words.
SCRIPTS = {
    "remote": 'call echo {"x": 1}\nthen\nfinal after {results}',
    "multi": 'call echo {"x": 1}\ncall get_current_time {"timezone": "UTC"}\ncall boom\nthen\nfinal after {results}',
    "local": 'call get_current_time {"timezone": "UTC"}\nthen\nfinal after {results}',
}


class Originals:
    """The model of the recorded graphs."""

    name = "originals"

    def __init__(self) -> None:
        self._spoken = Spoken()

    def projection(self, instructions: str = "") -> KeptMessages:
        return KeptMessages(instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        assert isinstance(projection, KeptMessages)
        told = KeptMessages()
        told.messages = [_told(message) for message in projection.messages]
        return self._spoken.reply(told, specs, artifacts)


def _told(message: Message) -> Message:
    match message:
        case UserMessage(parts=(Text(text=word),)):
            return UserMessage((Text(SCRIPTS.get(word, word)),))
    return message


class Replay:
    """One conversation, sent request by request."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http
        self._open: list[str] = []
        self._renamed: dict[str, str] = {}
        self.finished = 0
        """How many runs with calls came to their end."""

    async def send(self, method: str, path: str, said: Json) -> None:
        """Send one request, and look at its answer as the client does."""
        body = "" if said is None else json.dumps(said, separators=(",", ":"))
        content = self._with_our_calls(body)
        headers = {"content-type": "application/json"} if content else {}
        answer = await self._http.request(method, path, content=content.encode(), headers=headers)
        assert answer.status_code == _expected(path, body), f"{path}: {answer.text[:1000]}"
        if path.endswith("/stream") and answer.status_code == 200:
            self._look_at([_chunk_for_client(chunk) for chunk in answer.text.splitlines()], '"tool_result"' in body)
            return
        shown = answer.json()
        _is_envelope(shown, answer.is_success)
        if path.endswith("/invoke") and answer.is_success:
            _is_invoke(shown["data"], msgspec.json.decode(body))
            self._look_at(shown["data"]["messages"], '"tool_result"' in body)

    def _with_our_calls(self, body: str) -> str:
        """The body with the ids that our gateway gave, in the order in which it asked."""
        for recorded in re.findall(r'"call_id":"(call_\w+)"', body):
            if recorded not in self._renamed:
                self._renamed[recorded] = self._open.pop(0)
            body = body.replace(recorded, self._renamed[recorded])
        return body

    def _look_at(self, messages: list[Any], resumes: bool) -> None:
        blocks = [block for message in messages if message for block in message["content"]]
        self._open = [block["id"] for block in blocks if block["type"] == "remote_tool_call"]
        if resumes:
            assert self._open == [] and "final after" in blocks[-1]["text"] and '"got"' in blocks[-1]["text"]
            self.finished += 1


@pytest.mark.anyio
@pytest.mark.parametrize("requests", CLIENTS.values(), ids=CLIENTS)
async def test_everything_that_the_original_client_sent_is_answered_as_it_needs(
    requests: list[tuple[str, str, Json]], tmp_path: Path
) -> None:
    async with running_gateway(tmp_path, model=Originals()) as gateway:
        headers = {"authorization": f"Bearer {gateway.token}"}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers, timeout=60, trust_env=False) as http:
            replay = Replay(http)
            for method, path, body in requests:
                await replay.send(method, path, body)
    assert replay.finished == sum("'call_id': 'call_" in str(body) for _, _, body in requests)


def _expected(path: str, body: str) -> int:
    if '"messages":[]' in body or '"call_id":"zzz"' in body:
        return 422
    return 404 if path.endswith("/nope") else 200


def _is_envelope(shown: Any, success: bool) -> None:
    """origins 5.2: without both objects the client dies of a TypeError."""
    assert {"data" if success else "error", "metadata"} <= shown.keys()
    assert {"request_id", "timestamp", "message"} <= shown["metadata"].keys()
    if not success:
        assert isinstance(shown["error"]["code"], str) and isinstance(shown["error"]["message"], str)
        for detail in shown["error"]["details"]:
            assert all(isinstance(step, str) for step in detail["loc"]) and detail["msg"] and detail["type"]


def _is_invoke(data: Any, asked: Any) -> None:
    for message in data["messages"]:
        _is_message(message)
    assert isinstance(data["meta"]["is_new_thread"], bool) and data["meta"]["thread_id"]
    wanted = asked.get("config", {}).get("thread_id", data["meta"]["thread_id"])
    assert data["meta"]["thread_id"] == wanted
    granularity = asked["response_granularity"]
    assert (data["state"] is not None) == (granularity == "full")
    assert (data["context"] is not None) == (granularity in ("full", "partial"))


def _is_message(message: Any) -> None:
    assert message["role"] in ROLES and isinstance(message["content"], list)
    assert isinstance(message["timestamp"], float) and isinstance(message["message_id"], str)
    assert message["message_id"] != "0"
    assert all(isinstance(block["type"], str) for block in message["content"])


def _chunk_for_client(line: str) -> Any:
    """The message of a chunk, if it has one."""
    chunk = msgspec.json.decode(line)
    assert chunk["event"] in ("message", "updates", "state", "error") and chunk["thread_id"]
    if chunk["message"] is None:
        return None
    _is_message(chunk["message"])
    calls = [block for block in chunk["message"]["content"] if block["type"] == "remote_tool_call"]
    assert not (calls and chunk["message"]["delta"])
    return chunk["message"]
