"""Which skills of the workspace a person has enabled, and what was in them then (SPEC A3)."""

import os
import secrets
from pathlib import Path

import msgspec

from handspan.core.errors import ConfigError


class SkillSwitches:
    """A small file of the state directory: a skill's name and the fingerprint of what a person agreed to."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def enabled(self) -> dict[str, str]:
        """Fingerprints by name; `ConfigError` when the file can't be read: then nothing is enabled."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(
                f"{self._file} can't be read ({error}): repair it, or remove it and enable your skills again"
            ) from None

    def enable(self, name: str, fingerprint: str) -> bool:
        """Remember that this is enabled as it is; False when it was."""
        enabled = self.enabled()
        if enabled.get(name) == fingerprint:
            return False
        self._write(enabled | {name: fingerprint})
        return True

    def disable(self, name: str) -> bool:
        """Forget that this was enabled; False when it was not."""
        enabled = self.enabled()
        if enabled.pop(name, None) is None:
            return False
        self._write(enabled)
        return True

    def _write(self, enabled: dict[str, str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._file.with_name(f".{self._file.name}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(enabled)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
