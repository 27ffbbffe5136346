"""The rooms of the product, what each really imports, and what its plate and the contracts say about that."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.docs.repository import ROOT, SOURCE, modules

_GATEWAY: Final = "gateway"


def rooms() -> list[str]:
    """Every package directly below `handspan`, and those of the gateway (`gateway.rest`)."""
    return [*_packages(SOURCE, ""), *_packages(SOURCE / _GATEWAY, f"{_GATEWAY}.")]


def _packages(folder: Path, prefix: str) -> list[str]:
    return sorted(prefix + file.parent.name for file in folder.glob("*/__init__.py"))


@cache
def real_imports() -> dict[str, set[str]]:
    """The rooms that each room imports, in any of its modules; imports for types count.

    A room of the gateway also has the gateway's own modules and rooms that it imports, as `gateway.parts`.
    """
    found: dict[str, set[str]] = {room: set() for room in rooms()}
    for name, _, tree in modules():
        targets = list(_targets(tree))
        if (room := _top(name)) in found:
            found[room] |= {_top(target) for target in targets} - {room}
        if (inner := _second(name)) in found and inner != room:
            found[inner] |= {_second(target) if _top(target) == _GATEWAY else _top(target) for target in targets}
            found[inner].discard(inner)
    return found


def _targets(tree: ast.Module) -> Iterator[str]:
    """The modules of ours that a module imports, by their names below `handspan`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (_below_root(alias.name) for alias in names if alias.name.startswith("handspan."))
            case ast.ImportFrom(module="handspan", names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("handspan."):
                # `from handspan.gateway import parts`: the name may be a module.
                yield from (f"{_below_root(module)}.{alias.name}" for alias in names)


def _below_root(module: str) -> str:
    return module.removeprefix("handspan.")


def _top(module: str) -> str:
    return module.partition(".")[0]


def _second(module: str) -> str:
    return ".".join(module.split(".")[:2])


def plate_of(room: str) -> str:
    """The docstring at the head of a room's `__init__.py`; empty where there is none."""
    file = SOURCE.joinpath(*room.split(".")) / "__init__.py"
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def named_imports(room: str) -> set[str] | None:
    """The rooms in the first sentence of the plate's line `Imports:`; None where there is no such line."""
    if not (line := re.search(r"^Imports: (.*?)\.(?:\s|$)", plate_of(room), re.MULTILINE | re.DOTALL)):
        return None
    named = set(re.split(r",\s+", line[1]))
    return set() if named == {"nothing of ours"} else named


def contracts() -> list[dict[str, Any]]:
    """The import contracts of `pyproject.toml`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    listed: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return listed
