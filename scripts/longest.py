"""Prints the longest files and functions, and those without a docstring: a mirror, not a limit (CONTRIBUTING.md)."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SHOWN = 5
LONG = 8
"""A function of so many lines has a docstring, unless it stands in another one."""


def functions(path: Path) -> Iterator[tuple[int, str]]:
    """Every function of a file with its lines, the docstring not counted."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            first = node.body[0]
            is_words = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            words = (first.end_lineno or 0) - first.lineno + 1 if is_words else 0
            yield node.end_lineno - node.lineno + 1 - words, f"{path}:{node.lineno} {node.name}"


def without_docstring(path: Path) -> Iterator[tuple[int, str]]:
    """Every function and method of a file that says nothing of itself, with its lines, if they are many."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node) is None:
                lines = (node.end_lineno or 0) - node.body[0].lineno + 1
                if lines >= LONG and node.name != "__init__":
                    yield lines, f"{path}:{node.lineno} {node.name}"


def main() -> None:
    """Look at src, or at the folders that are named."""
    files = [path for folder in sys.argv[1:] or ["src"] for path in sorted(Path(folder).rglob("*.py"))]
    lengths = sorted(((len(path.read_text(encoding="utf-8").splitlines()), str(path)) for path in files), reverse=True)
    longest = sorted((found for path in files for found in functions(path)), reverse=True)
    silent = sorted((found for path in files for found in without_docstring(path)), reverse=True)
    for title, rows in (
        ("longest files", lengths),
        ("longest functions", longest),
        (f"functions of {LONG} lines or more without a docstring: {len(silent)}", silent),
    ):
        sys.stdout.write(f"{title}\n" + "".join(f"  {length:4d}  {what}\n" for length, what in rows[:SHOWN]))


if __name__ == "__main__":
    main()
