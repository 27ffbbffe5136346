"""What a person has switched off or on, as small files of the state folder (SPEC R9, A3).

A change reads the file first: programs that use one state folder share it.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from handspan.config.private_files import replace_private
from handspan.core.errors import ConfigError

_T = TypeVar("_T")


class _JsonFile(Generic[_T]):
    def __init__(self, file: Path, decoder: msgspec.json.Decoder[_T], empty: bytes, remedy: str) -> None:
        self._file = file
        self._decoder = decoder
        self._empty = empty
        self._remedy = remedy
        self._changing = threading.Lock()

    def read(self) -> _T:
        try:
            return self._decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return self._decoder.decode(self._empty)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._file} can't be read ({error}): repair it, or remove it {self._remedy}") from None

    async def change(self, change: Callable[[_T], _T | None]) -> bool:
        """Write what this makes of the value; False when it gives None, and nothing is to be changed."""
        return await asyncio.to_thread(self._change, change)

    def _change(self, change: Callable[[_T], _T | None]) -> bool:
        with self._changing:  # from reading to writing: of two changes at once none is lost
            value = change(self.read())
            if value is None:
                return False
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_private(self._file, msgspec.json.format(msgspec.json.encode(value)) + b"\n")
            return True


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
        return await self._patterns.change(lambda off: None if pattern in off else [*off, pattern])

    async def switch_on(self, pattern: str) -> bool:
        """Forget that this is off; False when it was not."""
        return await self._patterns.change(
            lambda off: [kept for kept in off if kept != pattern] if pattern in off else None
        )


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
        return await self._skills.change(
            lambda skills: None if skills.get(name) == fingerprint else skills | {name: fingerprint}
        )

    async def disable(self, name: str) -> bool:
        """Forget that this was enabled; False when it was not."""
        return await self._skills.change(lambda skills: None if skills.pop(name, None) is None else skills)
