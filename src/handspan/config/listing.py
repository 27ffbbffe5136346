"""The settings in force as a person may see them, each with its source; and changes of their files since the start."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from handspan.config import mcp_file
from handspan.config.load import LoadedSettings, find_file, folder_of
from handspan.config.settings import Settings
from handspan.config.tool_settings import McpServer
from handspan.core.errors import ConfigError
from handspan.core.values import Json

_SECRETS: Final = frozenset(
    ("api_key", "client_secret", "key", "operator_token", "password", "secret", "secret_key", "token")
)
"""Settings whose values are secret."""
_SECRET_TABLES: Final = frozenset(("env", "headers", "options"))
"""Tables in which every value may be secret."""
_SERVERS: Final = ("tools", "mcp_servers")
_CHANNELS: Final = "channels"
"""In this section a whole address may be a secret: addresses of Apprise are."""
_AT_START: Final = frozenset(
    ("workspace", "state", "store", "journal_days", "gateway", "log", "channels", "cluster", "mcp", "push", "schedules")
)
"""What is read once, at the start: folders, the database, the port, the log, channels, nodes, /mcp.

See `with_reloadable`."""
_TOOLS_AT_START: Final = (("tools", "sandbox"), ("tools", "media"))
_MOST: Final = 3
"""The most keys of one part that are named one by one."""
_REFERENCES: Final = ("env:", "file:")
"""How a value begins that only says where the secret is."""
_USER_OF_URL: Final = r"(?<=://)[^/\s]+(?=@)|(?<=password=)[^&\s]+"


class SettingRow(NamedTuple):
    """One setting: its dotted key, its value without secrets, and its source."""

    key: str
    value: Json
    source: str


class SettingChanges(NamedTuple):
    """Keys of settings whose files say something that is not in force."""

    reloadable: list[str]
    """They can take effect while the gateway runs."""
    needs_restart: list[str]


class SettingsAtStart:
    """Settings in force, and the content that their file had when they were loaded."""

    def __init__(
        self,
        settings: Settings,
        loaded: LoadedSettings | None = None,
        check: Callable[[Settings], None] = lambda _: None,
    ) -> None:
        """Without `loaded`, a program made the settings, and no file can change them.

        `check` raises `ConfigError` for settings that can be read, and with which no gateway starts.
        """
        self._check = check
        self.loaded = loaded or LoadedSettings(settings, None, {})
        self._has_file = loaded is not None
        self._content = _content(self.loaded.file)
        self.problem = ""
        """Why the files can't be used as they are now. What they said before stays in force."""

    @property
    def file(self) -> Path | None:
        """The settings file, also one that was added since the start; None if there is none."""
        return self.loaded.file or (_default_file() if self._has_file else None)

    @property
    def is_changed(self) -> bool:
        """Whether the file has a content that is not in force; also when the file was added or removed."""
        return _content(self.file) != self._content

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the settings come from, whether they are there or not."""
        file = self.file
        servers = folder_of(file, os.environ) / mcp_file.NAME
        return (servers,) if file is None else (file, servers)

    def changes(self) -> SettingChanges:
        """Read the files again, and return what they say that is not in force; nothing if they have a `problem`."""
        if not self.is_changed:
            return SettingChanges([], [])
        try:
            return compare_settings(self.loaded.settings, self.read_fresh().settings)
        except ConfigError:  # `problem` has the error
            return SettingChanges([], [])

    def read_fresh(self) -> LoadedSettings:
        """Read the files again. Raises `ConfigError` when they can't be used; `problem` says why, too."""
        if self.loaded.reload is None:
            raise ConfigError("A program made the settings of this gateway: there is no file to read again.")
        try:
            fresh = self.loaded.reload()
            self._check(fresh.settings)
        except ConfigError as error:
            self.problem = str(error)
            raise
        self.problem = ""
        return fresh

    def take(self, fresh: LoadedSettings) -> None:
        """Note that these settings are in force now, without those that need a restart."""
        in_force = with_reloadable(self.loaded.settings, fresh.settings)
        sources = {key: source for key, source in fresh.sources.items() if not _needs_restart(key)}
        sources |= {key: source for key, source in self.loaded.sources.items() if _needs_restart(key)}
        content = _content(fresh.file or _default_file())
        self.loaded = LoadedSettings(in_force, fresh.file, sources, self.loaded.reload)
        if in_force == fresh.settings:
            self._content = content

    def read_servers(self) -> Mapping[str, McpServer]:
        """Read the files again, and return their MCP servers, which are in force as soon as their file has changed.

        Raises `ConfigError` when the files can't be used.
        """
        content = _content(self.file)
        fresh = self.read_fresh()
        before, servers = self.loaded, fresh.settings.tools.mcp_servers
        in_force = replace(before.settings, tools=replace(before.settings.tools, mcp_servers=servers))
        sources = {key: source for key, source in fresh.sources.items() if key[:2] == _SERVERS}
        sources |= {key: source for key, source in before.sources.items() if key[:2] != _SERVERS}
        self.loaded = LoadedSettings(in_force, before.file, sources, before.reload)
        if in_force == fresh.settings:
            self.loaded, self._content = fresh, content
        return servers


def with_reloadable(before: Settings, fresh: Settings) -> Settings:
    """Return the fresh settings, but with the earlier values of those that only a restart changes."""
    kept = {name: getattr(before, name) for name in _AT_START}
    tools = {name: getattr(before.tools, name) for _, name in _TOOLS_AT_START}
    return replace(fresh, **kept, tools=replace(fresh.tools, **tools))


def compare_settings(before: Settings, fresh: Settings) -> SettingChanges:
    """Return the keys whose values differ, in their order."""
    old, new = (dict(_values(msgspec.to_builtins(one, enc_hook=str))) for one in (before, fresh))
    keys = [key for key in (*old, *(key for key in new if key not in old)) if old.get(key) != new.get(key)]
    return SettingChanges(
        [".".join(key) for key in keys if not _needs_restart(key)],
        [".".join(key) for key in keys if _needs_restart(key)],
    )


def _needs_restart(key: tuple[str, ...]) -> bool:
    return key[0] in _AT_START or key[:2] in _TOOLS_AT_START


def shorten_keys(keys: Sequence[str]) -> list[str]:
    """Return the keys in order. If many lie in one part, such as a new agent, the part stands for all of them.

    A table that was empty is left out: the keys that it has now are named.
    """
    keys = [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]
    parts = Counter(part for key in keys for part in _parts(key))
    return list(dict.fromkeys(next((part for part in _parts(key) if parts[part] > _MOST), key) for key in keys))


def _parts(key: str) -> list[str]:
    """Return the parts that a key lies in, the outermost first: `a.b` and `a.b.c` for `a.b.c.d`."""
    words = key.split(".")
    return [".".join(words[:count]) for count in range(2, len(words))]


def setting_rows(loaded: LoadedSettings) -> list[SettingRow]:
    """Return every setting, in the order of the settings' definition."""
    values = _values(msgspec.to_builtins(loaded.settings, enc_hook=str))
    return [
        SettingRow(".".join(key), hide_secret(key, value), loaded.sources.get(key, "default")) for key, value in values
    ]


def hide_secret(key: tuple[str, ...], value: Json) -> Json:
    """Return the value as it may be shown."""
    if not value or not isinstance(value, str):
        return "…" if value and _SECRET_TABLES & set(key) else value
    holds_key = key[-1] in _SECRETS or (key[0], key[-1]) == (_CHANNELS, "url")
    is_secret = holds_key and not value.startswith(_REFERENCES)
    return "…" if is_secret or _SECRET_TABLES & set(key) else re.sub(_USER_OF_URL, "…", value)


def secret_values(settings: Settings) -> Iterator[str]:
    """Yield every text in the settings that is a secret, or holds one: a log must not show it."""
    for key, value in _values(msgspec.to_builtins(settings, enc_hook=str)):
        if isinstance(value, str) and (shown := hide_secret(key, value)) != value:
            yield from [value] if shown == "…" else re.findall(_USER_OF_URL, value)


def _values(value: Json, key: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
    """Yield each value that is no table, with its key; an empty table counts as a value."""
    if isinstance(value, dict) and (value or not key):
        for name, item in value.items():
            yield from _values(item, (*key, name))
    else:
        yield key, value


def _content(file: Path | None) -> bytes | None:
    try:
        return None if file is None else file.read_bytes()
    except OSError:
        return None


def _default_file() -> Path | None:
    try:
        return find_file(os.environ)
    except ConfigError:  # there are two of them now
        return None
