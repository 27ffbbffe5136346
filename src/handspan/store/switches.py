"""Which tools a person has switched off, beyond the settings (SPEC R9)."""

import os
import secrets
from pathlib import Path

import msgspec

from handspan.core.errors import ConfigError


class Switches:
    """A small file with the patterns that are off. Whoever changes one reads the others first."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def off(self) -> list[str]:
        """The patterns that are switched off."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=list[str])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            # Tools that a person switched off must not come back because a file is broken.
            raise ConfigError(
                f"{self._file} can't be read ({error}): repair it, or remove it to switch all on"
            ) from None

    def switch_off(self, pattern: str) -> bool:
        """Remember that this is off; False when it was."""
        patterns = self.off()
        if pattern in patterns:
            return False
        self._write([*patterns, pattern])
        return True

    def switch_on(self, pattern: str) -> bool:
        """Forget that this is off; False when it was not."""
        patterns = self.off()
        if pattern not in patterns:
            return False
        self._write([kept for kept in patterns if kept != pattern])
        return True

    def _write(self, patterns: list[str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(patterns)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
