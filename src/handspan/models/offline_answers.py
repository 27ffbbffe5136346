"""Results in plain words."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from handspan.core.messages import CallPart, CallResult
from handspan.core.values import Json, JsonObject

MOST_TEXT: Final = 4000
_MOST_ITEMS: Final = 50
_MOST_DEPTH: Final = 4
_MOMENT: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?"
_MAIN_ARGUMENTS: Final = ("path", "url", "command", "query", "timezone", "name", "id")


def answer_of(calls: Sequence[CallPart], results: Sequence[CallResult]) -> str:
    """All results, each with its tool's name where there are several."""
    if len(results) == 1:
        return _told(results[0], "" if not results[0].is_error else f"{results[0].name} failed: ")
    told = [
        _told(result, f"{_label(call)}{' failed' if result.is_error else ''}: ")
        for call, result in zip(calls, results, strict=True)
    ]
    return "\n".join(told)


def plain_text(result: CallResult) -> str:
    """What "it" means after this result: the text that it brought."""
    value = _value(result)
    return value if isinstance(value, str) else shown(value)


def code_of(result: CallResult) -> str:
    """The code of a failure; empty for a success."""
    match _envelope(result):
        case {"status": "error", "code": str() as code}:
            return code
        case _:
            return ""


def _told(result: CallResult, label: str) -> str:
    text = _clipped(shown(_value(result)))
    text = f"{label}\n{text}" if label and "\n" in text else f"{label}{text}"
    if result.attachments:
        kinds = ", ".join(f"{item.kind} ({item.media_type})" for item in result.attachments)
        text = f"{text}\nWith it came: {kinds}."
    return text


def _label(call: CallPart) -> str:
    try:
        arguments: Json = msgspec.json.decode(call.arguments or "{}")
    except ValueError:
        arguments = {}
    named = arguments if isinstance(arguments, dict) else {}
    main = next((named[name] for name in _MAIN_ARGUMENTS if isinstance(named.get(name), str)), None)
    return f"{call.name} ({str(main)[:60]})" if main else call.name


def _value(result: CallResult) -> Json:
    """The value of a success, or the message of a failure; the text itself when it is no envelope."""
    envelope = _envelope(result)
    match envelope:
        case {"status": "success", "result": value}:
            return value
        case {"status": "error", "message": str() as message}:
            return message
        case _:
            return envelope


def _envelope(result: CallResult) -> Json:
    try:
        envelope: Json = msgspec.json.decode(result.envelope)
    except ValueError:
        return result.envelope
    return envelope


def shown(value: Json, depth: int = 0) -> str:
    """A JSON value in readable words."""
    match value:
        case None:
            return "Done." if depth == 0 else "–"
        case bool():
            return "yes" if value else "no"
        case str():
            return _shown_text(value, depth)
        case dict():
            return (_known_form(value) if depth == 0 else None) or _fields(value, depth)
        case list():
            return _items(value, depth)
        case _:
            return str(value)


def _shown_text(text: str, depth: int) -> str:
    if re.fullmatch(_MOMENT, text):
        return _moment(text)
    if depth == 0 and text[:1] in ("{", "[") and text[-1:] in ("}", "]"):  # devices send JSON as text
        try:
            return shown(msgspec.json.decode(text), 1)
        except (ValueError, RecursionError):
            return text
    return text if text or depth else "(empty)"


def _moment(text: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return f"{moment:%H:%M:%S} on {moment:%A}, {moment.day} {moment:%B %Y}{_offset(moment)}"


def _offset(moment: datetime) -> str:
    ahead = moment.strftime("%z")
    return f" (UTC{ahead[:3]}:{ahead[3:5]})" if ahead else ""


def _known_form(value: JsonObject) -> str | None:
    """The forms that our own tools answer in, and many others' too."""
    match value:
        case {"truncated": True, "head": str() as head}:
            return f"{head}\n[…] {value.get('how_to_read', '')}"
        case {"entries": list() as entries}:
            names = [_entry(entry) for entry in entries[:_MOST_ITEMS]]
            more = f" and {len(entries) - _MOST_ITEMS} more" if len(entries) > _MOST_ITEMS else ""
            return f"{', '.join(names)}{more}" if names else "There is nothing in it."
        case {"exit_code": code}:
            return _output(value, code)
        case {"matches": list() as found}:
            return _items(found, 0) if found else _nothing_for(value)
        case {"query": _, "results": list() as found}:
            return "\n".join(map(_found, found[:_MOST_ITEMS])) if found else _nothing_for(value)
        case {"markdown": str() as text} | {"body": str() as text} | {"content": str() as text} if text.strip():
            return text
        case {"content": "", "message": str() as message} | {"message": str() as message}:
            return message
        case {"content": ""}:
            return "(empty)"
        case _:
            return None


def _nothing_for(value: JsonObject) -> str:
    return f"Nothing was found for {value['query']!r}." if value.get("query") else "Nothing was found."


def _entry(entry: Json) -> str:
    if isinstance(entry, dict) and isinstance(entry.get("name"), str):
        return f"{entry['name']}{'/' if entry.get('is_dir') else ''}"
    return shown(entry, 1)


def _found(item: Json) -> str:
    if not isinstance(item, dict):
        return f"- {shown(item, 1)}"
    told = [str(item[key]) for key in ("title", "url", "snippet") if item.get(key)]
    return f"- {' – '.join(told) or _fields(item, 1)}"


def _output(value: JsonObject, code: Json) -> str:
    """What a command printed, and its exit code unless that is 0."""
    texts = [str(value[name]).rstrip("\n") for name in ("stdout", "stderr") if value.get(name)]
    if code != 0:
        texts.append(f"(exit code {code})")
    return "\n".join(texts) or "It printed nothing."


def _fields(value: JsonObject, depth: int) -> str:
    if depth >= _MOST_DEPTH:
        return msgspec.json.encode(value).decode()
    joint = "\n" if depth == 0 else ", "
    return joint.join(f"{name}: {shown(item, depth + 1)}" for name, item in list(value.items())[:_MOST_ITEMS])


def _items(value: list[Json], depth: int) -> str:
    if depth >= _MOST_DEPTH:
        return msgspec.json.encode(value).decode()
    told = [shown(item, depth + 1) for item in value[:_MOST_ITEMS]]
    more = [f"… and {len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else []
    if depth:
        return ", ".join([*told, *more])
    return "\n".join(f"- {line}" for line in [*told, *more]) or "Nothing was found."


def _clipped(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}\n… ({len(text) - MOST_TEXT} more characters)"
