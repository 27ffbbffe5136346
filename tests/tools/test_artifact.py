"""`read_artifact`: reads on by range or search, for the owner alone, and is never cut itself."""

import base64

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.context import ToolContext
from handspan.core.errors import ToolError
from handspan.core.messages import CallResult
from handspan.core.results import encode_envelope, succeed
from handspan.core.values import Json, JsonObject
from handspan.tools.artifact import ReadArtifact
from tests.thoroughness import examples

pytestmark = pytest.mark.anyio

LIMIT = 64 * 1024


async def keep(ctx: ToolContext, data: bytes | str, media_type: str = "text/plain") -> str:
    raw = data.encode() if isinstance(data, str) else data
    return (await ctx.artifacts.keep(raw, owner=ctx.who.owner, media_type=media_type)).id


async def read(ctx: ToolContext, artifact_id: str, tool: ReadArtifact | None = None, **arguments: Json) -> JsonObject:
    """The answer, after it was found to fit into what the engine lets through."""
    answer = await (tool or ReadArtifact()).run({"id": artifact_id, **arguments}, ctx)
    assert len(encode_envelope(succeed(answer))) <= LIMIT
    return answer


async def read_all(
    ctx: ToolContext, artifact_id: str, tool: ReadArtifact | None = None, **arguments: Json
) -> list[JsonObject]:
    """All answers, following next_offset to the end."""
    answers = [await read(ctx, artifact_id, tool, **arguments)]
    while (following := answers[-1]["next_offset"]) is not None:
        assert isinstance(following, int)
        assert following > int(str(answers[-1]["offset"]))
        answers.append(await read(ctx, artifact_id, tool, **{**arguments, "offset": following}))
    return answers


def matches(answer: JsonObject) -> list[tuple[Json, Json, Json]]:
    found = msgspec.convert(answer["matches"], list[dict[str, Json]])
    return [(match["line"], match["offset"], match["text"]) for match in found]


async def test_somebody_elses_artifact_is_not_there(ctx: ToolContext) -> None:
    other = (await ctx.artifacts.keep(b"secret", owner="somebody else")).id
    for arguments in ({"id": other}, {"id": other, "query": "secret"}):
        with pytest.raises(ToolError) as refused:
            await ReadArtifact().run(arguments, ctx)
        assert refused.value.code == "file_not_found"


async def test_the_stored_result_of_a_call_is_read_by_the_id_of_the_call(ctx: ToolContext) -> None:
    envelope = '{"source":"outside: example.com","status":"success","result":["one","needle","three"]}'
    asked: list[tuple[str, str, str]] = []

    async def find(session: str, call_id: str, *, owner: str) -> CallResult | None:
        asked.append((session, call_id, owner))
        return CallResult(call_id, "web_fetch", envelope) if call_id == "call_7" else None

    tool = ReadArtifact(find_result=find)
    whole = await read(ctx, "call_7", tool)
    assert msgspec.json.decode(str(whole["content"])) == msgspec.json.decode(envelope)
    assert asked == [(ctx.session, "call_7", ctx.who.owner)]
    ((line, offset, text),) = matches(await read(ctx, "call_7", tool, query="needle"))
    assert (line, text) == (6, '  "needle",')
    assert isinstance(offset, int)
    part = await read(ctx, "call_7", tool, offset=offset, limit=10)
    assert part["content"] == '  "needle"'
    with pytest.raises(ToolError):
        await read(ctx, "call_8", tool)


async def test_an_offset_beyond_the_end_names_the_size(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "short")
    with pytest.raises(ToolError, match=r"offset 6 is beyond the end .* 5 bytes") as refused:
        await read(ctx, artifact, offset=6)
    assert refused.value.code == "invalid_arguments"
    assert (await read(ctx, artifact, offset=5))["content"] == ""


async def test_a_search_in_what_is_no_text_says_what_it_is(ctx: ToolContext) -> None:
    artifact = await keep(ctx, b"\x89PNG\r\n\0", "image/png")
    with pytest.raises(ToolError, match=r"not text \(image/png, 7 bytes\).*base64") as refused:
        await read(ctx, artifact, query="x")
    assert refused.value.code == "invalid_arguments"


async def test_a_range_says_where_it_stands_and_where_to_read_on(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "0123456789")
    assert await read(ctx, artifact, offset=2, limit=5) == {
        "id": artifact,
        "media_type": "text/plain",
        "size": 10,
        "offset": 2,
        "next_offset": 7,
        "content": "23456",
    }
    assert (await read(ctx, artifact, offset=7))["next_offset"] is None


async def test_without_a_limit_32_kib_come_and_never_more_than_60(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "x" * 200_000)
    assert (await read(ctx, artifact))["next_offset"] == 32 * 1024
    assert (await read(ctx, artifact, limit=10**9))["next_offset"] == 60 * 1024


@pytest.mark.parametrize("limit", [1, 4, 5, 100])
async def test_characters_are_never_cut_in_two(ctx: ToolContext, limit: int) -> None:
    text = "aé€😀" * 30
    answers = await read_all(ctx, await keep(ctx, text), limit=limit)
    assert "".join(str(answer["content"]) for answer in answers) == text


async def test_an_offset_inside_a_character_moves_on_to_the_next_one(ctx: ToolContext) -> None:
    answer = await read(ctx, await keep(ctx, "😀b"), offset=1)
    assert (answer["offset"], answer["content"]) == (4, "b")


@pytest.mark.parametrize("nasty", ['"', "\\", "\n", "\x01", "é", "\x7f"])
async def test_text_that_grows_when_written_still_fits_and_nothing_is_lost(ctx: ToolContext, nasty: str) -> None:
    text = nasty * 100_000
    answers = await read_all(ctx, await keep(ctx, text), limit=60 * 1024)
    assert "".join(str(answer["content"]) for answer in answers) == text


async def test_a_smaller_limit_of_the_engine_is_kept_too(ctx: ToolContext) -> None:
    tool = ReadArtifact(result_limit=1024)
    text = await keep(ctx, '"' * 5000)
    for answer in await read_all(ctx, text, tool):
        assert len(encode_envelope(succeed(answer))) <= 1024
    binary = await keep(ctx, b"\0" * 2000)
    for answer in await read_all(ctx, binary, tool):
        assert len(encode_envelope(succeed(answer))) <= 1024


async def test_bytes_that_are_no_text_come_in_base64(ctx: ToolContext) -> None:
    data = bytes(range(256)) * 500
    answers = await read_all(ctx, await keep(ctx, data, "application/octet-stream"), limit=60 * 1024)
    assert {answer["encoding"] for answer in answers} == {"base64"}
    assert b"".join(base64.b64decode(str(answer["content"])) for answer in answers) == data


async def test_a_few_bad_bytes_late_in_a_text_are_marked_and_do_no_harm(ctx: ToolContext) -> None:
    data = b"a" * 9000 + b"\xff\x80\x80\x80\x80" + b"b" * 10
    artifact = await keep(ctx, data)
    answers = await read_all(ctx, artifact, limit=4096)
    assert "".join(str(answer["content"]) for answer in answers) == data.decode("utf-8", "replace")
    assert (await read(ctx, artifact, offset=9001))["offset"] == 9001
    assert matches(await read(ctx, artifact, query="\N{REPLACEMENT CHARACTER}")) == []
    assert str(matches(await read(ctx, artifact, query="b"))[0][2]).endswith("�" * 5 + "b" * 10)


async def test_a_search_answers_lines_with_number_and_offset_in_any_case(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "first\r\nÜber Alles\nthird\nüber nichts")
    answer = await read(ctx, artifact, query="ÜBER")
    assert matches(answer) == [(2, 7, "Über Alles"), (4, 25, "über nichts")]
    assert answer["more"] == 0
    assert "next_offset" not in answer
    assert (await read(ctx, artifact, offset=25, limit=5))["content"] == "über"


async def test_a_search_takes_the_query_literally(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "a.c\nabc\n(")
    assert matches(await read(ctx, artifact, query="a.c")) == [(1, 0, "a.c")]
    assert matches(await read(ctx, artifact, query="(")) == [(3, 8, "(")]
    assert matches(await read(ctx, artifact, query="nowhere")) == []


async def test_a_search_with_very_many_matches_is_bounded_and_goes_on_from_its_next_offset(ctx: ToolContext) -> None:
    artifact = await keep(ctx, "".join(f"line {number}\n" for number in range(1, 251)))
    lines: list[Json] = []
    offset: Json = 0
    expected_more = 150
    while offset is not None:
        answer = await read(ctx, artifact, query="LINE", offset=offset)
        assert answer["more"] == max(expected_more, 0)
        lines += [line for line, _, _ in matches(answer)]
        offset, expected_more = answer.get("next_offset"), expected_more - 100
    assert lines == list(range(1, 251))


async def test_matches_that_fill_the_answer_stop_before_it_is_too_large(ctx: ToolContext) -> None:
    artifact = await keep(ctx, ("\x01" * 390 + "x\n") * 90)
    answer = await read(ctx, artifact, query="x")
    assert 10 < len(matches(answer)) < 90
    assert answer["more"] == 90 - len(matches(answer))


async def test_in_a_very_long_line_each_match_comes_with_its_surroundings_and_place(ctx: ToolContext) -> None:
    gap = "é" * 70_000  # longer than what is searched at once
    text = f"{gap}needle{gap}Needle needle{gap}"
    artifact = await keep(ctx, text)
    answer = await read(ctx, artifact, query="needle")
    assert [piece.lower().count("needle") for _, _, piece in matches(answer) if isinstance(piece, str)] == [1, 2]
    for line, offset, piece in matches(answer):
        assert line == 1
        assert text.encode()[int(str(offset)) :].decode().startswith(str(piece))
        assert len(str(piece)) < 300


@pytest.mark.parametrize("shift", range(7))
async def test_a_match_across_two_searched_stretches_is_found(ctx: ToolContext, shift: int) -> None:
    artifact = await keep(ctx, "a" * (65_536 - shift) + "needle" + "b" * 1000)
    assert len(matches(await read(ctx, artifact, query="needle"))) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50), deadline=None)
@given(text=st.text(max_size=300), limit=st.integers(1, 50))
async def test_any_text_is_read_back_whole(ctx: ToolContext, text: str, limit: int) -> None:
    artifact = await keep(ctx, text.replace("\0", ""))
    answers = await read_all(ctx, artifact, limit=limit)
    assert "".join(str(answer["content"]) for answer in answers) == text.replace("\0", "")


def test_it_reads_only() -> None:
    assert ReadArtifact.spec.annotations.read_only
