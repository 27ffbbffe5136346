"""What a tool reports while it runs, as a bar and a few words. MCP servers and devices each have their form."""

from typing import Final

from msgspec import Struct

from handspan.core.values import Json

_PARTS: Final = ("progress", "done", "current", "completed")
"""Keys under which a report says how much is done."""
_WORDS: Final = ("message", "text", "status", "stage")
"""Keys under which a report has words."""


class ProgressView(Struct, frozen=True):
    """How far a call is, if it says so, and its last words."""

    fraction: float | None = None
    text: str = ""


def read_progress(value: Json) -> ProgressView:
    """Return what can be shown of a report. A number alone is a fraction only between 0 and 1."""
    match value:
        case bool() | None:
            return ProgressView()
        case float() | int():
            return ProgressView(float(value)) if 0 <= value <= 1 else ProgressView(text=f"{value:g}")
        case str():
            return ProgressView(text=_last_line(value))
        case dict():
            words = next((value[key] for key in _WORDS if isinstance(value.get(key), str)), "")
            return ProgressView(_fraction(value), _last_line(str(words)))
        case _:
            return ProgressView()


def _fraction(value: dict[str, Json]) -> float | None:
    """Return how much of the work is done, from 0 to 1; None when the report does not say it."""
    percent, total = _number(value.get("percent")), _number(value.get("total"))
    part = next((found for key in _PARTS if (found := _number(value.get(key))) is not None), None)
    if percent is not None:
        return _clamp(percent / 100)
    if part is None:
        return _number(value.get("fraction"))
    if total is not None and total > 0:
        return _clamp(part / total)
    return part if 0 <= part < 1 else None


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _clamp(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
