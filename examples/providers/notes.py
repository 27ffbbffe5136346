"""A folder of Markdown files as tools.

python examples/providers/notes.py ~/Notes install    (then serve, remove)
"""

import sys
from itertools import islice
from pathlib import Path

from handspan.provider import Provider, ProviderError

LARGEST = 200_000
"""Characters of a note that are read."""


def make_app(folder: Path) -> Provider:
    """A provider over this folder. Raises `ValueError` when there is no such folder."""
    if not folder.is_dir():
        raise ValueError(f"There is no folder {str(folder)!r}: name the one that has the notes.")
    app = Provider("org.example.notes", description=f"Markdown notes in {folder.name}.", scopes={"notes": "All notes."})

    def titles() -> dict[str, Path]:
        # A note is looked up among what is there, links left out: no title leads out of the folder.
        files = (file for file in sorted(folder.rglob("*.md")) if file.is_file() and not file.is_symlink())
        return {file.relative_to(folder).as_posix().removesuffix(".md"): file for file in files}

    def text_of(file: Path) -> str:
        with file.open(encoding="utf-8", errors="replace") as opened:
            return opened.read(LARGEST)

    @app.tool
    def list_notes(words: str = "", limit: int = 100) -> list[str]:
        """List the titles of notes; with words, only titles that have them."""
        return list(islice((title for title in titles() if words.casefold() in title.casefold()), limit))

    @app.tool
    def read_note(title: str) -> str:
        """Read one note by its title."""
        found = titles().get(title.removesuffix(".md"))
        if found is None:
            raise ProviderError("INVALID_ARGS", f"There is no note {title!r}: list_notes has the titles")
        return text_of(found)

    @app.tool
    def search_notes(words: str, limit: int = 20) -> list[dict[str, str]]:
        """Find the lines of all notes that have these words."""
        found = (
            {"title": title, "line": line.strip()[:300]}
            for title, file in titles().items()
            for line in text_of(file).splitlines()
            if words.casefold() in line.casefold()
        )
        return list(islice(found, limit))

    return app


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    notes = Path(sys.argv[1]).expanduser().absolute()
    try:
        app = make_app(notes)
    except ValueError as error:
        sys.exit(str(error))
    app.main(sys.argv[2:], before=[str(notes)])
