"""The tools of one scope."""

from collections.abc import Collection, Mapping

from handspan.core.principals import Scope
from handspan.registry.entry import Entry


class Shelf:
    """The tools of one scope, by name. `version` grows with every change, so that views know when to look again."""

    __slots__ = ("__weakref__", "entries", "scope", "version")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.entries: dict[str, Entry] = {}
        self.version = 0

    def put(self, entry: Entry) -> None:
        """Let this entry stand under its name."""
        self.entries[entry.spec.name] = entry
        self.touch()

    def remove(self, name: str) -> Entry | None:
        """Take away what stands under this name."""
        self.touch()
        return self.entries.pop(name, None)

    def replace(self, gone: Collection[str], entries: Mapping[str, Entry]) -> None:
        """Let these entries stand there in place of those names, in one step."""
        self.entries = {name: entry for name, entry in self.entries.items() if name not in gone} | dict(entries)
        self.touch()

    def touch(self) -> None:
        """Say that something changed."""
        self.version += 1
