"""What a person has switched off or on, as small files of the state folder (SPEC R9, A3).

A change reads the file first: programs that use one state folder share it.
"""

import asyncio
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from handspan.core.errors import ConfigError
from handspan.store.files import replace_private

_T = TypeVar("_T")


class _JsonFile(Generic[_T]):
    def __init__(self, file: Path, decoder: msgspec.json.Decoder[_T], empty: bytes, remedy: str) -> None:
        self._file = file
        self._decoder = decoder
        self._empty = empty
        self._remedy = remedy

    def read(self) -> _T:
        try:
            return self._decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return self._decoder.decode(self._empty)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._file} can't be read ({error}): repair it, or remove it {self._remedy}") from None

    async def write(self, value: _T) -> None:
        data = msgspec.json.format(msgspec.json.encode(value)) + b"\n"
        await asyncio.to_thread(replace_private, self._file, data)


class FileSwitches:
    """The patterns of tools that are off."""

    def __init__(self, state: Path) -> None:
        # Tools that a person switched off must not come back because a file is broken.
        self._patterns = _JsonFile(state / "disabled.json", msgspec.json.Decoder(list[str]), b"[]", "to switch all on")

    async def off(self) -> list[str]:
        """The patterns that are switched off."""
        return self._patterns.read()

    async def switch_off(self, pattern: str) -> bool:
        """Remember that this is off; False when it was."""
        patterns = self._patterns.read()
        if pattern in patterns:
            return False
        await self._patterns.write([*patterns, pattern])
        return True

    async def switch_on(self, pattern: str) -> bool:
        """Forget that this is off; False when it was not."""
        patterns = self._patterns.read()
        if pattern not in patterns:
            return False
        await self._patterns.write([kept for kept in patterns if kept != pattern])
        return True


class FileSkillSwitches:
    """The skills that are on, each with the fingerprint of what a person agreed to."""

    def __init__(self, state: Path) -> None:
        self._skills = _JsonFile(
            state / "skills.json", msgspec.json.Decoder(dict[str, str]), b"{}", "and enable your skills again"
        )

    async def enabled(self) -> dict[str, str]:
        """By name the fingerprints of what a person agreed to."""
        return self._skills.read()

    async def enable(self, name: str, fingerprint: str) -> bool:
        """Remember that this is enabled as it is; False when it was."""
        skills = self._skills.read()
        if skills.get(name) == fingerprint:
            return False
        await self._skills.write(skills | {name: fingerprint})
        return True

    async def disable(self, name: str) -> bool:
        """Forget that this was enabled; False when it was not."""
        skills = self._skills.read()
        if skills.pop(name, None) is None:
            return False
        await self._skills.write(skills)
        return True
