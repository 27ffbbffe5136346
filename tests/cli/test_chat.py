"""`handspan chat` as a person and a script use it: real processes, a real terminal (SPEC A2, A4, M5, U2)."""

import asyncio
import json
import re
import stat
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from handspan.core.messages import Api, AssistantMessage, Message, ResultsMessage, UserMessage, check_all
from handspan.core.principals import OPERATOR
from tests.cli.shell import Shell, Terminal, json_lines
from tests.cli.sleeper import Sleeper
from tests.models.conversations import APIS, MODELS
from tests.models.fake_server import KEY, Call, FakeModelServer, Turn
from tests.stores import open_store
from tests.tools.child_processes import is_gone, new_mark

TIME, FILES, BOTH = (
    "What time is it in Tokyo?",
    "write 'hello' to notes.txt then read notes.txt",
    "list the files here and tell me the time",
)


def stored(run: Shell, session: str) -> list[Message]:
    """What the store has of a session, once nobody uses it any more."""

    async def load() -> list[Message]:
        async with open_store(run.state) as store:
            return await store.conversations.load(session, owner=OPERATOR.owner)

    messages = asyncio.run(load())
    check_all(messages)
    return messages


def finished(events: Sequence[Any]) -> list[tuple[str, str]]:
    """Name and status of every call, in the order in which they ended."""
    return [(event["name"], event["status"]) for event in events if event["type"] == "call_finished"]


def session_of(terminal: Terminal) -> str:
    found = re.search(r"Session (\w+)", terminal.seen)
    assert found is not None
    return found[1]


# What goes wrong.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--session", "nope", "hi"), "There is no session 'nope'"),
        (("--session", "last", "hi"), "There is no session yet"),
        (("--agent", "Genral", "hi"), "There is no agent 'Genral'. Did you mean 'General'? There are: General."),
        (("--model", "ofline", "hi"), "there is no model 'ofline'. Did you mean 'offline'?"),
        (("--model", "anthropic:claude-sonnet-5", "hi"), "Set ANTHROPIC_API_KEY"),
    ],
)
def test_what_is_not_there_is_told_in_words_and_exits_with_1(run: Shell, words: tuple[str, ...], said: str) -> None:
    done = run("chat", *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("",), ("  ",), ("", " "), ("--nope",)])
def test_wrong_usage_exits_with_2(run: Shell, words: tuple[str, ...]) -> None:
    assert run("chat", *words).returncode == 2


def test_a_session_whose_agent_is_gone_asks_for_another(run: Shell) -> None:
    run.config('[agents.reader]\ntools = ["read_*"]\n')
    assert run("chat", "--agent", "reader", "hi").returncode == 0
    run.config("")
    done = run("chat", "--session", "last", "hi")
    assert done.returncode == 1 and "name another (--agent)" in done.stderr
    assert run("chat", "--session", "last", "--agent", "General", TIME).returncode == 0
    assert run("chat", "--session", "last", TIME).returncode == 0


@pytest.mark.parametrize("question", [b"\xff\xfe what time is it", b"what time is it\r"])
def test_bytes_that_are_no_text_are_no_crash(run: Shell, question: bytes) -> None:
    done = run("chat", given=question + b"\n")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert "get_current_time: ok" in done.stdout


def test_a_terminal_that_can_not_show_every_character_is_no_crash(run: Shell) -> None:
    done = run("chat", "--verbose", TIME, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "Traceback" not in done.stderr


@pytest.mark.anyio
@pytest.mark.outside
async def test_a_model_that_can_not_answer_says_why_and_exits_with_1(run: Shell) -> None:
    async with FakeModelServer([Turn(fault="auth"), Turn(fault="auth")]) as server:
        use(run, server, "anthropic")
        done = await asyncio.to_thread(run, "chat", "hi")
        told = await asyncio.to_thread(run, "chat", "--json", "hi")
    assert done.returncode == 1 and "The model can't answer" in done.stdout
    assert KEY not in done.stdout + done.stderr
    assert told.returncode == 1 and json_lines(told)[-1]["reason"] == "error"


# One answer, on the model that needs no key.


@pytest.mark.outside
def test_the_time_in_tokyo_is_really_looked_up(run: Shell) -> None:
    done = run("chat", TIME)
    assert done.returncode == 0
    assert re.search(r"^\[get_current_time: ok, [\d.]+ ms\]$", done.stdout, re.MULTILINE)
    assert "(UTC+09:00)" in done.stdout and "stand-in" in done.stdout


def test_words_without_quotes_are_one_question_and_options_between_them_still_count(run: Shell) -> None:
    done = run("chat", "--json", "What", "time", "is", "--agent", "General", "it", "in", "Tokyo?")
    assert done.returncode == 0, done.stderr
    assert '"get_current_time"' in done.stdout
    assert run("chat", "6", "-", "2").returncode == 0  # a lone minus is standard input only at the end


def test_a_file_is_really_written_and_then_read(run: Shell) -> None:
    done = run("chat", FILES)
    assert done.returncode == 0
    assert (run.workspace / "notes.txt").read_text(encoding="utf-8") == "hello"
    assert re.search(r"\[write_file: ok.*\[read_file: ok.*^hello$", done.stdout, re.DOTALL | re.MULTILINE)


def test_files_are_listed_and_the_time_told_in_one_round(run: Shell) -> None:
    run.workspace.mkdir(parents=True)
    (run.workspace / "shopping.txt").write_text("milk", encoding="utf-8")
    done = run("chat", "--json", BOTH)
    events = json_lines(done)
    assert sorted(finished(events)) == [("get_current_time", "success"), ("list_directory", "success")]
    assert [event["number"] for event in events if event["type"] == "round"] == [1, 2]
    assert "shopping.txt" in events[-1]["text"] and re.search(r"\d\d:\d\d", events[-1]["text"])


def test_json_is_one_event_a_line_from_the_session_to_the_end(run: Shell) -> None:
    done = run("chat", "--json", TIME)
    assert done.returncode == 0 and done.stderr == ""
    events = json_lines(done)
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[1], kinds[-1]) == ("session", "round", "ended")
    assert kinds.count("ended") == 1 and {"call_arguments", "call_started", "call_finished", "text"} <= set(kinds)
    assert events[-1]["reason"] == "done"
    assert "".join(event["text"] for event in events if event["type"] == "text") == events[-1]["text"]
    started, ended = (
        next(event for event in events if event["type"] == f"call_{what}") for what in ("started", "finished")
    )
    assert started["id"] == ended["id"] and ended["duration"] > 0


def test_verbose_shows_arguments_results_and_the_session(run: Shell) -> None:
    done = run("chat", "--verbose", TIME)
    assert '→ get_current_time {"timezone":"Asia/Tokyo"}' in done.stdout
    assert re.search(r'^← {"status":"success","result":"[^"]+\+09:00"}$', done.stdout, re.MULTILINE)
    assert "(session " in done.stderr


def test_a_failed_call_is_shown_and_is_no_failure_of_the_command(run: Shell) -> None:
    done = run("chat", "read missing.txt")
    assert done.returncode == 0
    assert "[read_file: file_not_found," in done.stdout


def test_nobody_to_ask_means_no_and_yes_means_yes(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    assert finished(json_lines(run("chat", "--json", TIME))) == [("get_current_time", "approval_denied")]
    assert finished(json_lines(run("chat", "--json", "--yes", TIME))) == [("get_current_time", "success")]


def test_skills_of_the_agent_that_can_not_be_used_are_told_aside(run: Shell) -> None:
    run("agents", "create", "x", "--skills", "nonsense")
    done = run("chat", "--agent", "x", TIME)
    assert done.returncode == 0 and "get_current_time: ok" in done.stdout
    assert "nonsense" in done.stderr and "nonsense" not in done.stdout


# Sessions.


def test_a_session_goes_on_in_a_new_process_and_knows_what_was_done(run: Shell) -> None:
    first = json_lines(run("chat", "--json", "write 'hello' to notes.txt"))
    session = first[0]["id"]
    again = json_lines(run("chat", "--json", "--session", session, "read it"))
    assert again[0]["id"] == session
    assert finished(again) == [("read_file", "success")]
    assert again[-1]["text"].startswith("hello") and "stand-in" not in again[-1]["text"]
    last = json_lines(run("chat", "--json", "--session", "last", TIME))
    assert last[0]["id"] == session
    turn = [UserMessage, AssistantMessage, ResultsMessage, AssistantMessage]
    assert [type(message) for message in stored(run, session)] == turn * 3


def test_a_session_keeps_its_agent_until_another_is_named(run: Shell) -> None:
    run.config('[agents.blind]\ntools = ["get_current_time"]\n')
    assert json_lines(run("chat", "--json", "--agent", "blind", TIME))[0]["agent"] == "blind"
    assert finished(json_lines(run("chat", "--json", "--session", "last", FILES))) == []
    other = json_lines(run("chat", "--json", "--session", "last", "--agent", "General", FILES))
    assert finished(other) == [("write_file", "success"), ("read_file", "success")]
    assert json_lines(run("chat", "--json", "--session", "last", TIME))[0]["agent"] == "General"


def test_lines_of_standard_input_are_turns_and_commands(run: Shell) -> None:
    done = run("chat", given=f"{TIME}\n\n/agent nope\n/agent\n/quit\nnever said\n")
    assert done.returncode == 0
    assert "get_current_time: ok" in done.stdout
    assert "(There is no agent 'nope'." in done.stdout and "\n  *  General\n" in done.stdout
    assert "> " not in done.stdout and "never said" not in done.stdout
    events = json_lines(run("chat", "--json", given=f"/usage\n{TIME}\n"))
    assert [event["type"] for event in events if event["type"] in ("session", "told", "ended")] == [
        "session",
        "told",
        "ended",
    ]


# A conversation at a terminal.


@pytest.mark.outside
def test_a_conversation_with_its_commands_from_the_first_prompt_to_ctrl_d(run: Shell) -> None:
    run.config('[agents.blind]\ntools = ["get_current_time"]\n')
    with run.at_terminal("chat") as terminal:
        begun = terminal.prompt()
        assert "Model: offline, a rule-based stand-in: no model is named" in begun and "agent 'General'" in begun
        terminal.say(TIME)
        answer = terminal.prompt()
        assert re.search(r"^.*\[get_current_time: ok, [\d.]+ ms\]$", answer, re.MULTILINE) and "(UTC+09:00)" in answer
        assert "→" not in answer
        terminal.say("/tools")
        assert re.search(r"^  write_file +Write text", terminal.prompt(), re.MULTILINE)
        terminal.say("/agent blind")
        assert "\n  blind\n" in terminal.prompt()
        terminal.say("/tools")
        listed = terminal.prompt()
        assert "get_current_time" in listed and "write_file" not in listed
        terminal.say("/usage")
        assert "offline: 2 replies, unknown tokens in, unknown out, cost unknown" in terminal.prompt()
        terminal.say("/help")
        told = terminal.prompt()
        assert all(name in told for name in ("/tools", "/agent [NAME]", "/usage", "/quit", "Ctrl-D", "Ctrl-C"))
        terminal.type("\x04")
        assert terminal.ended() == 0
    history = run.state / "chat_history"
    assert history.read_text(encoding="utf-8").splitlines()[:2] == [TIME, "/tools"]
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


@pytest.mark.outside
def test_a_conversation_is_resumed_and_earlier_lines_can_be_had_again(run: Shell) -> None:
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("write 'hello' to notes.txt")
        terminal.prompt()
        session = session_of(terminal)
        terminal.say("/quit")
        assert terminal.ended() == 0
    with run.at_terminal("chat", "--session", session) as terminal:
        assert session in terminal.prompt()
        terminal.say("read it")
        assert "\nhello\n" in terminal.prompt()
        terminal.type("\x1b[A\x1b[A\x1b[A")  # up, three times
        terminal.until("write 'hello' to notes.txt")
        terminal.type("\r")
        assert "[write_file: ok" in terminal.prompt()


@pytest.mark.outside
def test_a_person_switches_a_skill_on_and_the_toolbox_is_what_it_allows(run: Shell) -> None:
    run.skill("clock", "get_current_*", "Tell the time in words.")
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/skills nope")
        assert "'nope'" in terminal.prompt()
        terminal.say("/skills")
        assert "  off  clock  " in terminal.prompt()
        terminal.say("/skills clock")
        assert "\n  on: clock\n" in terminal.prompt()
        terminal.say("/skills")
        assert "  on   clock  " in terminal.prompt()
        terminal.say("/tools")
        listed = terminal.prompt()
        assert "get_current_time" in listed and "write_file" not in listed
        terminal.say(TIME)
        assert "get_current_time: ok" in terminal.prompt()
        terminal.say("/skills -clock")
        assert "on: (none)" in terminal.prompt()
        terminal.say("/tools")
        assert "write_file" in terminal.prompt()


@pytest.mark.outside
def test_verbose_shows_what_goes_in_and_out_of_a_tool(run: Shell) -> None:
    with run.at_terminal("chat", "--verbose") as terminal:
        terminal.prompt()
        terminal.say(TIME)
        answer = terminal.prompt()
        assert '→ get_current_time {"timezone":"Asia/Tokyo"}' in answer and '← {"status":"success"' in answer


@pytest.mark.outside
def test_a_retry_in_an_empty_session_does_not_blame_the_model(run: Shell) -> None:
    done = run("chat", given="/retry\n")
    assert "This session has no message yet: say something first." in done.stdout
    assert "The model can't answer" not in done.stdout


@pytest.mark.outside
def test_ctrl_c_aborts_the_turn_and_not_the_program(run: Shell) -> None:
    sleeper = Sleeper(run)
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/nap minutes=5")
        terminal.until(r"\[nap: running\]")
        assert sleeper.has_begun()
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        terminal.say(TIME)
        answer = terminal.prompt()
        assert "get_current_time: ok" in answer and "nap" not in answer  # nobody asks about that any more
        terminal.type("\x04")
        assert terminal.ended() == 0
    results = [message for message in stored(run, session_of(terminal)) if isinstance(message, ResultsMessage)]
    assert '"code":"cancelled"' in results[0].results[0].envelope
    sleeper.close()


@pytest.mark.outside
def test_ctrl_c_ends_a_shell_command_that_runs(run: Shell) -> None:
    log = f"log-{new_mark()}.txt"
    run.workspace.mkdir(parents=True)
    (run.workspace / log).write_text("first line\n", encoding="utf-8")
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say(f'/exec_shell {{"command": "tail -f {log}", "timeout": 300}}')
        terminal.until(r"\[exec_shell: running\]")
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        assert is_gone(log)
        terminal.type("\x04")
        assert terminal.ended() == 0


@pytest.mark.outside
def test_ctrl_c_aborts_a_single_answer_with_exit_code_130(run: Shell) -> None:
    sleeper = Sleeper(run)
    with run.at_terminal("chat", "/nap minutes=5") as terminal:
        assert sleeper.has_begun()
        terminal.type("\x03")
        assert terminal.ended() == 130
        assert "(aborted)" in terminal.seen and "Traceback" not in terminal.seen
    sleeper.close()


@pytest.mark.outside
def test_a_permission_is_asked_for_inline(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say(TIME)
        asked = terminal.until(r"never\? ")
        assert 'get_current_time {"timezone":"Asia/Tokyo"}' in asked
        terminal.say("n")
        assert "[get_current_time: approval_denied," in terminal.prompt()
        terminal.say(TIME)
        terminal.until(r"never\? ")
        terminal.say("y")
        assert "[get_current_time: ok," in terminal.prompt()


@pytest.mark.outside
def test_ctrl_c_at_a_question_takes_nothing_of_what_is_typed_next(run: Shell) -> None:
    run.config('[agents.General]\nmode = "ask_always"\n')
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say(TIME)
        terminal.until(r"never\? ")
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        terminal.say("/usage")
        assert "offline: 1 reply," in terminal.prompt()
        terminal.say(TIME)
        terminal.until(r"never\? ")
        terminal.say("yes")
        assert "[get_current_time: ok," in terminal.prompt()


@pytest.mark.outside
def test_killed_in_mid_call_the_conversation_goes_on_and_every_call_has_a_result(run: Shell) -> None:
    sleeper = Sleeper(run)
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/nap minutes=5")
        assert sleeper.has_begun()
        terminal.kill()
        session = session_of(terminal)
    events = json_lines(run("chat", "--json", "--session", session, TIME))
    assert finished(events) == [("get_current_time", "success")]
    assert events[-1]["reason"] == "done"
    messages = stored(run, session)
    calls = [call.id for message in messages if isinstance(message, AssistantMessage) for call in message.calls]
    results = [result for message in messages if isinstance(message, ResultsMessage) for result in message.results]
    assert [result.call_id for result in results] == calls and len(calls) == 2
    assert '"code":"unknown_outcome"' in results[0].envelope
    sleeper.close()


@pytest.mark.outside
def test_a_session_that_runs_elsewhere_is_busy_and_not_disturbed(run: Shell) -> None:
    sleeper = Sleeper(run)
    with run.at_terminal("chat") as terminal:
        terminal.prompt()
        terminal.say("/nap minutes=5")
        assert sleeper.has_begun()
        session = session_of(terminal)
        done = run("chat", "--session", session, TIME)
        assert done.returncode == 1 and "is running: wait for its turn to end" in done.stdout
        terminal.type("\x03")
        assert "(aborted)" in terminal.prompt()
        assert run("chat", "--session", session, TIME).returncode == 0
        terminal.say("/get_current_time timezone=Europe/Paris")
        assert "get_current_time: ok" in terminal.prompt()
        terminal.type("\x04")
        assert terminal.ended() == 0
    assert len(stored(run, session)) == 3 + 4 + 4
    sleeper.close()


# The same over each of the four model APIs.


def use(run: Shell, server: FakeModelServer, *apis: Api) -> None:
    """Let the settings name this server's models, the first as the default."""
    run.config(
        "\n".join(
            f'[models.{api}]\napi = "{api}"\nbase_url = "{server.url(api)}"\nkey = "{KEY}"\nmodel = "{MODELS[api]}"\n'
            for api in apis
        )
    )


THREE_ANSWERS = [
    Turn(calls=(Call("get_current_time", '{"timezone": "Asia/Tokyo"}'),)),
    Turn(text="It is late in Tokyo."),
    Turn("I write it.", "First write, then read.", (Call("write_file", '{"path": "notes.txt", "content": "hello"}'),)),
    Turn(calls=(Call("read_file", '{"path": "notes.txt"}'),)),
    Turn(text="It says hello."),
    Turn(calls=(Call("list_directory", '{"path": "."}'), Call("get_current_time"))),
    Turn(text="One file, and it is late."),
]


@pytest.mark.anyio
@pytest.mark.parametrize("api", APIS)
@pytest.mark.outside
async def test_the_three_questions_over_every_api_really_call_tools(run: Shell, api: Api) -> None:
    async with FakeModelServer(THREE_ANSWERS) as server:
        use(run, server, api)
        time = json_lines(await asyncio.to_thread(run, "chat", "--json", TIME))
        session = time[0]["id"]
        files = json_lines(await asyncio.to_thread(run, "chat", "--json", "--session", session, FILES))
        both = json_lines(await asyncio.to_thread(run, "chat", "--json", "--session", session, BOTH))
    assert [asked.refused for asked in server.asked] == [""] * 7
    assert finished(time) == [("get_current_time", "success")]
    assert finished(files) == [("write_file", "success"), ("read_file", "success")]
    assert sorted(finished(both)) == [("get_current_time", "success"), ("list_directory", "success")]
    assert [events[-1]["text"] for events in (time, files, both)] == [
        "It is late in Tokyo.",
        "It says hello.",
        "One file, and it is late.",
    ]
    assert (run.workspace / "notes.txt").read_text(encoding="utf-8") == "hello"
    sent = str(server.asked[-1].body)
    assert "+09:00" in sent and "hello" in sent and "notes.txt" in sent
    assert {event["model"] for event in both if event["type"] == "usage"} == {MODELS[api]}
    messages = await asyncio.to_thread(stored, run, session)
    assert sum(isinstance(message, ResultsMessage) for message in messages) == 4


@pytest.mark.anyio
@pytest.mark.outside
async def test_one_session_goes_on_over_all_four_apis_one_after_another(run: Shell) -> None:
    script = [
        turn
        for api in APIS
        for turn in (Turn("", f"thinking in {api}", (Call("get_current_time"),)), Turn(text=f"done by {api}"))
    ]
    async with FakeModelServer(script) as server:
        use(run, server, *APIS)
        for number, api in enumerate(APIS):
            words = ("--session", "last") if number else ()
            events = json_lines(await asyncio.to_thread(run, "chat", "--json", "--model", api, *words, TIME))
            assert events[-1]["text"] == f"done by {api}"
    assert [asked.refused for asked in server.asked] == [""] * 8
    assert all(f"done by {api}" in str(server.asked[-1].body) for api in APIS[:-1])


@pytest.mark.anyio
@pytest.mark.outside
async def test_an_answer_is_shown_while_it_arrives_and_what_arrived_is_kept(run: Shell) -> None:
    def person() -> str:
        with run.at_terminal("chat") as terminal:
            terminal.prompt()
            terminal.say("tell me a story")
            terminal.until("Once upon a time")
            terminal.type("\x03")
            assert "(aborted)" in terminal.prompt()
            terminal.say("go on")
            assert "They lived happily." in terminal.prompt()
            return session_of(terminal)

    script = [Turn(text="Once upon a time there was " * 20, fault="hang_midway"), Turn(text="They lived happily.")]
    async with FakeModelServer(script) as server:
        use(run, server, "openai-chat")
        session = await asyncio.to_thread(person)
    messages = await asyncio.to_thread(stored, run, session)
    first = messages[1]
    assert isinstance(first, AssistantMessage) and first.stop == "aborted"
    assert first.text.startswith("Once upon a time")
    assert "Once upon a time" in str(server.asked[-1].body)


@pytest.mark.anyio
@pytest.mark.outside
async def test_an_answer_that_comes_without_pieces_is_printed(run: Shell) -> None:
    async with FakeModelServer([Turn(text="All at once.", delta=0)]) as server:
        use(run, server, "openai-responses")
        done = await asyncio.to_thread(run, "chat", "hi")
    assert done.stdout == "All at once.\n"


@pytest.mark.anyio
@pytest.mark.parametrize("api", APIS)
@pytest.mark.outside
async def test_how_a_turn_ended_is_shown_later_and_retry_begins_it_again(run: Shell, api: Api) -> None:
    story = Turn(text="Once upon a time there was a king who lived in a castle far away from here.", fault="cut")
    async with FakeModelServer([Turn(fault="auth"), story, Turn(text="They lived happily.")]) as server:
        use(run, server, api)
        first = await asyncio.to_thread(run, "chat", "tell me a story")
        shown = (await asyncio.to_thread(run, "sessions", "show", "last")).stdout
        assert first.returncode == 1 and shown.startswith("# tell me a story\n")
        [end] = [line for line in shown.splitlines() if line.startswith("**The model can't answer: ")]
        assert api in end and "[20" in end

        again = await asyncio.to_thread(run, "chat", "--session", "last", given="/retry\n")
        assert "last turn: The model can't answer" in again.stdout
        assert "Once upon" in again.stdout and "The answer broke off" in again.stdout
        assert "chunked" not in again.stdout
        messages = json.loads((await asyncio.to_thread(run, "sessions", "show", "last", "--json")).stdout)
        assert messages[1]["content"].startswith("Once upon")
        ended = messages[1]["ended"]
        assert (ended["reason"], ended["fault"]) == ("error", {"of": "model", "code": "cut"})
        exported = json.loads((await asyncio.to_thread(run, "sessions", "export", "last", "--json")).stdout)
        assert exported["ends"] == [ended]

        last = await asyncio.to_thread(run, "chat", "--session", "last", given="/retry\n")
        assert "They lived happily." in last.stdout
        shown = (await asyncio.to_thread(run, "sessions", "show", "last")).stdout
    assert "broke off" not in shown and "Once upon" not in shown and "They lived happily." in shown


@pytest.mark.anyio
@pytest.mark.outside
async def test_words_that_would_steer_the_terminal_do_not(run: Shell) -> None:
    async with FakeModelServer([Turn(text="be\x1b[2Jhave\x07\u202e now\r\n", delta=100)]) as server:
        use(run, server, "anthropic")
        done = await asyncio.to_thread(run, "chat", "hi")
    assert done.stdout == "be[2Jhave now\n"


@pytest.mark.anyio
@pytest.mark.outside
async def test_usage_is_counted_per_session_with_its_cost(run: Shell) -> None:
    async with FakeModelServer([Turn(text="one"), Turn(text="two")]) as server:
        use(run, server, "openai-chat")
        await asyncio.to_thread(run, "chat", "hi")
        done = await asyncio.to_thread(run, "chat", "--session", "last", given="hi\n/usage\n")
    assert "gpt-5.5: 2 replies, 24 tokens in, 14 out, cost 0.0005 USD" in done.stdout


@pytest.mark.outside
def test_help_shows_the_way(run: Shell) -> None:
    done = run("chat", "--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--agent", "--session", "--model", "--verbose", "--json", "--yes"))


# A local model that is looked for in the background.


class Ollama:
    """A local Ollama that takes its time to say which models it has."""

    def __init__(self) -> None:
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.port = 0

    async def __aenter__(self) -> "Ollama":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # the client only looked whether something listens here
            writer.close()
            return
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        await reader.readexactly(int(length[1]) if length else 0)
        path = head.split(" ")[1]
        if path == "/api/tags":
            self.was_asked.set()
            await self.may_answer.wait()
        body = json.dumps(self._answers[path]).encode()
        kind = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(kind + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    _answers: ClassVar[dict[str, Any]] = {
        "/api/tags": {"models": [{"model": "llama3:8b"}]},
        "/api/show": {"capabilities": ["completion", "tools"]},
        "/v1/chat/completions": {
            "id": "1",
            "object": "chat.completion",
            "model": "llama3:8b",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": "Hello from here."}, "finish_reason": "stop"}
            ],
        },
    }


@pytest.mark.anyio
@pytest.mark.outside
async def test_a_conversation_begins_before_ollama_has_answered_and_uses_it_when_it_has(run: Shell) -> None:
    loop = asyncio.get_running_loop()

    def person(port: int) -> None:
        with run.at_terminal("chat", OLLAMA_HOST=f"127.0.0.1:{port}") as terminal:
            assert "Model: offline" in terminal.prompt()
            asyncio.run_coroutine_threadsafe(ollama.was_asked.wait(), loop).result(20)
            loop.call_soon_threadsafe(ollama.may_answer.set)
            terminal.say("hi")
            answer = terminal.prompt()
            assert "Model: llama3:8b, because a local Ollama answers" in answer and "Hello from here." in answer

    async with Ollama() as ollama:
        await asyncio.to_thread(person, ollama.port)


@pytest.mark.anyio
@pytest.mark.outside
async def test_a_single_question_waits_for_ollama(run: Shell) -> None:
    async with Ollama() as ollama:
        ollama.may_answer.set()
        host = f"127.0.0.1:{ollama.port}"
        done = await asyncio.to_thread(run, "chat", "--json", "hi", OLLAMA_HOST=host)
        which = await asyncio.to_thread(run, "model", "which", OLLAMA_HOST=host)
    assert json_lines(done)[0]["model"].startswith("llama3:8b, because")
    assert json_lines(done)[-1]["text"] == "Hello from here."
    assert which.stdout.startswith("llama3:8b, because")


@pytest.mark.anyio
@pytest.mark.outside
async def test_an_ollama_that_never_answers_is_given_up(run: Shell) -> None:
    async with Ollama() as ollama:
        done = await asyncio.to_thread(run, "chat", TIME, OLLAMA_HOST=f"127.0.0.1:{ollama.port}")
        ollama.may_answer.set()
    assert done.returncode == 0 and "get_current_time: ok" in done.stdout
