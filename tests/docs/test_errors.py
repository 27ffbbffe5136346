"""The tree of errors in core/errors.py is whole: it has every class that derives from the root."""

import ast
import re
from typing import Final, NamedTuple

from handspan.core import errors
from tests.docs.repository import modules

ROOT: Final = "HandspanError"
LINE: Final = re.compile(r"^((?:[│ ] {3})*)(?:[├└]── )?([A-Z]\w+) +([a-z]+)  +\S", re.MULTILINE)


class Drawn(NamedTuple):
    """One class of the tree."""

    name: str
    parent: str
    room: str


def drawn() -> set[Drawn]:
    """The classes of the tree that is drawn in the docstring."""
    found: set[Drawn] = set()
    above: list[str] = []
    for line in LINE.finditer(errors.__doc__ or ""):
        depth = line.start(2) - line.start()
        del above[depth // 4 :]
        found.add(Drawn(line[2], above[-1] if above else "", line[3]))
        above.append(line[2])
    return found


def real() -> set[Drawn]:
    """The classes of the code that derive from the root."""
    defined = {
        Drawn(node.name, ast.unparse(base).rpartition(".")[2], module.partition(".")[0])
        for module, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }
    found = {Drawn(ROOT, "", "core")}
    while more := {one for one in defined - found if one.parent in {known.name for known in found}}:
        found |= more
    return found


def test_the_tree_has_every_error_under_its_parent_and_with_its_room() -> None:
    assert sorted(drawn()) == sorted(real())
