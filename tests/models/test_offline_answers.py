"""The offline model: results in plain words (SPEC M5)."""

import pytest

from handspan.core.artifacts import ArtifactRef
from handspan.core.results import Attachment, Failure, Success
from handspan.core.values import Json
from handspan.models.offline import STAND_IN
from tests.models.offline_talk import Talk, answer_to, device

pytestmark = pytest.mark.anyio

LAPTOP = device("laptop")


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (None, "Done."),
        ("", "(empty)"),
        (True, "yes"),
        (12, "12"),
        ([], "Nothing was found."),
        ([1, [2, None]], "- 1\n- 2, –"),
        ({"content": ""}, "(empty)"),
        ({"content": "", "message": "No memory file found"}, "No memory file found"),
        ({"message": "ok"}, "ok"),
        ({"entries": []}, "There is nothing in it."),
        ({"entries": [{"name": "a"}, 3]}, "a, 3"),
        ({"exit_code": 0, "stdout": "hi\n", "stderr": ""}, "hi"),
        ({"exit_code": 2, "stdout": "", "stderr": "no such thing\n"}, "no such thing\n(exit code 2)"),
        ({"exit_code": 0, "stdout": "", "stderr": ""}, "It printed nothing."),
        ({"status": 200, "body": "<p>", "markdown": "text"}, "text"),
        ({"query": "q", "results": []}, "Nothing was found for 'q'."),
        ({"matches": []}, "Nothing was found."),
        (
            {"query": "q", "results": [{"title": "T", "url": "U"}, "x", {"other": 1}]},
            "- T – U\n- x\n- other: 1",
        ),
        ({"truncated": True, "head": "begin", "how_to_read": "read on"}, "begin\n[…] read on"),
        ('{"model": "Pixel 8", "os": {"name": "Android"}}', "model: Pixel 8, os: name: Android"),
        ("{not json}", "{not json}"),
        ({"name": "n", "size": 2}, "name: n\nsize: 2"),
        ("2026-02-27T15:04:05", "15:04:05 on Friday, 27 February 2026"),
        ("2026-13-27T15:04:05Z", "2026-13-27T15:04:05Z"),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, 'a: b: c: d: {"e":1}'),
        ({"a": [[[[1]]]]}, "a: [1]"),
    ],
)
async def test_results_are_told_in_readable_words(outcome: Json, told: str) -> None:
    answer = await answer_to("read notes.txt", outcomes={"read_file": outcome})
    assert answer.partition(f"\n\n{STAND_IN}")[0] == told


async def test_long_results_are_cut_and_say_so() -> None:
    answer = await answer_to("read notes.txt", outcomes={"read_file": "x" * 5000})
    assert "(1000 more characters)" in answer
    answer = await answer_to("list the files", outcomes={"list_directory": {"entries": ["e"] * 60}})
    assert "and 10 more" in answer
    assert "… and 10 more" in await answer_to("list the files", outcomes={"list_directory": ["e"] * 60})


async def test_attachment_of_a_result_is_named() -> None:
    photo = Attachment("image", "image/jpeg", artifact=ArtifactRef("a1", 7))
    talk = Talk(LAPTOP, outcomes={"laptop__camera": Success("taken", (photo,))})
    assert (await talk.say("take a photo")).startswith("taken\nWith it came: image (image/jpeg).")


async def test_one_failure_of_several_is_told_as_one() -> None:
    talk = Talk(outcomes={"read_file": Failure("file_not_found", "File not found: a.txt")})
    answer = await talk.say("read a.txt and tell me the time")
    assert answer.startswith("read_file (a.txt) failed: File not found: a.txt\nget_current_time: [get_current_time]")
