"""Reads keys and other secrets from the environment or a file. An error names the place, never the key (SPEC S5)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from handspan.core.errors import ConfigError

_MAX_BYTES: Final = 64 * 1024


def read_secret(reference: str, environ: Mapping[str, str], setting: str) -> str:
    """Return the text that `env:NAME` or `file:PATH` stands for; other text stands for itself.

    Raises `ConfigError`, which names the `setting`, when there is no key.
    """
    kind, _, rest = reference.partition(":")
    match kind:
        case "env":
            return _from_environment(rest.strip(), environ, setting)
        case "file":
            return _from_file(rest.strip(), environ, setting)
    return reference.strip()


def _from_environment(name: str, environ: Mapping[str, str], setting: str) -> str:
    key = environ.get(name, "").strip()
    if not key:
        raise ConfigError(
            f"{setting}: the environment variable {name!r} is not set. Set it where the gateway is started, and "
            "start that again, or change the setting."
        )
    return key


def _from_file(path: str, environ: Mapping[str, str], setting: str) -> str:
    """Return the key in this file. Raises `ConfigError` when it can't be read or is empty."""
    file = Path(environ.get("HOME", "~"), path[2:]) if path.startswith("~/") else Path(path)
    if not file.is_absolute():
        raise ConfigError(f"{setting}: {path!r} is a relative path. Give one that begins with '/' or '~/'.")
    try:
        with file.open("rb") as content:
            key = content.read(_MAX_BYTES).decode().strip()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ConfigError(f"{setting}: the file {path!r} can't be read: {reason}. Check the path.") from None
    if not key:
        raise ConfigError(f"{setting}: the file {path!r} is empty. Write the key into it.")
    return key
