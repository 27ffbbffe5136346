"""The files of the repository, as the tests of the documents read them."""

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "handspan"
_NOT_OURS: Final = {"node_modules", "dist", "results", "__pycache__"}


def files_of(folder: Path, *endings: str) -> Iterator[Path]:
    """Every file below the folder with one of these endings, in order; no hidden folders, no build products."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(endings))


@cache
def modules() -> tuple[tuple[str, Path, ast.Module], ...]:
    """Every module of the product: its dotted name below `handspan`, its file and its syntax tree."""
    return tuple(
        (_name_of(file), file, ast.parse(file.read_text(encoding="utf-8"))) for file in files_of(SOURCE, ".py")
    )


def _name_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place_of(file: Path) -> str:
    """The path inside the repository, as messages of tests show it."""
    return file.relative_to(ROOT).as_posix()
