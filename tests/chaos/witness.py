"""The witness of a run: it knows what was asked, run, answered and acknowledged, and finds what broke a promise.

The promises are those of security.md 9: one result for every call; what may have effects runs at most once; what was
acknowledged is still there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct, UnsetType

from handspan.core.calls import CallRecord
from handspan.core.principals import OPERATOR
from handspan.core.results import envelope
from handspan.core.store import Store
from handspan.core.values import Json, JsonObject
from tests.chaos.figures import Figure, none_of
from tests.stores import open_store


class StoredCall(Struct, frozen=True):
    """What the journal has of a call."""

    state: str
    envelope: JsonObject | None


class Witness:
    """Told of everything that everybody saw."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        """Calls that somebody made."""
        self.results: dict[str, list[JsonObject]] = {}
        """What callers were told, by call."""
        self.ran: Counter[str] = Counter()
        """How often devices ran a call."""
        self.acknowledged: dict[str, Json] = {}
        """What devices answered and the gateway confirmed, of calls that nothing else can have ended."""

    def was_told(self, call_id: str, envelope: JsonObject) -> None:
        """A caller got this result."""
        self.results.setdefault(call_id, []).append(envelope)

    def figures(self, journal: Mapping[str, StoredCall]) -> list[Figure]:
        """What was promised of calls, and what came of it."""
        return [
            none_of("calls lost", sorted(self._lost(journal))),
            none_of("calls still open", (call for call, kept in journal.items() if kept.state != "done")),
            none_of("calls with two results", sorted(self._doubled(journal))),
            none_of("calls run twice", (f"{call}: {count} times" for call, count in self.ran.items() if count > 1)),
            none_of("acknowledged results lost", self._forgotten(journal)),
        ]

    def _lost(self, journal: Mapping[str, StoredCall]) -> set[str]:
        return self.asked - {call for call in self.results if call in journal}

    def _doubled(self, journal: Mapping[str, StoredCall]) -> set[str]:
        """More than one result, or another one in the journal than the caller was told."""
        return {
            call
            for call, told in self.results.items()
            if len(told) > 1
            or (call in journal and journal[call].state == "done" and journal[call].envelope != told[0])
        }

    def _forgotten(self, journal: Mapping[str, StoredCall]) -> list[str]:
        return [
            f"{call}: {answer!r} was acknowledged, the journal has {journal.get(call)!r}"
            for call, answer in self.acknowledged.items()
            if call not in journal or (journal[call].envelope or {}).get("result") != answer
        ]


def kept(records: Iterable[CallRecord]) -> dict[str, StoredCall]:
    """The journal by call."""
    return {
        record.id: StoredCall(
            record.state or "", None if isinstance(record.result, UnsetType) else envelope(record.result)
        )
        for record in records
    }


async def journal_of(state: Path) -> list[CallRecord]:
    """Every call of the operator in the journal of a gateway that does not run."""
    async with open_store(state) as store:
        return await read_journal(store)


async def read_journal(store: Store) -> list[CallRecord]:
    """Every call of the operator in the journal of an open store."""
    records: list[CallRecord] = []
    after: str | None = None
    while True:
        page, after = await store.ledger.page(owner=OPERATOR.owner, limit=500, after=after)
        records += page
        if after is None:
            return records
