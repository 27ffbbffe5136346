"""What a bridge must not forget: labels, which programs it may start, and how it comes back to the gateway."""

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from handspan.client.memory import replace_file
from handspan.core.errors import ConfigError

_MOST_APPS: Final = 1000


class StartRule(Struct, frozen=True):
    """What the person has decided about the start of an app."""

    argv: list[str]
    decision: Literal["allow", "deny", ""]
    """Empty: the person was asked, and did not answer."""
    asked: int = 0
    """How many questions had no answer in time."""


class _SavedMemory(Struct):
    """The content of the file, each part by the id of an app."""

    v: int = 1
    labels: dict[str, str] = {}
    starts: dict[str, StartRule] = {}
    resume_tokens: dict[str, str] = {}


class BridgeMemory:
    """The memory of one bridge at one gateway, in a file that its owner alone can read."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the file if it exists. Raises `ConfigError` when it can't be read, or is not the memory of a bridge.

        Without a path, the memory ends with the process.
        """
        self._path = path
        self._saved = _SavedMemory()
        if path is None:
            return
        try:
            self._saved = msgspec.json.decode(path.read_bytes(), type=_SavedMemory)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ConfigError(f"{str(path)!r} can't be read: {error.strerror}.") from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{str(path)!r} is not the memory of a bridge: {error}. Remove it.") from None

    # Labels (cetp.md 8.2).

    def label(self, app_id: str, wanted: str) -> str:
        """Return the label of an app: always the same, and no other app's."""
        labels = self._saved.labels
        known = labels.get(app_id)
        if known is not None and (known == wanted or known.rpartition("_")[0] == wanted):
            return known
        taken = {label for other, label in labels.items() if other != app_id}
        number = 1
        while (label := wanted if number == 1 else f"{wanted}_{number}") in taken:
            number += 1
        labels[app_id] = label
        if len(labels) > _MOST_APPS:
            del labels[next(iter(labels))]
        self._save()
        return label

    def keep_label(self, app_id: str, label: str) -> None:
        """Remember the label that the gateway has given an app, because it keeps the app's own for an MCP server."""
        self._saved.labels[app_id] = label
        self._save()

    # Starts.

    def start_rule(self, app_id: str) -> StartRule | None:
        """Return what the person has decided about this app, with the command that it was about."""
        return self._saved.starts.get(app_id)

    def keep_start(self, app_id: str, argv: Sequence[str], decision: Literal["allow", "deny", ""]) -> None:
        """Remember what the person has decided."""
        known = self._saved.starts.get(app_id)
        asked = 0 if known is None else known.asked
        self._saved.starts[app_id] = StartRule(list(argv), decision, asked + (not decision))
        self._save()

    # Connections.

    def resume_token(self, app_id: str) -> str:
        """Return the token with which the app's connection comes back as the same device."""
        return self._saved.resume_tokens.get(app_id, "")

    def keep_resume_token(self, app_id: str, token: str) -> None:
        """Remember the token."""
        if self._saved.resume_tokens.get(app_id, "") != token:
            self._saved.resume_tokens[app_id] = token
            self._save()

    def _save(self) -> None:
        if self._path is not None:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._path, msgspec.json.encode(self._saved))


class AppSwitches:
    """The apps that the person has disabled: a file with one id a line, which commands change while a bridge runs."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._last: frozenset[str] = frozenset()

    def disabled_apps(self) -> frozenset[str]:
        """Return the ids of the disabled apps. When the file can't be read, those that were known last."""
        with contextlib.suppress(OSError):
            self._last = self._read()
        return self._last

    def _read(self) -> frozenset[str]:
        """Return what the file has. Raises `OSError`."""
        if self.path is None:
            return frozenset()
        try:
            return frozenset(self.path.read_text(encoding="utf-8", errors="replace").split())
        except FileNotFoundError:
            return frozenset()

    def set(self, app_id: str, *, is_enabled: bool) -> None:
        """Enable or disable an app. Raises `OSError`."""
        assert self.path is not None
        ids = (self._read() - {app_id}) if is_enabled else (self._read() | {app_id})
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_name(f"{self.path.name}.new")
        fresh.write_text("".join(f"{one}\n" for one in sorted(ids)), encoding="utf-8")
        fresh.replace(self.path)


def start_id(app_id: str, argv: Sequence[str], asked: int) -> str:
    """Return the id of the question whether an app may be started by this command."""
    digest = hashlib.sha256(msgspec.json.encode((app_id, list(argv)))).hexdigest()
    return f"start-{digest[:32]}-{asked}"
