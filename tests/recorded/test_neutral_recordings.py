"""The script that makes cases of recordings: it keeps the structure, and not a word of the contents."""

import json
import subprocess
import sys
from pathlib import Path

from handspan.core.values import Json, JsonObject
from tests.recorded import Fields

SCRIPT = Path(__file__).parents[2] / "scripts" / "neutral_recordings.py"


def recording(city: str, pieces: list[str]) -> JsonObject:
    """Somebody asks for the weather; the answer comes as a stream, and goes back in the next request."""
    schema: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool: Json = {
        "type": "function",
        "function": {"name": "get_weather", "description": "Tells.", "parameters": schema},
    }
    asked: Json = {"role": "user", "content": f"Weather in {city}?"}
    first: JsonObject = {"index": 0, "id": "call_secret", "function": {"name": "get_weather", "arguments": ""}}
    rest: list[JsonObject] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas = [{"tool_calls": [call]} for call in (first, *rest)]
    events = [{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    called: Json = {"id": "call_secret", "function": {"name": "get_weather", "arguments": "".join(pieces)}}
    answered: Json = {"role": "tool", "tool_call_id": "call_secret", "content": f"Rain over {city}"}
    history: list[Json] = [asked, {"role": "assistant", "tool_calls": [called]}, answered]
    said: Json = {"choices": [{"message": {"role": "assistant", "content": f"It rains in {city}."}}]}
    return {
        "exchanges": [
            {
                "request": {"path": "/v1/chat", "json": {"model": "m-1", "messages": [asked], "tools": [tool]}},
                "response": {"status": 200, "body": body},
            },
            {
                "request": {"path": "/v1/chat", "json": {"model": "m-1", "messages": history, "tools": [tool]}},
                "response": {"status": 200, "json": said},
            },
        ]
    }


def cases_of(folder: Path, *recordings: JsonObject) -> list[Fields]:
    for number, one in enumerate(recordings):
        (folder / f"{number}.json").write_text(json.dumps(one), encoding="utf-8")
    out = folder / "out.jsonl"
    subprocess.run([sys.executable, SCRIPT, folder, out], check=True, capture_output=True, timeout=60)
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def test_no_word_of_a_recording_is_kept_but_its_structure_is(tmp_path: Path) -> None:
    (case,) = cases_of(tmp_path, recording("Glasgow", ['{"ci', 'ty":"Gla', 'sgow"}']))
    text = json.dumps(case)
    assert not [word for word in ("Glasgow", "Gla", "city", "weather", "Weather", "secret", "Tells") if word in text]
    streamed, carried_on = case["exchanges"]
    chunks = [data["choices"][0]["delta"]["tool_calls"][0] for _, data in streamed["response"]["events"][:-1]]
    call = carried_on["request"]["json"]["messages"][1]["tool_calls"][0]
    assert [chunk["id"] for chunk in chunks[:1]] == [call["id"]]
    assert "".join(chunk["function"]["arguments"] for chunk in chunks) == call["function"]["arguments"]
    (field,) = streamed["request"]["json"]["tools"][0]["function"]["parameters"]["required"]
    assert list(json.loads(call["function"]["arguments"])) == [field]


def test_of_recordings_with_one_shape_the_smallest_is_kept(tmp_path: Path) -> None:
    many = recording("Aberdeen", ['{"city"', ':"', *"Aberdeen", '"}'])
    few = recording("Oban", ['{"city"', ':"Oban"', "}"])
    other: JsonObject = {"exchanges": [{"request": {"path": "/", "json": {}}, "response": {"status": 500, "json": {}}}]}
    kept = cases_of(tmp_path, many, few, other)
    assert [len(case["exchanges"]) for case in kept] == [2, 1]
