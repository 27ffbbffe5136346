"""Writes `docs/settings.md`: every setting with its type, default, environment variable and meaning.

    python scripts/settings_page.py [--check]

The sections in `config/` are the one source: the sentence under a field is its meaning. With `--check` nothing is
written, and the exit code is 1 when the page differs from what would be written.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo

from handspan.config.example import meanings_of
from handspan.config.setting_types import describe_wanted, form_of, section_of
from handspan.config.settings import Settings

PAGE: Final = Path(__file__).parents[1] / "docs" / "settings.md"
HEAD: Final = """# Settings

<!-- Written by `make docs` from src/handspan/config/settings.py. Change the sentences there. -->

Settings come from a file (`~/.config/handspan/config.toml`, or `config.json` with the same keys; `HANDSPAN_CONFIG` or
`--config` names another one), from environment variables, and from options of the command line. A later one wins.
An unknown key is an error that names the nearest known one. `NAME` stands for a name that you choose. The environment
takes lists and tables as TOML. [spec.md](spec.md) explains ids such as `SPEC E5`.
"""
TABLE: Final = "| key | type | default | environment variable | meaning |\n|---|---|---|---|---|"


def main() -> int:
    """Write the page, or check it; the exit code."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    return 0 if PAGE.read_text(encoding="utf-8") == page() else 1


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_section(Settings, "", "HANDSPAN_")])


def _section(section: type[Struct], key: str, variable: str) -> Iterator[str]:
    """One section with its table, then the sections inside it. An empty `variable`: the environment can't set it."""
    fields = msgspec.structs.fields(section)
    yield f"## `{key}`\n\n{_line(inspect.getdoc(section) or '')}\n" if key else "## Top level\n"
    if plain := [field for field in fields if not section_of(field.type)]:
        meanings = meanings_of(section)
        rows = (_row(field, _joined(key, field.name), variable, meanings[field.name]) for field in plain)
        yield "\n".join([TABLE, *rows, ""])
    for field in fields:
        yield from _inner(field.type, _joined(key, field.name), variable and variable + field.name.upper())


def _inner(kind: Any, key: str, variable: str) -> Iterator[str]:
    """The sections that a setting of this type holds: itself, those of a map by name, those of a list."""
    form = form_of(kind)
    if section := section_of(kind):
        yield from _section(section, key, variable and f"{variable}__")
    elif form.base is dict and (section := section_of(form.parts[1])):
        yield from _section(section, f"{key}.NAME", variable and f"{variable}__NAME__")
    elif form.base is tuple and (section := section_of(form.parts[0])):
        yield from _section(section, f"{key}[]", "")


def _row(field: FieldInfo, key: str, variable: str, meaning: str) -> str:
    named = f"`{variable}{field.name.upper()}`" if variable else "–"
    cells = (f"`{key}`", _type(field.type), _default(field), named, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _type(kind: Any) -> str:
    """What a value has to be, in words."""
    form = form_of(kind)
    if form.base is dict:
        values = form.parts[1] if len(form.parts) == 2 else Any
        return f"a table: {_type(values)} for each name" if not section_of(values) else "a table of sections"
    if form.base is tuple:
        return "a list of sections" if section_of(form.parts[0]) else f"a list; each {_type(form.parts[0])}"
    if form.base is Path:
        return "a path"
    return describe_wanted(form)


def _default(field: FieldInfo) -> str:
    """The default as a settings file would have it."""
    if field.default_factory is not NODEFAULT:
        made = field.default_factory()
        return f"`{', '.join(made)}`" if made else "empty"
    match field.default:
        case value if value is NODEFAULT:
            return "see the meaning" if field.type is Path else "none: it has to be given"
        case None:
            return "unset"
        case "" | () | {}:
            return "empty"
        case bool() as value:
            return f"`{str(value).lower()}`"
        case value:
            return f"`{value}`"


def _line(text: str) -> str:
    return " ".join(text.split())


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


if __name__ == "__main__":
    sys.exit(main())
