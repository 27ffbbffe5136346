"""The files of the repository, as the tests of the documents read them."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src" / "handspan"
_NOT_OURS: Final = {"node_modules", "dist", "results", "__pycache__"}


def files_of(folder: Path, *endings: str) -> Iterator[Path]:
    """Every file below the folder with one of these endings, in order. Hidden and built ones are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_OURS and not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(endings))


def modules() -> Iterator[tuple[str, Path, ast.Module]]:
    """Every module of the product: its dotted name below `handspan`, its file and its syntax tree."""
    for file in files_of(SOURCE, ".py"):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield name, file, ast.parse(file.read_text(encoding="utf-8"))


def place_of(file: Path) -> str:
    """The path inside the repository, as messages of tests show it."""
    return file.relative_to(ROOT).as_posix()
