"""Which tools a search finds, and in which order (SPEC R4)."""

from itertools import islice

import pytest

from handspan.core.tool import ToolSpec
from handspan.core.values import JsonObject
from handspan.registry.search import ToolIndex


def spec(name: str, description: str = "", **parameters: str) -> ToolSpec:
    properties: JsonObject = {one: {"type": "string", "description": text} for one, text in parameters.items()}
    return ToolSpec(name, description, {"type": "object", "properties": properties})


TOOLS = [
    spec("hub__create_issue", "Open a new ticket in a repository.", repo="Owner and name.", title="The headline."),
    spec("hub__list_issues", "List the tickets of a repository.", repo="Owner and name."),
    spec("hub__merge_pull_request", "Merge a pull request.", number="Which one."),
    spec("mail__send", "Send a letter by electronic mail.", recipient="An address such as a@b.c."),
    spec("mail__searchInbox", "Find letters.", query="Words of the subject or the sender."),
    spec("weather__forecast", "What the sky will do.", city="Where.", days="How many."),
    spec("chat__post", "在频道里发送消息"),
]
INDEX = ToolIndex(TOOLS)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create an issue", "hub__create_issue"),
        ("issues list", "hub__list_issues"),
        ("open a new ticket please", "hub__create_issue"),  # words of the description alone
        ("recipient", "mail__send"),  # the name of a parameter
        ("headlines", "hub__create_issue"),  # the description of a parameter, in the plural
        ("search the inbox", "mail__searchInbox"),  # a name in camel case
        ("forec", "weather__forecast"),  # the beginning of a word
        ("WEATHER", "weather__forecast"),
        ("mail__searchinbox", "mail__searchInbox"),  # a whole name in another case
        ("hub__merge_pull_request or mail mail mail send", "hub__merge_pull_request"),
        ("发送消息", "chat__post"),  # a script without spaces
    ],
)
def test_the_best_tool_comes_first(query: str, best: str) -> None:
    assert next(INDEX.rank(query)) == best


@pytest.mark.parametrize("query", ["", "___", "zebra", "x", "🙂", "\ud800"])
def test_words_that_no_tool_has_find_nothing(query: str) -> None:
    assert list(INDEX.rank(query)) == []


def test_a_rare_word_counts_more_than_a_common_one_and_a_name_more_than_a_description() -> None:
    index = ToolIndex(
        [spec("a", "file photo"), spec("b", "file"), spec("c", "file"), spec("photo_file", "Other words.")]
    )
    assert list(index.rank("photo file")) == ["photo_file", "a", "b", "c"]


def test_equal_tools_are_ordered_by_name_whatever_their_order_was() -> None:
    names = [f"tool_{letter}" for letter in "dbca"]
    assert list(ToolIndex([spec(name, "Same.") for name in names]).rank("same")) == sorted(names)


def test_odd_definitions_are_indexed_by_what_they_have() -> None:
    odd = [
        ToolSpec("no_properties", "Plain.", {"type": "object"}),
        ToolSpec("strange", "Plain.", {"type": "object", "properties": {"flag": True, "x": {"description": 7}}}),
        ToolSpec("long", f"Plain. {'blah ' * 100_000} treasure", {"type": "object"}),
    ]
    index = ToolIndex(odd)
    assert set(index.rank("plain")) == {"no_properties", "strange", "long"}
    assert list(index.rank("flag")) == ["strange"]
    assert list(index.rank("treasure")) == []  # a description counts up to a bound
    assert list(ToolIndex([]).rank("anything")) == []


def test_one_tool_among_two_thousand_is_found() -> None:
    index = ToolIndex([spec(f"big__tool_{number}", f"Tool {number}.") for number in range(2000)] + TOOLS)
    assert list(islice(index.rank("tool 1234"), 1)) == ["big__tool_1234"]
    assert next(index.rank("merge a pull request")) == "hub__merge_pull_request"
