"""What paths, queries and bodies ask for; what can't be is a `BodyError` that names the place (graph.md 1.3)."""

import re
from typing import Final

from msgspec import Struct

from handspan.gateway.graph.doors import BODY_BYTES, BODY_SECONDS
from handspan.gateway.http.bodies import read_whole
from handspan.gateway.http.message import AsgiRequest
from handspan.wire.graph.faults import Faults, shown

MOST: Final = 1000
"""Entries of one list."""
_WHOLE: Final = re.compile(r"-?[0-9]{1,15}")


class Paging(Struct, frozen=True):
    """Which part of a list."""

    search: str
    offset: int
    limit: int


def paging_of(request: AsgiRequest) -> Paging:
    """The part that the query asks for."""
    faults, query = Faults(), request.query_params
    offset = _number(query.get("offset", "0"), "offset", 0, 10**15, faults)
    limit = _number(query.get("limit", "100"), "limit", 1, MOST, faults)
    faults.refuse()
    return Paging(query.get("search", ""), offset, limit)


async def body_of(request: AsgiRequest) -> bytes:
    """The whole body; raises `Refusal` when it is too large or too slow."""
    return await read_whole(request, BODY_BYTES, BODY_SECONDS)


def id_of(request: AsgiRequest, name: str) -> str:
    """What stands in the path under this name."""
    given: str = request.path_params[name]
    faults = Faults()
    if not given.strip():
        faults.add(("path", name), "It is blank: send the id.")
    faults.refuse()
    return given


def _number(text: str, name: str, least: int, most: int, faults: Faults) -> int:
    place = ("query", name)
    if not _WHOLE.fullmatch(text):
        faults.add(place, f"Send a whole number, not {shown(text)}.", "type_error")
        return least
    number = int(text)
    if not least <= number <= most:
        faults.add(place, f"{number} is out of range: send {least} to {most}, or leave it out.")
    return number
