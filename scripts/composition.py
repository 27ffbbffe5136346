"""Prints how far the house is put together in one place: three counts, each by a rule, and where they come from.

1. Questions whether there are other nodes: a node part compared with None or used as a condition, outside its rooms.
2. Attributes that a constructor leaves unset: declared without a value, or None until another class sets them.
3. Positional arguments from the fifth on, in calls of functions and classes of our own. `*row` does not count.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).parents[1] / "src" / "handspan"
_NODE_ROOMS: Final = ("gateway/nodes/", "sources/nodes/", "store/postgres/", "bus/", "cli/", "testing/")
"""Rooms of nodes, and those that have other things of these names."""
_NODE_PARTS: Final = frozenset({"cluster", "others", "nodes", "share", "shared", "relay", "has_nodes", "is_alone"})
_LOCAL_PARTS: Final = frozenset({"cluster", "share", "has_nodes"})
"""Node parts that are also meant by a plain name. Other names have other meanings in some rooms."""
_WAITING: Final = ("Task[", "TimerHandle", "Handle", "Future[", "Thread", "Timer")
"""Types of what runs or waits: it begins after the constructor by its nature."""
_KEYWORDS_FROM: Final = 4
_SHOWN: Final = 5
_NODES: Final = "questions whether there are other nodes"

Counted = Iterator[tuple[int, int]]
"""Line, and how much counts there."""


def node_questions(tree: ast.Module) -> Counted:
    """Yield the conditions that ask whether there are other nodes."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                tested = [left]
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                tested = [test]
            case ast.BoolOp(values=values):
                tested = values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                tested = [operand]
            case _:
                continue
        yield from ((node.lineno, 1) for one in tested if _is_node_part(one))


def _is_node_part(node: ast.expr) -> bool:
    match node:
        case ast.Name(id=name):
            return name in _LOCAL_PARTS
        case ast.Attribute(attr="url", value=ast.Attribute(attr="cluster") | ast.Name(id="cluster")):
            return True
        case ast.Attribute(attr=name):
            return name.lstrip("_") in _NODE_PARTS
    return False


def set_from_outside(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the attributes that get a value by a name other than `self`."""
    targets = (
        target
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and not _is_none(node.value)
        for target in node.targets
    )
    return {target.attr for target in targets if isinstance(target, ast.Attribute) and not _is_own(target)}


def unset_attributes(tree: ast.Module, outside: set[str]) -> Counted:
    """Yield the attributes that constructors leave unset; `outside`: those that other classes set."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != "__init__":
            continue
        for one in ast.walk(node):
            if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Attribute):
                continue
            if any(kind in ast.unparse(one.annotation) for kind in _WAITING):
                continue
            if one.value is None or (_is_none(one.value) and one.target.attr in outside):
                yield one.lineno, 1


def _is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def _is_none(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def own_names(trees: dict[Path, ast.Module]) -> set[str]:
    """Return the names of all functions and classes of ours."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, kinds)}


def long_calls(tree: ast.Module, own: set[str]) -> Counted:
    """Yield the calls with arguments that need a keyword, and how many these are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not any(isinstance(one, ast.Starred) for one in node.args):
            match node.func:
                case ast.Name(id=name) | ast.Attribute(attr=name) if name in own and len(node.args) > _KEYWORDS_FROM:
                    yield node.lineno, len(node.args) - _KEYWORDS_FROM


def count_all() -> dict[str, dict[str, list[int]]]:
    """Return the three counts: for each rule, the lines of every file that departs from it."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(_SOURCE.rglob("*.py"))}
    outside, own = set_from_outside(trees), own_names(trees)
    rules: dict[str, Callable[[ast.Module], Counted]] = {
        _NODES: node_questions,
        "attributes that a constructor leaves unset": lambda tree: unset_attributes(tree, outside),
        "positional arguments from the fifth on": lambda tree: long_calls(tree, own),
    }
    counts: dict[str, dict[str, list[int]]] = {}
    for title, rule in rules.items():
        counts[title] = {}
        for path, tree in trees.items():
            name = path.relative_to(_SOURCE).as_posix()
            if title == _NODES and name.startswith(_NODE_ROOMS):
                continue
            if lines := [line for line, number in rule(tree) for _ in range(number)]:
                counts[title][name] = lines
    return counts


def main() -> None:
    """Print the counts; with an argument, every place."""
    for title, found in count_all().items():
        sys.stdout.write(f"{sum(map(len, found.values())):4d}  {title}\n")
        by_count = sorted(found.items(), key=lambda one: -len(one[1]))
        for name, lines in by_count if sys.argv[1:] else by_count[:_SHOWN]:
            sys.stdout.write(f"      {len(lines):4d}  {name}\n")
            if sys.argv[1:]:
                sys.stdout.write(f"            lines {', '.join(map(str, dict.fromkeys(lines)))}\n")


if __name__ == "__main__":
    main()
