"""Parses settings files and texts: TOML, and JSON with the same keys (SPEC U4); YAML of other programs."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from handspan.core.errors import ConfigError
from handspan.core.late_imports import tomllib, yaml
from handspan.core.values import Json, JsonObject

_MAX_BYTES: Final = 1024 * 1024
_VALUE_STARTS: Final = frozenset("\"'+-[{ \t0123456789tfinTF")
"""Characters that a TOML value begins with; `T` and `F` because `True` and `False` count as values, too."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a settings file: JSON if its name ends in .json, else TOML. Raises `ConfigError`."""
    if path.suffix.lower() == ".json":
        return _parse(path, "JSON", _parse_json, 'one JSON object, such as {"tools": {}}')
    return _parse(path, "TOML", tomllib.loads, "a table")


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the content of another program's settings file in YAML. Raises `ConfigError`."""
    return _parse(path, "YAML", _parse_yaml, "one mapping, with a key for each setting")


def _parse(path: Path, kind: str, parse: Callable[[str], Any], wanted: str) -> dict[str, Any]:
    """Return the object in this file. Raises `ConfigError`, which says what was `wanted`, for everything else."""
    try:
        content = parse(_read_text(path))
    except RecursionError:
        raise ConfigError(f"{path}: it is nested too deep.") from None
    except ValueError as error:
        raise ConfigError(f"{path}: this is not valid {kind}: {error}.") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: it has to be {wanted}.")
    return content


def toml_values(text: str) -> list[Any]:
    """Return the TOML value that the text is, in a list; an empty list if the text is none."""
    if text[:1] not in _VALUE_STARTS:  # such as the name of a model: the parser need not be loaded for it
        return []
    literal = text.lower() if text.lower() in ("true", "false") else text
    try:
        document = tomllib.loads(f"value = {literal}")
    except (ValueError, RecursionError):
        return []
    return [document["value"]] if len(document) == 1 else []


def _read_text(path: Path) -> str:
    """Return the file's text. Raises `ConfigError` when there is none of a size and kind for settings."""
    try:
        kind = path.stat()
        if stat.S_ISDIR(kind.st_mode):
            raise ConfigError(f"{path}: this is a folder. Name the settings file in it.")
        if not stat.S_ISREG(kind.st_mode):  # reading a pipe or a device might never end
            raise ConfigError(f"{path}: this is not a regular file.")
        if kind.st_size > _MAX_BYTES:
            raise ConfigError(f"{path}: {kind.st_size} bytes are too many for settings (limit {_MAX_BYTES}).")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: it is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise ConfigError(f"{path}: it can't be read: {getattr(error, 'strerror', None) or error}.") from None


def _parse_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None


def _parse_json(text: str) -> Json:
    value: Json = json.loads(text, object_pairs_hook=_refuse_repeated_keys, parse_constant=_refuse_constant)
    return value


def _refuse_repeated_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    value: JsonObject = {}
    for key, item in pairs:
        if key in value:
            raise ValueError(f"the key {key!r} stands twice in one object")
        value[key] = item
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
