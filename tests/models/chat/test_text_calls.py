"""Tool calls that models print as text: which count, and what is shown of them while they arrive."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handspan.models.chat.text_calls import TextCallFilter, split_calls

NAMES = ("get_weather", "get_time")
WEATHER = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
TIME = '{"name": "get_time", "parameters": {}}'

NO_CALLS = [
    "",
    "Hello there, [1] and {2}",
    '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
    '<tool_call>{"name": "get_time", "arguments": {"a": </tool_call>',
    '<tool_call>{"name": "get_time"}</tool_call>',
    '<tool_call>{"name": "get_time", "arguments": []}</tool_call>',
    "<tool_call>get_time</tool_call>",
    "<tool_call>",
    '<tool_call>{"name": "get_time", "argum',
    '{"name": "get_time", "description": "Tells the time", "parameters": {"type": "object"}}',
    '{"answer": 42}',
    "[]",
    "[1, 2]",
    f"[{WEATHER}, 1]",
    "[TOOL_CALLS]",
    "[TOOL_CALLS]unknown{}",
    "[TOOL_CALLS]get_time and more",
    '[TOOL_CALLS]get_time{"a":',
    f"[TOOL_CALLS]{WEATHER}",
    "```json\n[1, 2]\n```",
    f"You could send\n```json\n{WEATHER}\n```\nfor example.",
    f"```json\n{WEATHER}\n```\nor\n```json\n[]\n```",
    f"```python\n{WEATHER}\n```",
    f"```json\n{WEATHER}",
    f"I call {WEATHER} now",
    "a `` b ``` c < d [TOOL",
]
CALLS = [
    (f"<tool_call>{WEATHER}</tool_call>", "", ["get_weather"]),
    (f"Let me see.\n<tool_call>\n{WEATHER}\n</tool_call>\n<tool_call>{TIME}</tool_call>", "Let me see.", [*NAMES]),
    (f"<tool_call>{WEATHER}</tool_call> That is it.", "That is it.", ["get_weather"]),
    (f"<tool_call>{TIME}", "", ["get_time"]),
    (f"<tool_call>[{WEATHER}, {TIME}]</tool_call>", "", [*NAMES]),
    (f"Sure:\n```json\n{WEATHER}\n```", "Sure:", ["get_weather"]),
    (f"```json\n{WEATHER}\n```\n\n```json\n{TIME}\n```\n", "", [*NAMES]),
    (f"```json\n{WEATHER}\n``` <tool_call>{TIME}</tool_call>", "", [*NAMES]),
    (f"[TOOL_CALLS][{WEATHER}]", "", ["get_weather"]),
    (f"Hm. [TOOL_CALLS] [{WEATHER}, {TIME}]", "Hm.", [*NAMES]),
    ('[TOOL_CALLS]get_weather{"city": "Paris"}', "", ["get_weather"]),
    ('[TOOL_CALLS]get_weather[CALL_ID]abc[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[ARGS]{}', "", [*NAMES]),
    (f"  {WEATHER}\n", "", ["get_weather"]),
    (f"[{WEATHER}, {TIME}]", "", [*NAMES]),
    ('{"type": "function", "id": "1", "name": "get_time", "arguments": "{}"}', "", ["get_time"]),
]


@pytest.mark.parametrize("text", NO_CALLS)
def test_what_is_no_call_of_an_offered_tool_stays_text(text: str) -> None:
    assert split_calls(text, NAMES) == (text, [])


@pytest.mark.parametrize(("text", "rest", "names"), CALLS)
def test_printed_calls_are_found_and_taken_out(text: str, rest: str, names: list[str]) -> None:
    words, calls = split_calls(text, NAMES)
    assert (words, [name for name, _ in calls]) == (rest, names)
    assert {arguments.replace(" ", "") for name, arguments in calls if name == "get_weather"} <= {'{"city":"Paris"}'}


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("text", NO_CALLS)
def test_text_without_calls_is_shown_whole_in_any_pieces(text: str, step: int) -> None:
    gate = TextCallFilter(NAMES)
    shown = [gate.feed(text[at : at + step]) for at in range(0, len(text), step)]
    assert "".join([*shown, gate.close(takes_calls=True)]) == text


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("text", "rest", "names"), CALLS)
def test_json_of_a_call_is_never_shown_in_any_pieces(text: str, rest: str, names: list[str], step: int) -> None:
    gate = TextCallFilter(NAMES)
    shown = [gate.feed(text[at : at + step]) for at in range(0, len(text), step)]
    assert "".join([*shown, gate.close(takes_calls=True)]).strip() == rest


def test_text_that_can_be_no_call_is_shown_at_once() -> None:
    gate = TextCallFilter(NAMES)
    assert gate.feed("Hello ") == "Hello "
    assert gate.feed("[see") == "[see"
    assert gate.feed(" a <b> ```py\n") == " a <b> ```py\n"
    assert gate.feed("```json\n[1]") == ""
    assert gate.feed("```!") == "```json\n[1]```!"
    assert TextCallFilter(NAMES).feed("[1] says") == "[1] says"


def test_everything_is_shown_where_printed_calls_do_not_count() -> None:
    gate = TextCallFilter(NAMES)
    assert gate.feed(f"<tool_call>{WEATHER}</tool_call>") == ""
    assert gate.close(takes_calls=False) == f"<tool_call>{WEATHER}</tool_call>"


@example(["[", "<tool_call>", WEATHER])
@example(["a", "<tool_call>", WEATHER, "</tool_call>", " ", "a"])
@given(
    st.lists(
        st.sampled_from(
            [*"ab{}[]`<> \n", "<tool_call>", "</tool_call>", "```json", "```", "[TOOL_CALLS]", WEATHER, TIME]
        )
    )
)
def test_gate_and_splitter_agree_on_any_text(pieces: list[str]) -> None:
    gate = TextCallFilter(NAMES)
    shown = "".join([*map(gate.feed, pieces), gate.close(takes_calls=True)])
    words, calls = split_calls("".join(pieces), NAMES)
    assert shown.split() == words.split()
    assert calls or shown == words
