"""How many tokens something has, before an API has counted it: by bytes and their kind, images by each API's rule.

No tokenizer is used: each model has another one. What the guess lacks is learned from the API's own counts (SPEC L1).
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import Final

from handspan.core.messages import Api
from handspan.core.results import Attachment

_BYTES_OF_WORDS: Final = 4
_BYTES_OF_JSON: Final = 3
"""Code, numbers and JSON; also of the bytes of letters that are not Latin."""
_BYTES_OF_FILE: Final = 12
"""A PDF or a sound has many bytes for what a model reads of it."""
_EDGE: Final = 2000
"""Pixels of the sides of an image of which nothing is known."""
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_NUMBER: Final = r"(\d[\d,_.]{2,}\d)"
_LIMITS: Final = (
    re.compile(rf"> {_NUMBER} maximum", re.IGNORECASE),
    re.compile(rf"(?:maximum|max|allowed|limit|size|length)\b[^.\d]{{0,60}}{_NUMBER}", re.IGNORECASE),
    re.compile(rf"{_NUMBER}[- ]token (?:context|limit|window)", re.IGNORECASE),
)
_LEAST_LIMIT: Final = 1000


def count_words(text: str) -> int:
    """Return about how many tokens this text has."""
    if text.isascii():
        return len(text) // _BYTES_OF_WORDS + 1
    return len(text.encode(errors="replace")) // _BYTES_OF_JSON + 1


def count_json(text: str) -> int:
    """Return about how many tokens this JSON has."""
    return (len(text) if text.isascii() else len(text.encode(errors="replace"))) // _BYTES_OF_JSON + 1


def characters_of(tokens: int) -> int:
    """Return how many characters of JSON about so many tokens are."""
    return tokens * _BYTES_OF_JSON


def count_attachment(item: Attachment, api: Api | None) -> int:
    """Return about how many tokens an image, a sound or a file has for this API."""
    if item.kind == "image" or item.media_type.startswith("image/"):
        return _OF_IMAGE.get(api, _of_openai)(*(_sides(item.data) or (_EDGE, _EDGE)))
    size = len(item.data) if item.artifact is None else item.artifact.size
    return size // (_BYTES_OF_WORDS if item.media_type.startswith("text/") else _BYTES_OF_FILE) + 1


def limit_in(refusal: str) -> int | None:
    """Return how many tokens a model can read, if the refusal of a conversation that is too long says so."""
    for pattern in _LIMITS:
        if found := pattern.search(refusal):
            limit = int(re.sub(r"\D", "", found[1]))
            return limit if limit >= _LEAST_LIMIT else None
    return None


def _of_anthropic(width: int, height: int) -> int:
    return min(width * height // 750 + 1, 1600)


def _of_openai(width: int, height: int) -> int:
    longest = min(1.0, 2048 / max(width, height, 1))
    shortest = min(longest, 768 / max(min(width, height), 1))
    return 85 + 170 * _tiles(width * shortest, height * shortest, 512)


def _of_gemini(width: int, height: int) -> int:
    return 258 if max(width, height) <= 384 else 258 * _tiles(width, height, 768)


def _tiles(width: float, height: float, side: int) -> int:
    return int(-(-width // side) * -(-height // side))


_OF_IMAGE: Final[Mapping[Api | None, Callable[[int, int], int]]] = {
    "anthropic": _of_anthropic,
    "openai-chat": _of_openai,
    "openai-responses": _of_openai,
    "gemini": _of_gemini,
}


def _sides(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG or JPEG, at most as large as images are sent; None when they can't be read."""
    found: tuple[int, int] | None = None
    if data.startswith(_PNG) and len(data) >= 24:
        found = struct.unpack(">II", data[16:24])
    elif data.startswith(b"\xff\xd8"):
        found = _sides_of_jpeg(data)
    if found is None or not all(found):
        return None
    scale = min(1.0, _EDGE / max(found))
    return int(found[0] * scale) or 1, int(found[1] * scale) or 1


def _sides_of_jpeg(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a JPEG; None when its header is damaged."""
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):  # the frame's header
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None
