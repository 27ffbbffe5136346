"""What a person has switched off or on, as small files of the state folder (SPEC R9, A3).

Each change reads the file again, because several programs may share one state folder.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from handspan.config.private_files import replace_private
from handspan.core.errors import ConfigError

_T = TypeVar("_T")

PATTERNS: Final = msgspec.json.Decoder(list[str])
FINGERPRINTS: Final = msgspec.json.Decoder(dict[str, str])


class JsonValue(Protocol[_T]):
    """One value that is read and written as a whole."""

    async def read(self) -> _T:
        """Return the value. Raises `ConfigError` when it is damaged."""

    async def change(self, change: Callable[[_T], _T | None]) -> bool:
        """Write what `change` makes of the value. Return False if it returns None: then nothing changes."""


class _JsonFile(Generic[_T]):
    """A value in a file. Implements `JsonValue`."""

    def __init__(self, file: Path, decoder: msgspec.json.Decoder[_T], empty: bytes, remedy: str) -> None:
        """`empty`: the value without a file, as JSON; `remedy`: the end of the error for a damaged file."""
        self._file = file
        self._decoder = decoder
        self._empty = empty
        self._remedy = remedy
        self._changing = threading.Lock()

    async def read(self) -> _T:
        return self._read()

    def _read(self) -> _T:
        try:
            return self._decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return self._decoder.decode(self._empty)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._file} can't be read ({error}): repair it, or remove it {self._remedy}") from None

    async def change(self, change: Callable[[_T], _T | None]) -> bool:
        return await asyncio.to_thread(self._change, change)

    def _change(self, change: Callable[[_T], _T | None]) -> bool:
        with self._changing:  # held from reading to writing, so that no change of another thread is lost
            value = change(self._read())
            if value is None:
                return False
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_private(self._file, msgspec.json.format(msgspec.json.encode(value)) + b"\n")
            return True


class JsonSwitches:
    """Stores the patterns of tools that are switched off. Implements `Switches`."""

    def __init__(self, patterns: JsonValue[list[str]]) -> None:
        self._patterns = patterns

    async def off(self) -> list[str]:
        return await self._patterns.read()

    async def switch_off(self, pattern: str) -> bool:
        return await self._patterns.change(lambda off: None if pattern in off else [*off, pattern])

    async def switch_on(self, pattern: str) -> bool:
        return await self._patterns.change(
            lambda off: [one for one in off if one != pattern] if pattern in off else None
        )


def file_switches(state: Path) -> JsonSwitches:
    """Return the switches in this folder."""
    # A damaged file is an error: it must not bring back tools that a person switched off.
    return JsonSwitches(_JsonFile(state / "disabled.json", PATTERNS, b"[]", "to switch all on"))


class JsonSkillSwitches:
    """Stores the skills that are enabled, each with the fingerprint that a person agreed to: `SkillSwitches`."""

    def __init__(self, skills: JsonValue[dict[str, str]]) -> None:
        self._skills = skills

    async def enabled_skills(self) -> dict[str, str]:
        return await self._skills.read()

    async def enable(self, name: str, fingerprint: str) -> bool:
        return await self._skills.change(
            lambda skills: None if skills.get(name) == fingerprint else skills | {name: fingerprint}
        )

    async def disable(self, name: str) -> bool:
        return await self._skills.change(lambda skills: None if skills.pop(name, None) is None else skills)


def file_skill_switches(state: Path) -> JsonSkillSwitches:
    """Return the switches of skills in this folder."""
    return JsonSkillSwitches(_JsonFile(state / "skills.json", FINGERPRINTS, b"{}", "and enable your skills again"))
