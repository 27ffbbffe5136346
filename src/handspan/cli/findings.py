"""What `handspan doctor` finds."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from handspan.core.sources import SourceState, describe_state


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


def source_findings(what: str, sources: Mapping[str, SourceState]) -> Iterator[Finding]:
    """How each source of tools does, by name, and what of it can't be used."""
    for name, state in sources.items():
        is_ok = state.status != "failed"
        yield Finding(f"{what} {name}", is_ok, describe_state(state), "" if is_ok else "repair it, or take it out")
        for broken in state.broken:
            yield Finding("tool", False, f"{broken.where}: {broken.problem}", "repair or remove it")
