"""Turn recorded exchanges with model APIs into cases for `tests/recorded`: their structure, with contents of our own.

    python scripts/neutral_recordings.py FOLDER OUT.jsonl

FOLDER holds one JSON file a conversation:

    {"exchanges": [{"request": {"path": …, "json": …}, "response": {"status": …, "json": …} or {…, "body": "event: …"},
                    "tool_calls_in_response": 1}]}

A case keeps what the API fixes: field names, the words of its enumerations, schema keywords, the order of events, the
numbers of tokens. Every text, name, id, address and blob becomes a word of ours, the same one wherever it stands in
the conversation, also where a stream brings it in pieces. Of conversations with the same shape the smallest is kept.
"""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS = words(
    """type role object finish_reason finishReason native_finish_reason stop_reason stop_sequence status model
    modelVersion mode code param context channel detail effort execution error_code file_type format media_type mimeType
    mime_type modality phase payer prompt_cache_retention responseMimeType search_context_size serviceTier service_tier
    toolType tool_type tool_choice trafficType truncation urlRetrievalStatus verbosity weight_version inference_geo
    include responseModalities pattern $schema"""
)
"""The fields whose texts are words of the API."""
IDS = words(
    """id call_id item_id tool_call_id tool_use_id file_id request_id responseId system_fingerprint user_id
    previous_response_id"""
)
PREFIXES = words(
    """call_ chatcmpl- container_ fc_ file- file_ fp_ msg_ req_ resp_ rs_ srvtoolu_ toolu_ tsc_ tso_ user_ ws_"""
)
"""With what the APIs begin their ids; all others are a client's own."""
NAMES = words("name tool_name namespace paths allowedFunctionNames")
BLOBS = words("encrypted_content encrypted_index signature thoughtSignature thought_signature")
TIMES = words("created created_at completed_at expires_at createTime retrieved_at")
SCHEMAS = words("parameters input_schema parametersJsonSchema parameters_json_schema schema")
DATA = words("input args")
OUTCOMES = words("return_value output error result")
"""The fields in which clients wrap the result of a function for Gemini."""
OWN_TYPES = words("function function_call tool_use custom tool_reference namespace")
"""What declares, names or calls a tool of the client."""
UNSIGNED = base64.b64encode(b"skip_thought_signature_validator").decode()
"""The documented signature of a call that has none."""
TOOLS = ["ring_bell", "open_door", "draw_map", "wind_clock", "light_lamp", "read_dial", "count_sheep", "pick_apple"]
FIELDS = ["colour", "place", "size", "level", "shape", "note", "number", "season", "weight", "length"]
LONGEST_RUN = 3


class Neutral:
    """One conversation: what stood for what."""

    def __init__(self, kept_names: frozenset[str]) -> None:
        self._kept_names = kept_names
        self._known: dict[tuple[str, str], str] = {}

    def wire(self, value: Any, key: str = "", holder: Any = None) -> Any:
        """A value of the API, below this field of `holder`."""
        if isinstance(value, dict):
            if key in SCHEMAS:
                return self.schema(value)
            if key in DATA:
                return self.data(value)
            if key == "response" and "name" in (holder or {}):  # the result of a function, for Gemini
                return {name if name in OUTCOMES else self.field(name): self.data(v) for name, v in value.items()}
            return {name: self.wire(inner, name, value) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.wire(inner, key if isinstance(inner, str) else "", holder) for inner in value]
        if key in TIMES:
            return "2026-01-01T00:00:00Z" if isinstance(value, str) else 1_767_225_600
        return self._string(value, key, holder) if isinstance(value, str) else value

    def schema(self, value: Any, key: str = "") -> Any:
        """A JSON Schema: its keywords stay."""
        if isinstance(value, dict):
            named = key in ("properties", "$defs", "definitions")
            return {
                (self.field(name) if named else name): self.schema(v, "" if named else name)
                for name, v in value.items()
            }
        if isinstance(value, list):
            return [self.field(v) if key == "required" else self.schema(v, key) for v in value]
        if key == "$ref":
            start, slash, last = value.rpartition("/")
            return f"{start}{slash}{self.field(last)}"
        is_text = isinstance(value, str) and key not in ("type", "format", "pattern", "$schema")
        return self.text(value) if is_text else value

    def data(self, value: Any) -> Any:
        """Arguments and results: values of people and their tools."""
        if isinstance(value, dict):
            return {self.field(name): self.data(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.data(inner) for inner in value]
        return self.text(value) if isinstance(value, str) else value

    def text(self, value: str) -> str:
        """A text of ours, with the white space around it and its kind: JSON, address, words."""
        bare = value.strip()
        start = value[: len(value) - len(value.lstrip())] if bare else value
        return f"{start}{self._words(bare)}{value[len(start) + len(bare) :]}" if bare else value

    def field(self, name: str) -> str:
        return self._once("field", name, lambda n: FIELDS[n] if n < len(FIELDS) else f"field_{n}")

    def blob(self, value: str) -> str:
        """A signature or an encrypted text; clients write the same one in two alphabets, and cut it."""
        plain = value.replace("-", "+").replace("_", "/")
        if not value or plain == UNSIGNED:
            return value
        ours = self._once(
            "blob", plain[:3000], lambda n: base64.b64encode(b"\xfb\xff" + f"sealed {n} ".encode() * 12).decode()
        )
        return ours if plain == value else ours.replace("+", "-").replace("/", "_")

    def _string(self, value: str, key: str, holder: Any) -> str:
        if key in WORDS or value == "":
            return value
        if key in IDS:
            return self._once("id", value, lambda n: _like_id(value, n))
        if key in NAMES:
            kept = value in self._kept_names
            return value if kept else self._once("name", value, lambda n: _like_name(value, n))
        if key in BLOBS or (key == "data" and holder.get("type") != "text"):
            return self.blob(value)
        return "" if key == "obfuscation" else self.text(value)

    def _words(self, bare: str) -> str:
        inside = _parsed(bare)
        if isinstance(inside, dict | list | str):
            return json.dumps(self.data(inside), separators=None if '": ' in bare else (",", ":"))
        if inside is not None:
            return bare  # a number says nothing
        if bare.startswith("data:"):
            return self._once(
                "text", bare, lambda n: f"{bare.partition(',')[0]},{base64.b64encode(b'file %d' % n).decode()}"
            )
        start = "model: " if bare.startswith("model: ") else ""  # so says Anthropic that there is no such model
        address = re.match(r"https?://", bare)
        return self._once(
            "text", bare, lambda n: f"https://example.com/{n}" if address else f"{start}Words of our own – the {n}. ☕"
        )

    def _once(self, kind: str, value: str, make: Callable[[int], str]) -> str:
        known = sum(other == kind for other, _ in self._known)
        return self._known.setdefault((kind, value), make(known))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _like_id(value: str, number: int) -> str:
    """An id with the same prefix; without one, of the same length."""
    prefix = re.match(r"(?:[a-z]+[-_])+", value)
    if prefix is None:
        return f"{number:0{len(value)}d}"
    return f"{prefix[0] if prefix[0] in PREFIXES else 'own_'}{number:04d}"


def _like_name(value: str, number: int) -> str:
    name = TOOLS[number] if number < len(TOOLS) else f"tool_{number}"
    return name.replace("_", "-") if "-" in value else name


# Streams


def events_of(body: str) -> list[list[Any]]:
    """The events of a stream: name and data."""
    found = []
    for block in body.replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":")[::2] for line in block.splitlines() if not line.startswith(":")]
        data = "\n".join(value.strip() for name, value in lines if name == "data")
        if data:
            name = next((value.strip() for name, value in lines if name == "event"), "")
            found.append([name, data if data == "[DONE]" else json.loads(data)])
    return found


def pieces_of(data: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], str]]:
    """The pieces of longer texts in an event: which text, and where the piece stands."""
    if not isinstance(data, dict):
        return
    for choice in data.get("choices", ()):
        delta = choice.get("delta", {})
        for key in ("content", "reasoning", "reasoning_content"):
            if isinstance(delta.get(key), str):
                yield (key, choice["index"]), delta, key
        for call in delta.get("tool_calls") or ():
            if isinstance(call["function"].get("arguments"), str):
                yield ("arguments", choice["index"], call["index"]), call["function"], "arguments"
    if isinstance(data.get("delta"), str):
        yield (data["type"], data.get("item_id"), data.get("content_index"), data.get("summary_index")), data, "delta"
    elif isinstance(data.get("delta"), dict) and "index" in data:
        for key in ("text", "partial_json", "thinking", "signature"):
            if key in data["delta"]:
                yield (key, data["index"]), data["delta"], key
    for candidate in data.get("candidates", ()):
        for part in candidate.get("content", {}).get("parts", ()):
            if "text" in part:
                yield ("text", bool(part.get("thought"))), part, "text"


def neutral_events(neutral: Neutral, events: list[list[Any]]) -> list[list[Any]]:
    """The events with contents of ours; of many equal pieces in a row only a few stay."""
    wholes: dict[tuple[Any, ...], str] = {}
    for _, data in events:
        for which, holder, key in pieces_of(data):
            wholes[which] = wholes.get(which, "") + holder[key]
    ours = {
        which: neutral.blob(text) if which[0] == "signature" else neutral.text(text) for which, text in wholes.items()
    }
    short = _shortened(events)
    pieces: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}
    done = []
    for place, (name, data) in enumerate(short):
        told = neutral.wire(data) if isinstance(data, dict) else data
        if isinstance(told, dict) and "sequence_number" in told:
            told["sequence_number"] = place
        for (which, before, key), (_, holder, _) in zip(pieces_of(data), pieces_of(told), strict=True):
            holder[key] = ""
            if before[key]:
                pieces.setdefault(which, []).append((holder, key))
        done.append([name, told])
    for which, slots in pieces.items():
        for (holder, key), piece in zip(slots, _cut(ours[which], len(slots)), strict=True):
            holder[key] = piece
    return done


def _shortened(events: list[list[Any]]) -> list[list[Any]]:
    """Without the middle of a row of events that only carry on one text."""
    kept: list[list[Any]] = []
    row: list[list[Any]] = []
    last: Any = None
    for event in [*events, ["", None]]:
        carried = [(which, shape(event[1])) for which, holder, key in pieces_of(event[1]) if holder[key]]
        only = carried[0] if len(carried) == 1 else None
        if only is None or only != last:
            kept += row if len(row) <= LONGEST_RUN else [*row[: LONGEST_RUN - 1], row[-1]]
            row = []
        row.append(event)
        last = only
    return kept


def _cut(text: str, count: int) -> list[str]:
    places = [len(text) * number // count for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(places)]


# Conversations


def neutral_conversation(exchanges: list[Any]) -> list[Any]:
    neutral = Neutral(frozenset(_names_of_the_api(exchanges)))
    return [_neutral_exchange(neutral, exchange) for exchange in exchanges]


def _neutral_exchange(neutral: Neutral, exchange: Any) -> Any:
    asked, answered = exchange["request"], exchange["response"]
    path = re.sub(r"(?<=/projects/)[^/]+", "own", re.sub(r"resp_\w+", "resp_0000", asked["path"]))
    request = {"path": path, "json": neutral.wire(asked.get("json"))}
    response: dict[str, Any] = {"status": answered["status"]}
    if "body" in answered:
        response["events"] = neutral_events(neutral, events_of(answered["body"]))
    else:
        response["json"] = neutral.wire(answered["json"])
    counted = {key: exchange[key] for key in ("tool_calls_in_response",) if key in exchange}
    return {"request": request, "response": response, **counted}


def _names_of_the_api(value: Any) -> Iterator[str]:
    """The names of tools that the API itself has."""
    if isinstance(value, dict):
        own = value.get("type", "function") in OWN_TYPES
        if isinstance(value.get("name"), str) and not own and not SCHEMAS & value.keys():
            yield value["name"]
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _names_of_the_api(inner)


def shape(value: Any, key: str = "") -> Any:
    """What is the same for conversations that differ in their contents alone."""
    if isinstance(value, dict):
        return {name: shape(inner, name) for name, inner in sorted(value.items())}
    if isinstance(value, list):
        shapes: list[Any] = []
        for inner in value:
            if (found := shape(inner, key)) not in shapes[-1:]:
                shapes.append(found)
        return shapes
    if isinstance(value, str):
        return value if key in WORDS - {"model", "modelVersion"} else bool(value)
    return type(value).__name__


def named(exchanges: list[Any], number: int) -> dict[str, Any]:
    """The case as it is kept."""
    traits = [f"{len(exchanges)} exchanges" if len(exchanges) > 1 else "1 exchange"]
    answers = [exchange["response"] for exchange in exchanges]
    traits += ["stream"] if any("events" in answer for answer in answers) else []
    traits += ["error"] if any(answer["status"] != 200 for answer in answers) else []
    return {"name": f"{number:02d} {', '.join(traits)}", "exchanges": exchanges}


def main(folder: Path, out: Path) -> None:
    smallest: dict[str, tuple[int, list[Any]]] = {}
    for file in sorted(folder.glob("*.json")):
        exchanges = neutral_conversation(json.loads(file.read_bytes())["exchanges"])
        size, key = len(json.dumps(exchanges)), json.dumps(shape(exchanges))
        if key not in smallest or size < smallest[key][0]:
            smallest[key] = (size, exchanges)
    cases = [named(exchanges, number) for number, (_, exchanges) in enumerate(smallest.values(), 1)]
    lines = [json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in cases]
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    sys.stdout.write(f"{out}: {len(cases)} shapes of {len(list(folder.glob('*.json')))} conversations\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
