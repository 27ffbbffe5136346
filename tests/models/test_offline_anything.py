"""The offline model: whatever is said, and whatever tools there are, only valid calls (SPEC M5)."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handspan.core.tool import READ_ONLY, ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.offline import Offline
from tests.models.offline_talk import BUILTIN, Talk, answer_to, calls_for, device, foreign, mcp_tools
from tests.recorded import odd_texts
from tests.thoroughness import examples

pytestmark = pytest.mark.anyio

LAPTOP = device("laptop")


_NAMES = [spec.name for spec in (*BUILTIN, *LAPTOP)]
_PIECES = """read write run list and then it that the in to for about , . ; ? not 'a' "b `ls` notes.txt src/ https://a.com
x=1 path=a {} [1,2] 5 -3.5 14:30 Tokyo remember photo /read_file ' " ` { }"""
_WORDS = st.sampled_from([*_PIECES.split(), '{"path": 1}', "\n", *_NAMES])
_TEXT = st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=14).map(" ".join))


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(texts=st.lists(_TEXT, min_size=1, max_size=3))
async def test_any_text_leads_to_valid_calls_of_offered_tools_and_to_an_end(texts: list[str]) -> None:
    talk = Talk([*BUILTIN, *LAPTOP])
    for text in texts:
        assert await talk.say(text)  # `Talk.checked` holds every call against its schema


_SCHEMAS: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "string", "enum": ["low", "high"]},
        {"type": "string", "pattern": "^a+$"},
        {"type": "integer", "minimum": 2},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "array", "items": {"type": "string"}, "minItems": 2},
        {"type": "array"},
        {"type": "object"},
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
        {"$ref": "#/$defs/missing"},
        {"enum": [1, None]},
        {"const": "x"},
        {},
        True,
    ]
)
_PROPERTIES = ["path", "url", "timezone", "command", "query", "content", "n", "isOn", "data", "ünï"]


@st.composite
def _specs(draw: st.DrawFn) -> ToolSpec:
    properties = draw(st.dictionaries(st.sampled_from(_PROPERTIES), _SCHEMAS, max_size=4))
    required = draw(st.lists(st.sampled_from([*properties, "path"]), unique=True, max_size=3))
    parameters: JsonObject = {"type": "object", "properties": dict(properties), "required": list[Json](required)}
    name = draw(st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}", fullmatch=True))
    return ToolSpec(name, draw(st.text(max_size=80)), parameters, annotations=READ_ONLY)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(specs=st.lists(_specs(), max_size=5, unique_by=lambda spec: spec.name), text=_TEXT, data=st.data())
async def test_any_tool_is_called_only_as_its_schema_allows(
    specs: list[ToolSpec], text: str, data: st.DataObject
) -> None:
    talk = Talk(specs)
    named = data.draw(st.sampled_from(["", *(f"/{spec.name} " for spec in specs)]))
    assert await talk.say(f"{named}{text}")


async def test_odd_texts_do_no_harm() -> None:
    specs, model = [*BUILTIN, *LAPTOP, *mcp_tools()], Offline()
    for text in odd_texts():
        talk = Talk(specs, model=model)
        assert await talk.say(text)
        assert await talk.say(f"write '{text}' to notes.txt")
        assert await talk.say(f"/read_file {text}")


async def test_every_tool_of_real_mcp_servers_can_be_named_without_a_crash() -> None:
    specs, model = mcp_tools(), Offline()
    for spec in specs:
        own = spec.name.partition("__")[2].replace("_", " ").replace("-", " ")
        for text in (f"/{spec.name}", f"use {spec.name} with 'a' 5 notes.txt", f"{own} 'a' 'b' in notes.txt 3", own):
            assert await Talk(specs, model=model).say(text)


async def test_more_tools_than_it_keeps_in_mind_work_too() -> None:
    many = [ToolSpec(f"tool_{number}", "", {"type": "object"}) for number in range(5000)]
    assert await calls_for("use tool_4711", many) == [[("tool_4711", {})]]


async def test_number_that_is_too_long_for_a_number_is_not_one() -> None:
    specs = [foreign("set_level", "Set the level", {"level": {"type": "integer"}}, "level")]
    assert "level" in await answer_to(f"set the level to {'9' * 5000}", specs)


async def test_lone_surrogates_in_a_text_become_replacement_characters() -> None:
    assert await calls_for("write 'a\ud800b' to x.txt") == [[("write_file", {"path": "x.txt", "content": "a�b"})]]


@pytest.mark.parametrize(
    "unit", ["'a ", "[[", "a=", "`", "a/", "a.", "-", "read it and ", "“x ", '"\\', '{"a":', "show the list of "]
)
async def test_very_long_texts_are_taken_in_a_moment(unit: str) -> None:
    assert await answer_to(unit * 20_000)  # a square of this would run into the test's own limit of time
