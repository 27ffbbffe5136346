"""The starter project of `handspan provider new`: a provider, its manifest, its test, and what to do with them."""

import keyword
import re
import sys
from pathlib import Path
from typing import Final

from handspan.wire.cetp_manifest import ProviderManifest, encode_manifest, read_manifest

_PROVIDER: Final = '''"""@TITLE@: read-only tools over a list of things. Replace the list with your app's data."""

from handspan.provider import Consumer, Provider

app = Provider(
    "@ID@",
    label="@NAME@",
    description="What is on the list of @TITLE@.",
    scopes={"items": "Names and amounts."},
)

ITEMS = [{"name": "milk", "amount": 2}, {"name": "bread", "amount": 1}]


@app.tool
def search_items(words: str, limit: int = 10) -> list[dict[str, object]]:
    """Find the items whose name has these words in it.

    Args:
        words: A part of the name; empty for all.
        limit: How many items at most.
    """
    return [dict(item) for item in ITEMS if words.lower() in str(item["name"])][:limit]


@app.tool
def count_items(consumer: Consumer) -> dict[str, object]:
    """Count the items on the list."""
    return {"items": len(ITEMS), "asked_by": consumer.name}


if __name__ == "__main__":
    app.main()
'''
_TEST: Final = '''"""Tests of @NAME@. Run them with: python -m unittest"""

import asyncio
import unittest

from handspan.provider import ProviderError

from @NAME@ import app


class Tools(unittest.TestCase):
    def test_items_are_found_by_a_part_of_their_name(self) -> None:
        self.assertEqual(asyncio.run(app.call("search_items", words="mil")), [{"name": "milk", "amount": 2}])

    def test_arguments_are_checked(self) -> None:
        with self.assertRaises(ProviderError):
            asyncio.run(app.call("search_items", limit="many"))


if __name__ == "__main__":
    unittest.main()
'''
_README: Final = """# @TITLE@

An app's data as tools for AI agents, by CETP v1. `@NAME@.py` is the provider; replace its list with your data.

    python -m unittest                                # its test
    handspan provider check @ID@.json    # against the protocol
    handspan provider install @ID@.json  # where bridges find it
    python @NAME@.py serve                         # or let a bridge start it on demand

Only let programs in that you have agreed to: `Provider(…, access=Access("ask", hint="…"))`. The manifest then needs
`"authorize"`; `python @NAME@.py manifest` prints it.
"""


def write_starter(folder: Path, name: str, provider_id: str) -> list[Path]:
    """Write the project into a new folder. Returns its files. Raises `ValueError`, `ManifestError` and `OSError`."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"{name!r} can't be the name of a module: use lower-case letters, digits and '_'.")
    if keyword.iskeyword(name) or name in sys.stdlib_module_names or name == "handspan":
        raise ValueError(f"{name!r} means something else in Python: choose another name.")
    project = folder / name
    script = project / f"{name}.py"
    manifest = ProviderManifest(provider_id, name, exec=[sys.executable, str(script), "serve"])
    read_manifest(encode_manifest(manifest))  # raises `ManifestError` for a wrong id
    if project.exists():
        raise ValueError(f"{project} exists already: choose another name, or another folder with --in.")
    project.mkdir(parents=True, mode=0o755)
    words = {"@NAME@": name, "@ID@": provider_id, "@TITLE@": name.replace("_", " ").capitalize()}
    texts = {f"{name}.py": _PROVIDER, f"test_{name}.py": _TEST, "README.md": _README}
    for file, text in texts.items():
        for mark, word in words.items():
            text = text.replace(mark, word)
        (project / file).write_text(text, encoding="utf-8")
    (project / f"{provider_id}.json").write_bytes(encode_manifest(manifest))
    for written in project.iterdir():
        written.chmod(0o644)  # a manifest that others may write to is not accepted
    return sorted(project.iterdir())
