"""Writes the JSON Schema of every frame to `protocol/schema/`; with `--check`, says what is not as it would be written.

    python scripts/protocol_schemas.py [--check]

The classes of `wire/ws_frames.py` are the one source: their docstrings and the words under their fields are the
descriptions here.
"""

import ast
import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec

from handspan.core import events
from handspan.wire import ws_frames

FOLDER = Path(__file__).parents[1] / "protocol" / "schema"
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def main() -> int:
    """Write the files, or compare them."""
    wanted = dict(files())
    if "--check" in sys.argv[1:]:
        wrong = differences(wanted)
        said = "".join(f"{name}: {why}\n" for name, why in wrong.items())
        sys.stdout.write(said or "protocol/schema: as it should be\n")
        return 1 if wrong else 0
    for name in differences(wanted):
        (FOLDER / name).unlink(missing_ok=True)
    for name, text in wanted.items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def differences(wanted: dict[str, str]) -> dict[str, str]:
    """What is wrong in the folder, by the name of the file."""
    there = {str(path.relative_to(FOLDER)): path for path in FOLDER.rglob("*.json")}
    wrong = dict.fromkeys(there.keys() - wanted.keys(), "belongs to no frame: remove it")
    for name, text in wanted.items():
        if name not in there:
            wrong[name] = "is missing: run scripts/protocol_schemas.py"
        elif there[name].read_text(encoding="utf-8") != text:
            wrong[name] = "is not what wire/ws_frames.py says: run scripts/protocol_schemas.py"
    return dict(sorted(wrong.items()))


def files() -> Iterator[tuple[str, str]]:
    """Every file's name and text."""
    for side, frames in (("client", ws_frames.ClientFrame), ("server", ws_frames.ServerFrame)):
        for frame in get_args(frames):
            tag = frame.__struct_config__.tag
            yield f"{side}/{tag}.json", written(schema(frame, f"{tag}, from the {side}"))
    yield "tool.json", written(schema(ws_frames.Offer, "An entry of register_tools"))
    yield "event.json", written(schema(events.Event, "What an event frame holds"))


def schema(kind: Any, title: str) -> dict[str, Any]:
    """The schema of one type, with everything that it refers to inside."""
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    top = definitions.pop(root["$ref"].rpartition("/")[2]) if "$ref" in root else root
    for name, described in definitions.items():
        _describe(described, name)
    _describe(top, getattr(kind, "__name__", ""))
    top.pop("title", None)
    whole = {"$schema": DRAFT, "title": title, **top}
    return {**whole, "$defs": definitions} if definitions else whole


def written(value: dict[str, Any]) -> str:
    """As a file has it."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _describe(described: dict[str, Any], name: str) -> None:
    """Add the words that stand under the fields of a class."""
    for field, words in _words(name).items():
        if field in described.get("properties", {}):
            described["properties"][field]["description"] = words


def _words(name: str) -> dict[str, str]:
    for module in (ws_frames, events, *_below(events)):
        found = getattr(module, name, None)
        if inspect.isclass(found) and found.__module__ == module.__name__:
            body = ast.parse(inspect.getsource(found)).body[0]
            assert isinstance(body, ast.ClassDef)
            return dict(_fields_with_words(body.body))
    return {}


def _fields_with_words(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, after in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            words = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(words, str):
                yield field.target.id, " ".join(words.split())


def _below(module: Any) -> list[Any]:
    """The modules that a module takes classes from."""
    names = {found.__module__ for found in vars(module).values() if inspect.isclass(found)}
    return [sys.modules[name] for name in sorted(names) if name.startswith("handspan.")]


if __name__ == "__main__":
    sys.exit(main())
