"""The embedded default model: what it does not do, what "it" means, and how it answers (SPEC M5)."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import ErrorCode
from handspan.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    Media,
    ResultsMessage,
    Text,
    UnpairedCalls,
    UserMessage,
)
from handspan.core.results import Attachment, Failure, encode_envelope
from handspan.core.tool import Annotations, ToolSpec
from handspan.core.values import Json
from handspan.models.model import CallDelta, Model, Replied, TextDelta
from handspan.models.offline import HOW_TO_SET_A_MODEL, STAND_IN, Offline
from handspan.tools.clock import GetCurrentTime
from handspan.tools.files import file_tools
from handspan.tools.memory import memory_tools
from handspan.tools.search_tools import SearchTools
from handspan.tools.workspace import Workspace
from tests.models.offline_talk import BUILTIN, Talk, answer_to, calls_for, device, foreign

pytestmark = pytest.mark.anyio

LAPTOP = device("laptop")


@pytest.fixture
def talk(workspace: Path, tmp_path: Path, ctx: ToolContext) -> Iterator[Talk]:
    """A conversation over real files, a real memory and a clock that stands still."""
    files = Workspace(workspace)
    clock = GetCurrentTime(lambda _: datetime(2026, 2, 27, 6, 4, 5, tzinfo=UTC))
    yield Talk(tools=[clock, *file_tools(files), *memory_tools(tmp_path / "memory")], ctx=ctx)
    files.close()


# What it does not do.


@pytest.mark.parametrize(
    "text",
    [
        "tell me a joke",
        "what is the meaning of life",
        "I had a bad day",
        "write me a poem",
        "my cat is dead",
        "delete everything",
        "delete notes.txt",
        "move a.txt to b.txt",
        "I like to read books",
        "the file is broken",
        "the web is nice",
        "time flies",
        "send my regards",
        "notes.txt",
        "write",
        "please edit",
        "replace my car",
        "put the kettle on",
        "run away from home",
        "execute order 66",
        "make me a sandwich",
        "don't read notes.txt",
        "never write 'x' to notes.txt",
        "call me",
        "and then and then",
        "!?.,;",
    ],
)
async def test_no_tool_is_called_for_words_that_mean_none(text: str) -> None:
    assert await calls_for(text, [*BUILTIN, *LAPTOP]) == []


@pytest.mark.parametrize(
    "text",
    [
        "factory reset sucks",
        "never do a factory reset",
        "I read about the factory",
        "reset my expectations",
        "what is a factory reset good for",
        "never use factory_reset",
        "I told you never to use factory_reset",
        "factory_reset is dangerous",
        "what does factory_reset do?",
        "should I call phone__factory_reset?",
    ],
)
async def test_destructive_tool_is_not_called_on_a_similar_word(text: str) -> None:
    assert await calls_for(text, [foreign("phone__factory_reset", "Erase all data of the phone")]) == []


@pytest.mark.parametrize(
    "text",
    [
        "put notes.txt in the bin",
        "add notes.txt to the list",
        "write a.txt to b.txt",
        "put https://example.com in my bookmarks",
        "change 'a' in notes.txt, I beg you",
        "save the whales",
        "should I write 'x' to notes.txt?",
        "did you append 'x' to notes.txt?",
        "how do I replace 'a' by 'b' in notes.txt?",
        "edit 'a'",
        "we could write 'x' to notes.txt",
        "you should append 'x' to notes.txt",
        "maybe write 'x' to notes.txt",
        "I might write 'x' to notes.txt",
        "it would be nice to write 'x' to notes.txt",
    ],
)
async def test_files_and_pages_are_not_changed_on_a_similar_word(text: str) -> None:
    assert await calls_for(text) == []


async def test_words_of_doubt_inside_of_a_text_do_not_matter() -> None:
    call = ("memory_write", {"content": "I should call Tom"})
    assert await calls_for("remember that I should call Tom") == [[call]]


@pytest.mark.parametrize("effects", [Annotations(destructive=True), Annotations(destructive=True, open_world=True)])
async def test_tool_that_claims_to_be_destructive_is_not_trusted_for_its_name(effects: Annotations) -> None:
    spec = ToolSpec("get_rid_of_photos", "Get the photos off the phone", {"type": "object"}, annotations=effects)
    assert await calls_for("what about the photos?", [spec]) == []
    assert await calls_for("/get_rid_of_photos", [spec]) == [[("get_rid_of_photos", {})]]


async def test_tool_that_says_nothing_of_its_effects_is_trusted_for_a_name_that_reads() -> None:
    specs = [foreign("get_photos", "Get the photos of the phone")]
    assert await calls_for("what about the photos?", specs) == [[("get_photos", {})]]


async def test_doubt_about_a_destructive_tool_names_it_and_how_to_call_it() -> None:
    answer = await answer_to("what is a factory reset good for", [foreign("factory_reset", "Erase all data")])
    assert "can change things" in answer
    assert "/factory_reset" in answer


async def test_destructive_tool_is_called_when_it_is_plainly_meant() -> None:
    specs = [foreign("phone__factory_reset", "Erase all data of the phone")]
    assert await calls_for("do a factory reset of my phone", specs) == [[("phone__factory_reset", {})]]
    assert await calls_for("/factory_reset", specs) == [[("phone__factory_reset", {})]]


async def test_request_that_fits_nothing_is_answered_with_what_can_be_done() -> None:
    answer = await answer_to("tell me a joke")
    assert "no tool that does 'tell me a joke'" in answer
    assert "What time is it in Tokyo?" in answer
    assert "\n\nAny tool can be called by hand: /name {json}" in answer  # no part of the list above


async def test_without_any_tool_it_says_so() -> None:
    assert "no tool at hand" in await answer_to("read notes.txt", [])


async def test_unknown_tool_called_by_hand_gets_a_hint() -> None:
    answer = await answer_to("/read_fil {}")
    assert "There is no tool 'read_fil'. Did you mean 'read_file'" in answer


@pytest.mark.parametrize(
    "text",
    [
        "time__get_current_time in Tokyo",
        "please use time__get_current_time for Tokyo",
        "what does time__get_current_time say?",
        "/time__get_current_time",
    ],
)
async def test_a_tool_that_is_away_is_not_replaced_by_another_one(text: str) -> None:
    talk = Talk()
    answer = await talk.say(text)
    assert talk.rounds == []
    assert "There is no tool 'time__get_current_time' now: its server or device may be away." in answer


async def test_a_name_with_two_underscores_in_a_text_is_no_tool() -> None:
    assert await calls_for("remember that my__key is here") == [[("memory_write", {"content": "my__key is here"})]]


@pytest.mark.parametrize(
    ("text", "unread"),
    [
        ('/exec_shell command="ls" extra', "I can't read 'extra'. By hand: /exec_shell"),
        ('/exec_shell command="ls" run', "I can't read 'run'"),
        ("/exec_shell command=echo a b", "I can't read 'a', 'b'"),
        ('/exec_shell command="a" "b"', "I can't read 'b'"),
        ("/read_file notes.txt other.txt", "I can't read 'other.txt'"),
        ("/get_current_time Tokyo", """I can't read 'Tokyo'. By hand: /get_current_time {"timezone":"…"}"""),
        ('/exec_shell {"command": "ls"', "no JSON. By hand: /exec_shell"),
        ('/exec_shell {"command": "ls"} extra', "no JSON"),
    ],
)
async def test_a_call_by_hand_that_can_not_be_read_whole_is_not_made(text: str, unread: str) -> None:
    talk = Talk()
    assert unread in await talk.say(text)
    assert talk.rounds == []


@pytest.mark.parametrize("text", ['/get_current_time {"zone": "x"}', "call get_current_time with zone=x"])
async def test_arguments_that_the_schema_does_not_have_are_told_not_dropped(text: str) -> None:
    talk = Talk()
    answer = await talk.say(text)
    assert talk.rounds == []
    assert "unknown parameter 'zone'. Did you mean 'timezone'?" in answer


async def test_arguments_of_a_wrong_type_are_told_not_sent() -> None:
    talk = Talk()
    assert "'offset' must be of type integer" in await talk.say("/read_file path=a.txt offset=soon")
    assert talk.rounds == []


async def test_tool_with_a_schema_that_can_not_be_used_is_not_called() -> None:
    talk = Talk([ToolSpec("odd_tool", "Do odd things", {"type": "object", "properties": {"a": {"type": "odd"}}})])
    assert "its schema can't be used" in await talk.say("/odd_tool")
    assert talk.rounds == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("edit notes.txt", "old_text"),
        ("write to notes.txt", "content"),
        ("remember", "content"),
        ("read a file", "path"),
        ("/read_file", "path"),
        ("run my thing", "command"),
        ("message Bob", "chat_id"),
    ],
)
async def test_missing_arguments_are_asked_for(text: str, missing: str) -> None:
    talk = Talk()
    answer = await talk.say(text)
    assert talk.rounds == []
    assert "I still need to know" in answer
    assert missing in answer


async def test_answer_to_its_question_completes_the_call() -> None:
    talk = Talk()
    await talk.say("read a file")
    assert await talk.say("notes.txt") == "[read_file]"
    assert talk.rounds == [[("read_file", {"path": "notes.txt"})]]


async def test_another_request_after_its_question_is_a_request_of_its_own() -> None:
    talk = Talk()
    await talk.say("read a file")
    await talk.say("what time is it?")
    assert talk.rounds == [[("get_current_time", {})]]
    await talk.say("edit notes.txt")
    assert "I still need to know" in await talk.say("blue")


async def test_of_two_devices_that_fit_it_asks_which() -> None:
    talk = Talk([*LAPTOP, *device("phone")])
    answer = await talk.say("take a photo")
    assert "laptop__camera or phone__camera" in answer
    assert talk.rounds == []
    await talk.say("phone")
    assert talk.rounds == [[("phone__camera", {})]]


async def test_failed_step_ends_the_chain_and_is_told(talk: Talk) -> None:
    answer = await talk.say("read missing.txt then write 'x' to other.txt")
    assert len(talk.rounds) == 1
    assert "read_file failed: File not found: missing.txt" in answer
    assert "So I did not go on with: \"write 'x' to other.txt\"" in answer


async def test_step_that_is_not_understood_ends_the_chain() -> None:
    talk = Talk()
    answer = await talk.say("read notes.txt then frobnicate it then tell me the time")
    assert talk.rounds == [[("read_file", {"path": "notes.txt"})]]
    assert "no tool that does 'frobnicate it'" in answer
    assert "did not go on with: 'tell me the time'" in answer


@pytest.mark.parametrize("text", ["delete notes.txt and tell me the time", "tell me the time and frobnicate notes.txt"])
async def test_what_is_not_understood_is_told_beside_the_results(text: str) -> None:
    talk = Talk()
    answer = await talk.say(text)
    assert talk.rounds == [[("get_current_time", {})]]
    assert "no tool that does" in answer


async def test_asked_once_more_without_tools_it_tells_what_it_has() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Text("read a.txt then read b.txt"),)))
    calls = (await talk.reply()).calls
    talk.projection.append(ResultsMessage(tuple([await talk.run(call) for call in calls])))
    talk.specs = []
    assert (await talk.reply()).text.startswith("[read_file]")


async def test_message_that_joins_a_running_turn_replaces_the_plan_and_loses_no_result() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Text("read a.txt then write 'x' to b.txt"),)))
    calls = (await talk.reply()).calls
    talk.projection.append(ResultsMessage(tuple([await talk.run(call) for call in calls])))
    answer = await talk.say("what time is it?")
    assert talk.rounds == [[("get_current_time", {})]]
    assert answer.startswith("[read_file]\n\n[get_current_time]")


async def aborted(text: str, *codes: ErrorCode) -> Talk:
    """A conversation whose first turn was aborted while its calls ran; a call without a code had ended."""
    talk = Talk()
    talk.projection.append(UserMessage((Text(text),)))
    calls = (await talk.reply()).calls
    failures = [encode_envelope(Failure(code, "It was stopped.")).decode() for code in codes]
    stopped = [CallResult(call.id, call.name, told, True) for call, told in zip(calls, failures, strict=False)]
    ended = [await talk.run(call) for call in calls[len(codes) :]]
    talk.projection.append(ResultsMessage((*stopped, *ended)))
    return talk


async def test_with_tools_that_only_read_it_says_that_others_may_be_hidden() -> None:
    request = "write 'x' to b.txt"
    only_read = [spec for spec in Talk().specs if spec.annotations.read_only]
    for said in (request, '/write_file {"path": "b.txt", "content": "x"}'):
        assert "the agent's mode or its list of tools may hide some" in await Talk(only_read).say(said)
        assert "may hide some" not in await Talk().say(said)


@pytest.mark.parametrize("codes", [("cancelled",), ("interrupted",), ("cancelled", "interrupted")])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("what time is it?", "[get_current_time]"),
        ("help", "I have 14 tools; try for example:"),
        ("tell me a joke", "I found no tool that does 'tell me a joke'."),
    ],
)
async def test_after_an_abort_only_the_new_request_is_answered(
    codes: tuple[ErrorCode, ...], text: str, answer: str
) -> None:
    talk = await aborted("read a.txt and list the files then write 'x' to b.txt", *codes)
    assert (await talk.say(text)).startswith(answer)
    assert len(talk.rounds) == (text == "what time is it?")


async def test_after_an_abort_it_is_still_what_was_spoken_of() -> None:
    talk = await aborted("read a.txt", "cancelled")
    await talk.say("read it")
    assert talk.rounds == [[("read_file", {"path": "a.txt"})]]


async def test_results_that_come_after_an_abort_are_told_when_a_message_joins_their_turn() -> None:
    talk = await aborted("read a.txt", "cancelled")
    talk.projection.append(UserMessage((Text("list the files"),)))
    calls = (await talk.reply()).calls
    talk.projection.append(ResultsMessage(tuple([await talk.run(call) for call in calls])))
    assert (await talk.say("what time is it?")).startswith("[list_directory]\n\n[get_current_time]")


async def test_what_nobody_knows_the_outcome_of_is_told_whatever_is_asked_next() -> None:
    talk = await aborted("write 'x' to b.txt", "unknown_outcome")
    assert (await talk.say("what time is it?")).startswith("write_file failed: It was stopped.\n\n[get_current_time]")


async def test_calls_without_results_can_not_be_followed_by_words() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Text("read a.txt"),)))
    await talk.reply()
    with pytest.raises(UnpairedCalls):
        talk.projection.append(UserMessage((Text("well?"),)))


async def test_picture_without_words_is_answered_with_what_can_be_done() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Media(Attachment("image", "image/png", b"x")),)))
    assert "I have 14 tools" in await talk.go_on()


async def test_conversation_that_has_not_begun_gets_a_greeting_of_sorts() -> None:
    assert "I have 14 tools" in await Talk().go_on()


# What it means.


async def test_it_means_the_file_of_the_step_before(talk: Talk) -> None:
    assert (await talk.say("write 'hello' to a.txt and read it")).startswith(
        "Successfully wrote 5 bytes to a.txt\n\nhello"
    )


async def test_it_means_the_result_of_the_step_before(talk: Talk, workspace: Path) -> None:
    (workspace / "a.txt").write_text("line one\nline two\n")
    await talk.say("read a.txt then write it to b.txt")
    assert (workspace / "b.txt").read_text() == "line one\nline two\n"
    await talk.say("append that to c.txt")
    assert "content" in talk.rounds[0][0][1]


async def test_it_means_what_was_written_when_that_was_the_last_call(talk: Talk, workspace: Path) -> None:
    await talk.say("write 'hello' to a.txt then append it to b.txt")
    assert (workspace / "b.txt").read_text() == "hello"


async def test_results_of_a_broken_call_mean_nothing_to_it() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Text("x"),)))
    talk.projection.append(AssistantMessage((CallPart("1", "read_file", "{broken"),), "calls"))
    talk.projection.append(ResultsMessage((CallResult("1", "read_file", "no envelope at all", True),)))
    assert "content" in await talk.say("write it to a.txt")
    assert talk.rounds == []


async def test_broken_calls_of_another_model_are_told_all_the_same() -> None:
    talk = Talk()
    talk.projection.append(UserMessage((Text("x"),)))
    calls = (CallPart("1", "read_file", "{broken"), CallPart("2", "read_file", "[]"))
    talk.projection.append(AssistantMessage(calls, "calls"))
    results = CallResult("1", "read_file", "no envelope", True), CallResult("2", "read_file", '{"odd": 1}')
    talk.projection.append(ResultsMessage(results))
    assert (await talk.go_on()).startswith("read_file failed: no envelope\nread_file: odd: 1")


# How it answers.


async def test_sentences_work_on_real_files_and_a_real_memory(talk: Talk, workspace: Path) -> None:
    answer = await talk.say("write 'hello' to notes.txt then read notes.txt")
    assert answer.startswith("Successfully wrote 5 bytes to notes.txt\n\nhello")
    assert (workspace / "notes.txt").read_text() == "hello"
    (workspace / "docs").mkdir()
    answer = await talk.say("list the files here and tell me the time in Tokyo")
    assert answer == ("list_directory: - docs\n- notes.txt\nget_current_time: 15:04:05 on 2026-02-27 (UTC+09:00)")
    await talk.say("replace 'hello' by 'bye' in notes.txt")
    assert await talk.say("read notes.txt") == "bye"
    await talk.say("remember that my cat is called Tom")
    assert await talk.say("what do you remember about the cat?") == "- my cat is called Tom"
    assert await talk.say("what do you remember about dogs?") == "Nothing was found."


async def test_error_of_a_tool_is_told_in_its_words(talk: Talk) -> None:
    assert "Invalid timezone: 'Atlantis'" in await talk.say("what time is it in Atlantis?")


async def test_it_says_once_that_it_is_a_stand_in_and_how_to_set_a_model() -> None:
    talk = Talk()
    first, second = await talk.say("what time is it?"), await talk.say("tell me a joke")
    assert first.endswith(f"{STAND_IN} {HOW_TO_SET_A_MODEL}")
    assert STAND_IN not in second


async def test_how_to_set_a_model_can_be_said_in_other_words() -> None:
    model = Offline("Ask your operator.")
    projection = model.projection()
    projection.append(UserMessage((Text("hi"),)))
    last = [event async for event in model.reply(projection, BUILTIN)][-1]
    assert isinstance(last, Replied)
    assert last.message.text.endswith("Ask your operator.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello!", "I have 14 tools"),
        ("good morning", "What time is it in Tokyo?"),
        ("help", "I have 14 tools"),
        ("what can you do?", "list the files here"),
        ("/help", "I have 14 tools"),
        ("thanks", "I have 14 tools"),
        ("", "I have 14 tools"),
    ],
)
async def test_small_talk_is_answered_in_words(text: str, words: str) -> None:
    assert words in await answer_to(text)


async def test_question_about_a_tool_that_can_change_things_is_answered_not_run() -> None:
    talk = Talk([*BUILTIN, *LAPTOP])
    assert 'By hand: /write_file {"path":"…","content":"…"}' in await talk.say("What does write_file do?")
    assert "By hand: /laptop__device_info" in await talk.say("explain device_info")
    assert talk.rounds == []
    await talk.say("what is the time?")
    assert talk.rounds == [[("get_current_time", {})]]


async def test_answer_streams_in_a_few_pieces_and_its_usage_is_unknown() -> None:
    model: Model = Offline()
    projection = model.projection()
    projection.append(UserMessage((Text("help"),)))
    events = [event async for event in model.reply(projection, BUILTIN)]
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    last = events[-1]
    assert isinstance(last, Replied)
    assert 1 < len(deltas) <= 9
    assert "".join(deltas) == last.message.text
    assert (last.message.usage, last.message.model, last.message.stop) == (None, "offline", "end")
    assert len(projection) == 1


async def test_calls_stream_with_name_and_arguments() -> None:
    model = Offline()
    projection = model.projection()
    projection.append(UserMessage((Text("read a.txt and tell me the time"),)))
    events = [event async for event in model.reply(projection, BUILTIN)]
    assert events[:-1] == [
        CallDelta(0, name="read_file"),
        CallDelta(0, arguments='{"path":"a.txt"}'),
        CallDelta(1, name="get_current_time"),
        CallDelta(1, arguments="{}"),
    ]


async def test_same_conversation_gets_the_same_answer() -> None:
    one, other = Talk(), Talk()
    for text in ("write 'a' to b.txt and tell me the time", "read it", "help", "x"):
        assert await one.say(text) == await other.say(text)
        assert one.rounds == other.rounds


# A big toolbox: tools that were not sent are searched first.


FOUND = foreign("hub__create_issue", "Open a ticket.", {"title": {"type": "string"}}, "title")


def searching_talk() -> Talk:
    """A talk in which every search finds one tool."""
    found: Json = {"tools": [{"name": FOUND.name}]}
    return Talk([*BUILTIN, SearchTools.spec, FOUND], outcomes={"search_tools": found})


async def test_each_part_of_a_request_is_searched_once_and_the_search_is_not_reported() -> None:
    talk = searching_talk()
    answer = await talk.say("what time is it in Tokyo and read notes.txt")
    assert [name for name, _ in talk.rounds[0]] == ["search_tools", "search_tools"]
    assert [arguments["query"] for _, arguments in talk.rounds[0]] == ["what time is it in Tokyo", "read notes.txt"]
    assert [[name for name, _ in done] for done in talk.rounds[1:]] == [["get_current_time", "read_file"]]
    assert "[get_current_time]" in answer and "hub__create_issue" not in answer


async def test_a_tool_that_is_called_by_hand_is_searched_only_if_it_was_not_sent() -> None:
    talk = searching_talk()
    assert "[hub__create_issue]" in await talk.say("/hub__create_issue title=Broken")
    assert [[name for name, _ in done] for done in talk.rounds] == [["hub__create_issue"]]
    assert "There is no tool 'hub__close'" in await talk.say("/hub__close")
    assert talk.rounds == [[("search_tools", {"query": "hub__close"})]]


async def test_small_talk_searches_nothing_and_a_search_by_hand_is_reported() -> None:
    talk = searching_talk()
    assert "I have 16 tools" in await talk.say("hello") and talk.rounds == []
    assert "hub__create_issue" in await talk.say("/search_tools query=tickets")
    assert talk.rounds == [[("search_tools", {"query": "tickets"})]]
