"""The recording at the top of the README is a real picture of the story's commands."""

import xml.etree.ElementTree as ElementTree

from scripts import recording

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    tree = ElementTree.fromstring(picture)
    return ["".join(line.itertext()) for line in tree.iter(f"{SVG}text")]


def test_the_picture_shows_every_command_of_the_story_with_its_output() -> None:
    shown = texts(recording.PICTURE.read_text(encoding="utf-8"))
    places = [shown.index(f"$ {command}") for command in recording.STORY]
    assert places == sorted(places) and all(not shown[place + 1].startswith("$ ") for place in places)
    assert "percent: 80" in shown


def test_it_holds_text_that_looks_like_markup_and_breaks_long_lines_at_words() -> None:
    words = "word " * 60
    shown = texts(recording.draw([("echo '<b>'", f"<b>&amp;\n{words}")]))
    assert shown[:2] == ["$ echo '<b>'", "<b>&amp;"]
    assert all(len(line) <= recording.WIDTH for line in shown) and not any(line.endswith("wor") for line in shown)


def test_what_only_explains_the_stand_in_is_left_out() -> None:
    shown = texts(recording.draw([("c", "answer\n\nI am the offline stand-in: rules.")]))
    assert shown == ["$ c", "answer"]
