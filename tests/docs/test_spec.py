"""Every id that code, tests, protocol pages or documents cite is explained in docs/spec.md."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.docs.repository import ROOT, files_of, place_of
from tests.interaction.requirements import REQUIREMENTS

TEXT: Final = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
SECTIONS: Final = re.findall(r"^## ([A-Z]): ", TEXT, re.MULTILINE)
IDS: Final = re.findall(r"^- \*\*([A-Z]\d+)\*\* ", TEXT, re.MULTILINE)
PLANNED: Final = re.findall(r"^- \*\*([A-Z]\d+)\*\* Planned: ", TEXT, re.MULTILINE)

NAMED: Final = re.compile(r"\bSPEC ([A-Z]\d*\b(?:(?:, | and |[-–])[A-Z]\d*\b)*)")
BARE: Final = re.compile(r"\(([A-Z]\d+(?:, [A-Z]\d+)*)\)|# ([A-Z]\d+(?:, [A-Z]\d+)*): ")


def citations() -> Iterator[tuple[str, str]]:
    """Each cited id with the file that cites it: `SPEC T3, T5`, and in Python also `(T3)` and `# T3: `."""
    for folder in ("src", "tests", "protocol", "docs", "bench", "examples", "sdks", "scripts"):
        for file in files_of(ROOT / folder, ".py", ".md", ".ts", ".json"):
            if "recorded" not in file.parts:
                yield from ((cited, place_of(file)) for cited in _cited(file.read_text(encoding="utf-8"), file.suffix))
    for page in ROOT.glob("*.md"):
        yield from ((cited, page.name) for cited in _cited(page.read_text(encoding="utf-8"), page.suffix))


def _cited(text: str, ending: str) -> Iterator[str]:
    lists = NAMED.findall(text)
    if ending == ".py":
        lists += ["".join(groups) for groups in BARE.findall(text)]
    for found in lists:
        yield from re.findall(r"[A-Z]\d*\b", found)


def test_every_citation_points_to_an_id_or_a_section_of_the_page() -> None:
    known, found = {*IDS, *SECTIONS}, list(citations())
    assert len(found) > 400, "The patterns above find citations no longer."
    nowhere = sorted(f"{file}: {cited}" for cited, file in found if cited not in known)
    assert not nowhere, "Explain these ids in docs/spec.md, or cite others."


def test_every_id_stands_once_and_in_the_section_of_its_letter() -> None:
    assert not [cited for cited, times in Counter([*IDS, *SECTIONS]).items() if times > 1]
    for letter, section in zip(SECTIONS, re.split(r"^## [A-Z]: .*$", TEXT, flags=re.MULTILINE)[1:], strict=True):
        assert {cited[0] for cited in re.findall(r"^- \*\*([A-Z]\d+)\*\* ", section, re.MULTILINE)} <= {letter}


def test_every_promise_with_tests_is_on_the_page_and_not_marked_as_planned() -> None:
    assert not REQUIREMENTS.keys() - {*IDS, *SECTIONS}
    assert not REQUIREMENTS.keys() & set(PLANNED)
