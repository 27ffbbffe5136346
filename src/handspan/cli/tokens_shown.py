"""Tokens as a terminal shows them: a table, and what to do with a new one."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec import Struct

from handspan.core.values import strip_invisible

_COLUMNS: Final = ("id", "name", "scopes", "made", "last seen", "")


class ListedToken(Struct, frozen=True):
    """What the gateway tells of a token: never the token itself."""

    id: str
    label: str
    scopes: tuple[str, ...]
    created: datetime
    last_seen: datetime | None
    revoked: datetime | None
    current: bool
    """The one that the question came with."""

    def __str__(self) -> str:
        """As sentences name it."""
        return f"{strip_invisible(self.id)} ({named(self.label)})"


class MadeToken(Struct, frozen=True):
    """A new token, shown once."""

    token: str
    id: str
    scopes: tuple[str, ...]
    label: str

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"MadeToken(id={self.id!r})"


def table(tokens: Sequence[ListedToken]) -> str:
    """One line a token. None is cut: what stands last says which one not to revoke."""
    lines = [_COLUMNS, *map(_cells, tokens)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def uses(made: MadeToken, url: str) -> Iterator[str]:
    """What a person does with a new token, a line each."""
    if not {"chat", "admin"}.isdisjoint(made.scopes):
        yield f'A page      new HandspanClient({{ baseUrl: "{url}", token: "…" }})'
        yield "            (one that the gateway does not serve itself: with its origin in `gateway.origins`)"
        yield f"A command   HANDSPAN_URL={url} HANDSPAN_TOKEN=… handspan chat"
    yield f'A device    Client("{url}", token="…", label="…")'  # ws.md 7.3: any scope is good for that
    yield f"            HANDSPAN_URL={url} HANDSPAN_TOKEN=… handspan device"
    yield "A program   any request with the header  Authorization: Bearer …"
    if "admin" in made.scopes:
        yield "            With the scope 'admin' it may do all that you may, and make other tokens: guard it well."


def day(at: datetime) -> str:
    """A time as the clock on the wall says it."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M")


def named(label: str) -> str:
    """A name in quotes, on one line."""
    return repr(_line(label)) if label else "no name"


def _cells(token: ListedToken) -> tuple[str, ...]:
    return (
        _line(token.id),
        _line(token.label),
        _line(", ".join(token.scopes)),
        day(token.created),
        "never" if token.last_seen is None else day(token.last_seen),
        _remark(token),
    )


def _remark(token: ListedToken) -> str:
    if token.revoked is not None:
        return f"revoked {day(token.revoked)}"
    return "the one in use here" if token.current else ""


def _line(text: str) -> str:
    return " ".join(strip_invisible(text).split())
