"""Results that are too large for a model (SPEC X3)."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.config.store_settings import ArtifactSettings
from handspan.core.errors import ToolError
from handspan.core.long_text import json_size
from handspan.core.results import Attachment, Failure, Success, succeed
from handspan.core.store import ArtifactStore
from handspan.core.values import Json, JsonObject
from handspan.engine.result_limit import ResultCutter, cut_message, shrink
from tests.stores import open_artifacts

pytestmark = pytest.mark.anyio

LIMIT = 65_536


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return open_artifacts(tmp_path / "artifacts")


async def cut(value: Json, artifacts: ArtifactStore, room: int = LIMIT) -> Json:
    success = await ResultCutter(artifacts, "owner", "session", "tool", room).limit(succeed(value))
    assert len(success.encoded) <= room
    return success.value


async def cut_text(text: str, artifacts: ArtifactStore, room: int = LIMIT) -> str:
    shown = await cut(text, artifacts, room)
    assert isinstance(shown, str)
    return shown


async def cut_object(value: Json, artifacts: ArtifactStore) -> JsonObject:
    shown = await cut(value, artifacts)
    assert isinstance(shown, dict)
    return shown


def artifact_in(mark: str) -> str:
    return mark.partition("read_artifact with id '")[2].partition("'")[0]


async def test_when_the_artifact_can_not_be_kept_head_and_tail_are_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    shown = await cut_text("x" * 100_000, open_artifacts(tmp_path / "artifacts"))
    assert shown.startswith("x" * 40_000) and shown.endswith("x" * 15_000)
    assert "The whole could not be kept (The artifact can't be kept: " in shown
    assert "Ask for smaller parts." in shown


async def test_one_that_is_too_large_even_for_an_artifact_says_so(tmp_path: Path) -> None:
    shown = await cut_text("x" * 100_000, open_artifacts(tmp_path / "artifacts", ArtifactSettings(size=10)))
    assert "100000 bytes are more than an artifact may have (10)" in shown


async def test_a_text_stays_a_text_that_fills_the_limit_and_is_cut_at_lines(artifacts: ArtifactStore) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 20_001))
    shown = await cut_text(text, artifacts)
    head, mark, tail = (
        shown.partition("[… ")[0],
        shown.partition("[… ")[2].partition(" …]\n")[0],
        shown.partition("…]\n")[2],
    )
    assert text.startswith(head) and head.endswith("\n") and text.endswith(tail) and tail.startswith("line ")
    assert json_size(shown) > 64_500 and 2.8 < len(head) / len(tail) < 3.2
    first, last = head.count("\n") + 1, 20_000 - tail.count("\n")
    left_out = len(text) - len(head) - len(tail)
    assert mark.startswith(f"{left_out} of {len(text)} bytes left out here, lines {first} to {last} of 20000.")
    assert f"offset {len(head)} to read on" in mark


async def test_the_artifact_of_a_text_is_that_text(artifacts: ArtifactStore) -> None:
    text = 'quote " and\nline\n' * 10_000
    handle = artifact_in(await cut_text(text, artifacts))
    assert await artifacts.read(handle, owner="owner") == text.encode()
    assert (await artifacts.get(handle, owner="owner")).media_type == "text/plain"
    with pytest.raises(ToolError):
        await artifacts.read(handle, owner="somebody else")


async def test_the_preview_can_be_lowered(artifacts: ArtifactStore) -> None:
    assert len((await cut_text("word\n" * 20_000, artifacts, room=4096)).encode()) < 4096


async def test_a_long_text_in_an_object_is_cut_as_a_text_and_the_other_fields_stay(artifacts: ArtifactStore) -> None:
    body = "<p>line</p>\n" * 10_000
    shown = await cut_object({"status": 200, "headers": {"server": "x"}, "body": body, "url": "u"}, artifacts)
    assert (shown["status"], shown["headers"], shown["url"]) == (200, {"server": "x"}, "u")
    assert str(shown["body"]).startswith("<p>line</p>\n<p>") and len(str(shown["body"])) > 55_000
    assert await artifacts.read(artifact_in(str(shown["body"])), owner="owner") == body.encode()


async def test_two_long_texts_share_the_room_and_a_short_one_stays_whole(artifacts: ArtifactStore) -> None:
    shown = await cut_object({"out": "a\n" * 50_000, "err": "b\n" * 50_000, "note": "c\n" * 2_000}, artifacts)
    assert shown["note"] == "c\n" * 2_000
    assert json_size(shown["out"]) > 28_000 and json_size(shown["err"]) > 28_000
    assert artifact_in(str(shown["out"])) != artifact_in(str(shown["err"]))


async def test_a_list_is_shown_by_its_first_and_last_items_and_kept_line_by_line(artifacts: ArtifactStore) -> None:
    items: list[Json] = [{"number": number} for number in range(10_000)]
    shown = await cut_object(items, artifacts)
    assert (shown["truncated"], shown["items"]) == (True, 10_000)
    preview = shown["preview"]
    assert isinstance(preview, list)
    assert (preview[0], preview[-1]) == ({"number": 0}, {"number": 9999})
    marks = [item for item in preview if isinstance(item, str)]
    assert marks == [f"[… {10_000 - len(preview) + 1} of 10000 items left out …]"]
    whole = await artifacts.read(str(shown["artifact"]), owner="owner")
    assert msgspec.json.decode(whole) == items
    assert whole.count(b"\n") > 10_000
    assert (await artifacts.get(str(shown["artifact"]), owner="owner")).media_type == "application/json"


async def test_an_object_is_shown_with_the_number_of_items_of_each_list_in_it(artifacts: ArtifactStore) -> None:
    value = await cut_object({"rows": list(range(20_000)), "k" * 100: [1], "total": 20_000}, artifacts)
    assert value["items"] == {"rows": 20_000, "k" * 60: 1}
    preview = value["preview"]
    assert isinstance(preview, dict) and preview["total"] == 20_000
    assert list(preview) == ["rows", "k" * 100, "total"]


async def test_a_number_without_end_is_shown_by_its_first_and_last_digits(artifacts: ArtifactStore) -> None:
    value = await cut_object([10**4000] * 40, artifacts)
    assert str(value["preview"]).startswith("[1000")
    assert "left out" in str(shrink(10**4000, 1000))


async def test_characters_of_several_bytes_are_not_cut_in_half(artifacts: ArtifactStore) -> None:
    shown = await cut_text("é☕" * 30_000, artifacts)
    assert set(shown.partition("\n[…")[0]) == set(shown.partition("…]\n")[2]) == {"é", "☕"}


async def test_attachments_stay_with_the_result(artifacts: ArtifactStore) -> None:
    image = Attachment("image", "image/png", b"\x89PNG", name="n" * 1000)
    success = await ResultCutter(artifacts, "owner", "session", "tool").limit(Success("x" * 100_000, (image,)))
    assert success.attachments == (image,)
    assert len(success.encoded) <= LIMIT


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
)


@given(JSON, st.integers(min_value=600, max_value=2000))
def test_what_is_shrunk_fits_and_what_fits_stays(value: Json, room: int) -> None:
    many: Json = [value] * 50
    assert json_size(shrink(many, room)) <= room
    assert shrink(value, 10**9) == value


async def test_a_failure_with_a_very_long_message_keeps_its_head_and_tail() -> None:
    long = cut_message(Failure("execution_failed", "begin" + "x" * 1000 + "end"), 100)
    assert long.code == "execution_failed"
    assert long.message.startswith("beginxxx") and long.message.endswith("xxxend")
    assert "[… 958 characters left out …]" in long.message
    short = Failure("timeout", "no")
    assert cut_message(short, 100) is short


@pytest.mark.parametrize("character", ["é", "語", "😀"])
def test_a_message_in_another_script_is_cut_to_as_many_bytes(character: str) -> None:
    cut = cut_message(Failure("execution_failed", character * 1000), 100).message
    assert len(cut.encode()) <= 100
    assert cut.startswith(character) and cut.endswith(character)
    assert f"{1000 - cut.count(character)} characters left out" in cut
