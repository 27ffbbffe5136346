"""Results that are too large for a model (SPEC X3)."""

from pathlib import Path

import msgspec
import pytest

from handspan.core.errors import ToolError
from handspan.core.results import Attachment, Failure, Success, succeed
from handspan.core.store import ArtifactStore
from handspan.core.values import Json
from handspan.engine.cut import cut_message, cut_result
from handspan.store.artifacts import ArtifactLimits
from tests.stores import open_artifacts

pytestmark = pytest.mark.anyio


@pytest.fixture
def artifacts(tmp_path: Path) -> ArtifactStore:
    return open_artifacts(tmp_path / "artifacts")


async def shown(value: Json, artifacts: ArtifactStore) -> dict[str, Json]:
    success = await cut_result(succeed(value), artifacts, "owner", "session", "tool")
    assert isinstance(success.value, dict)
    assert len(success.encoded) < 65_536
    return success.value


async def test_when_the_artifact_can_not_be_kept_head_and_tail_are_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    value = await shown("x" * 100_000, open_artifacts(tmp_path / "artifacts"))
    assert "artifact" not in value
    assert str(value["how_to_read"]).startswith("The whole result could not be kept (The artifact can't be kept: ")
    assert str(value["how_to_read"]).endswith("Ask for less at once.")
    assert value["head"] == "x" * 4096


async def test_one_that_is_too_large_even_for_an_artifact_says_so(tmp_path: Path) -> None:
    value = await shown("x" * 100_000, open_artifacts(tmp_path / "artifacts", ArtifactLimits(size=10)))
    assert "100000 bytes are more than an artifact may have (10)" in str(value["how_to_read"])


async def test_text_is_kept_whole_and_shown_by_head_tail_and_lines(artifacts: ArtifactStore) -> None:
    text = "begin\n" + "line\n" * 20_000 + "end"
    value = await shown(text, artifacts)
    assert value["truncated"] is True
    assert (value["bytes"], value["lines"]) == (len(text), 20_002)
    assert (value["head"], value["tail"]) == (text[:4096], text[-2048:])
    handle = str(value["artifact"])
    assert f"read_artifact with id {handle!r}" in str(value["how_to_read"])
    assert await artifacts.read(handle, owner="owner") == text.encode()
    assert (await artifacts.get(handle, owner="owner")).media_type == "text/plain"
    with pytest.raises(ToolError):
        await artifacts.read(handle, owner="somebody else")


async def test_a_list_is_shown_with_the_number_of_its_items(artifacts: ArtifactStore) -> None:
    items: list[Json] = [{"number": number} for number in range(10_000)]
    value = await shown(items, artifacts)
    assert value["items"] == 10_000
    assert str(value["head"]).startswith('[{"number":0},')
    assert str(value["tail"]).endswith('{"number":9999}]')
    handle = str(value["artifact"])
    assert msgspec.json.decode(await artifacts.read(handle, owner="owner")) == items
    assert (await artifacts.get(handle, owner="owner")).media_type == "application/json"


async def test_an_object_is_shown_with_the_number_of_items_of_each_list_in_it(artifacts: ArtifactStore) -> None:
    value = await shown({"rows": list(range(20_000)), "k" * 100: [1], "total": 20_000}, artifacts)
    assert value["items"] == {"rows": 20_000, "k" * 60: 1}


async def test_an_object_without_lists_has_nothing_to_count(artifacts: ArtifactStore) -> None:
    assert "items" not in await shown({"text": "x" * 100_000}, artifacts)


async def test_a_number_without_end_has_nothing_to_count(artifacts: ArtifactStore) -> None:
    value = await shown(10**4000, artifacts)
    assert (value["bytes"], value["head"]) == (4001, "1" + "0" * 4000)
    assert "items" not in value and "lines" not in value


async def test_characters_of_several_bytes_are_not_cut_in_half(artifacts: ArtifactStore) -> None:
    value = await shown("é☕" * 30_000, artifacts)
    assert set(str(value["head"])) == set(str(value["tail"])) == {"é", "☕"}


async def test_attachments_stay_with_the_result(artifacts: ArtifactStore) -> None:
    image = Attachment("image", "image/png", b"\x89PNG")
    success = await cut_result(Success("x" * 100_000, (image,)), artifacts, "owner", "session", "tool")
    assert success.attachments == (image,)


async def test_a_failure_with_a_very_long_message_keeps_its_head_and_tail() -> None:
    long = cut_message(Failure("execution_failed", "begin" + "x" * 1000 + "end"), 100)
    assert long.code == "execution_failed"
    assert long.message.startswith("beginxxx") and long.message.endswith("xxxend")
    assert "[… 908 characters left out …]" in long.message
    short = Failure("timeout", "no")
    assert cut_message(short, 100) is short
