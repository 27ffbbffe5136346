"""Bundles of Android as the command `content call` takes and prints them (cetp.md 7.3). No process, no device.

A bundle is printed without any escaping, so its text can't be split at commas. What makes it readable: Android keeps
the keys of a bundle in the order of their Java hash codes. So the texts that may hold anything stand at known ends:
`error_message` and `resolution_hint` come before `status`, and `data` comes after it.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from handspan.core.errors import WireError
from handspan.core.values import Json

_RESULT: Final = re.compile(r"^Result: ", re.MULTILINE)
_BEGIN, _END = "Bundle[{", "}]"
_SUCCESS, _ERROR, _DATA = ", status=success", ", status=error", ", data="
_TEXTS: Final = (", error_message=", ", resolution_hint=", ", authorize_intent=")
"""The keys before `status`, in their order."""
_AFTER_ERROR: Final = re.compile(r"(?:, error_code=(?P<code>[\w.-]*))?(?:, [\w.]+=[^,=]*)*")
_NEXT_KEY: Final = re.compile(r", [\w.]+=")
_DECODER: Final = json.JSONDecoder()


def find_result(output: str) -> str | None:
    """Return the text after `Result: ` in what `content call` printed; None when it printed no result."""
    found = _RESULT.search(output)
    return None if found is None else output[found.end() :].removesuffix("\n").removesuffix("\r")


def read_bundle_text(text: str) -> Json:
    """Return the response in the text of a bundle, for `read_bundle`; None for a text that holds none.

    Unknown keys are ignored. An error's two texts can't be told apart where the first one holds `, resolution_hint=`.
    """
    if not text.startswith(_BEGIN) or not text.endswith(_END):
        return None
    fields = f", {text[len(_BEGIN) : -len(_END)]}"  # now every key has the same mark before it
    # Free text may hold the mark of the other kind. The texts of an error stand before its own mark, so a response that
    # begins with one is first read as an error; `data` stands behind, so any other is first read as a success.
    if fields.startswith(_TEXTS):
        return _read_error(fields) or _read_success(fields)
    return _read_success(fields) or _read_error(fields)


def _read_success(fields: str) -> Json:
    at = fields.find(_SUCCESS)
    if at < 0:
        return None
    rest = fields[at + len(_SUCCESS) :]
    at = rest.find(_DATA)
    return {"status": "success"} if at < 0 else {"status": "success", "data": _read_data(rest[at + len(_DATA) :])}


def _read_data(data: str) -> str:
    """Return the value of `data`: only the JSON if another key follows it, else all of the text."""
    try:
        _, end = _DECODER.raw_decode(data)
    except (ValueError, RecursionError):
        return data
    return data[:end] if _NEXT_KEY.match(data, end) else data


def _read_error(fields: str) -> Json:
    at = fields.rfind(_ERROR)  # the last one: no free text comes after it
    found = _AFTER_ERROR.fullmatch(fields, at + len(_ERROR)) if at >= 0 else None
    if found is None:
        return None
    code = {} if found["code"] is None else {"error_code": found["code"]}
    return {"status": "error", **_read_texts(fields[:at]), **code}


def _read_texts(fields: str) -> dict[str, str]:
    """Return the texts of an error. An intent holds no comma, so another key begins after a comma."""
    message, hint, intent = _TEXTS
    texts = {}
    fields, found, rest = fields.rpartition(intent) if intent in fields else (fields, "", "")
    if found:
        texts["authorize_intent"] = rest.partition(", ")[0]
    fields, found, rest = fields.partition(hint)
    if found:
        texts["resolution_hint"] = rest
    if fields.startswith(message):
        texts["error_message"] = fields.removeprefix(message)
    return {key: text for key, text in texts.items() if text != "null"}  # Java prints `null` for what is missing


def encode_extras(extras: Mapping[str, Json], *, escapes: bool) -> list[str]:
    """Return the options `--extra KEY:s:VALUE` of `content call`. Raises `WireError` if no command line can carry them.

    `escapes`: this Android reads `\\` as an escape and `:` as a separator. An older one takes all after the second `:`.
    """
    options = []
    for key, value in extras.items():
        if not isinstance(value, str) or "\0" in value or "\0" in key:
            raise WireError(f"The extra {key!r} can't be sent through adb: it is no text, or holds a null character.")
        text = _ascii_json(value) if key == "args" else value  # JSON can do without what some Androids misread
        options += ["--extra", ":".join((key, "s", _escape(text) if escapes else text))]
    return options


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _ascii_json(text: str) -> str:
    """Return the JSON text in ASCII: some Androids read other characters of a command line wrongly."""
    escaped = "".join(one if one.isascii() else json.dumps(one)[1:-1] for one in text)
    return escaped.replace("\x7f", "\\u007f")
