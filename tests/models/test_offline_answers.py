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
        (True, "true"),
        (12, "12"),
        ([], "Nothing was found."),
        ([1, [2, None]], "- 1\n- [2,null]"),
        ({"content": "", "message": "No memory file found"}, "No memory file found"),
        ({"message": "ok"}, "ok"),
        ({"entries": []}, "Nothing was found."),
        ({"entries": [{"name": "a", "is_dir": True}, {"name": "b", "is_dir": False}, 3]}, "- a\n- b\n- 3"),
        ({"exit_code": 0, "stdout": "hi", "stderr": ""}, "hi"),
        ({"exit_code": 2, "stderr": "no such thing"}, "exit_code: 2\nstderr: no such thing"),
        ({"status": 200, "body": "<p>", "markdown": "text"}, "text"),
        ({"query": "q", "results": []}, "Nothing was found."),
        ({"query": "q", "results": [{"title": "T", "url": "U"}, "x"]}, '- {"title":"T","url":"U"}\n- x'),
        ({"truncated": True, "head": "begin", "how_to_read": "read on"}, "begin"),
        ('{"model": "Pixel 8"}', '{"model": "Pixel 8"}'),
        ({"name": "n", "size": 2}, "name: n\nsize: 2"),
        ("2026-02-27T15:04:05+09:00", "15:04:05 on 2026-02-27 (UTC+09:00)"),
        ({"a": {"b": [1]}}, 'a: {"b":[1]}'),
    ],
)
async def test_results_are_told_in_readable_words(outcome: Json, told: str) -> None:
    answer = await answer_to("read notes.txt", outcomes={"read_file": outcome})
    assert answer.partition(f"\n\n{STAND_IN}")[0] == told


async def test_long_results_are_cut_and_say_so() -> None:
    answer = await answer_to("read notes.txt", outcomes={"read_file": "x" * 5000})
    assert "(1000 more characters)" in answer
    assert "… and 10 more" in await answer_to("list the files", outcomes={"list_directory": ["e"] * 60})


async def test_attachment_of_a_result_is_named() -> None:
    photo = Attachment("image", "image/jpeg", artifact=ArtifactRef("a1", 7))
    talk = Talk(LAPTOP, outcomes={"laptop__camera": Success("taken", (photo,))})
    assert (await talk.say("take a photo")).startswith("taken\nWith it came: image (image/jpeg).")


async def test_one_failure_of_several_is_told_as_one() -> None:
    talk = Talk(outcomes={"read_file": Failure("file_not_found", "File not found: a.txt")})
    answer = await talk.say("read a.txt and tell me the time")
    assert answer.startswith("read_file failed: File not found: a.txt\nget_current_time: [get_current_time]")
