"""Links in documents lead somewhere, and files that documents name exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.repository import ROOT, SOURCE, files_of, place_of

PAGES: Final = [file for file in files_of(ROOT, ".md") if "recorded" not in file.parts]
FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADLINE: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATH: Final = re.compile(
    r"(?<![\w./~$-])(?:[\w*-]+/)+(?:[\w*-]+\.(?:py|md|toml|ts|json)\b)?|(?<![\w./~$-])[\w*-]+\.(?:py|md)\b"
)
PLACES: Final = (ROOT, SOURCE, SOURCE / "gateway")


@pytest.mark.parametrize("page", PAGES, ids=place_of)
def test_every_relative_link_leads_to_a_file_and_a_headline_of_it(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert not [link for link in LINK.findall(text) if "://" not in link and not leads(page, link)]


def leads(page: Path, link: str) -> bool:
    """Whether a link of this page has a target."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headlines, as GitHub makes them."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", line.lower()).strip().replace(" ", "-") for line in HEADLINE.findall(text)}


@pytest.mark.parametrize(
    "page",
    [
        *("AGENTS.md", "ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"),
        *("docs/calls_inside.md", "docs/code_map.md", "docs/nodes_inside.md", "docs/speed_inside.md"),
    ],
)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    missing = sorted({path for path in named_files((ROOT / page).read_text(encoding="utf-8")) if not exists(path)})
    assert not missing


def named_files(text: str) -> Iterator[str]:
    """Paths of ours in backticks and, if they name a folder and a file, in drawings; capitals stand for any name."""
    quoted = re.findall(r"`([^`\s]+)`", FENCED.sub("", text))
    drawn = [path for block in FENCED.findall(text) for path in PATH.findall(block) if re.search(r"/.+\.\w+$", path)]
    for path in (*quoted, *drawn):
        if PATH.fullmatch(path) and not re.search(r"\b[A-Z]{2,}\b(?!\.md)", path):
            yield path


def exists(path: str) -> bool:
    """Whether there is such a file or folder, from the repository's root, the package's or the gateway's."""
    return any(next(place.glob(path.rstrip("/")), None) for place in PLACES) or (
        "/" not in path and any(next(place.rglob(path), None) for place in (SOURCE, ROOT / "tests"))
    )
