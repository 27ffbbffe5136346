"""`handspan model`: which model answers, and exactly what it would be sent (SPEC M1, M3, M4)."""

import json
from typing import Any

import pytest

from handspan.core.messages import Api
from tests.cli.shell import Shell, json_lines
from tests.models.conversations import APIS, MODELS
from tests.models.schema.validators import VALIDATORS, Issued

TALK: list[Any] = [
    "What is the weather in Tōkyō?",
    {
        "type": "assistant",
        "parts": [
            {"type": "text", "text": "I look."},
            {"type": "call", "id": "c-1", "name": "weather", "arguments": '{"city":"Tōkyō"}'},
            {"type": "call", "id": "c-2", "name": "weather", "arguments": "{broken"},
        ],
        "stop": "calls",
    },
    {
        "type": "results",
        "results": [
            {"call_id": "c-1", "name": "weather", "envelope": '{"status":"success","result":21}'},
            {"call_id": "c-2", "name": "weather", "envelope": '{"status":"error"}', "is_error": True},
        ],
    },
]
WEATHER = {
    "name": "weather",
    "description": "Tell the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
LIST_SCHEMA = {"name": "listing", "description": "Bad.", "parameters": {"type": "array"}}


def ask(run: Shell, api: str, messages: Any, *more: str) -> Any:
    done = run("model", "request", "--api", api, "--messages", json.dumps(messages), *more)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


# What can't be sent.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Say --api and --messages"),
        (("--api", "gemini"), "Say --api and --messages"),
        (("--api", "telepathy", "--messages", '"hi"'), "is not one of"),
        (("--api", "gemini", "--messages", "hi there"), "'hi there' is no file, and as JSON it can't be read"),
        (("--api", "gemini", "--messages", '[{"type": "user"}]'), "The messages can't be read"),
        (("--api", "gemini", "--messages", "[7]"), "The messages can't be read"),
        (("--api", "gemini", "--messages", '"hi"', "--tools", "[7]"), "The tools can't be read"),
        (
            ("--api", "gemini", "--messages", '"hi"', "--tools", '[{"description": "x"}]'),
            "missing required field `name`",
        ),
    ],
)
@pytest.mark.outside
def test_wrong_usage_is_explained(run: Shell, words: tuple[str, ...], said: str) -> None:
    done = run("model", "request", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("messages", "said"),
    [
        (TALK[:2], "the calls ['c-1', 'c-2'] have no results yet"),
        ([*TALK[:2], "never mind"], "have no results yet"),
        ([TALK[0], TALK[2]], "can't follow calls []"),
        ([*TALK, TALK[2]], "can't follow calls []"),
        ([*TALK[:2], {"type": "results", "results": TALK[2]["results"][:1]}], "can't follow calls ['c-1', 'c-2']"),
    ],
)
def test_a_conversation_that_is_not_paired_is_wrong_usage(run: Shell, api: str, messages: list[Any], said: str) -> None:
    done = run("model", "request", "--api", api, "--messages", json.dumps(messages))
    assert (done.returncode, done.stdout) == (2, "")
    assert "No API would take this conversation" in done.stderr and said in done.stderr


@pytest.mark.parametrize("api", APIS)
def test_a_tool_that_an_api_can_not_take_is_told_and_the_others_go(run: Shell, api: str) -> None:
    tools = json.dumps([LIST_SCHEMA, WEATHER, WEATHER])
    done = run("model", "request", "--api", api, "--messages", '"hi"', "--tools", tools)
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert "left out 'listing'" in told[0] and "'array'" in told[0]
    assert "left out 'weather': another tool is named 'weather' too" in told[1]
    assert done.stdout.count('"weather"') == 1 and "listing" not in done.stdout


# What is sent.


@pytest.mark.parametrize("api", APIS)
def test_the_request_is_what_the_api_takes(run: Shell, api: Api) -> None:
    tools, instructions = json.dumps([WEATHER]), ("--instructions", "Be brief.")
    body = ask(run, api, TALK, "--tools", tools, "--model", MODELS[api], *instructions)
    VALIDATORS[api](body, Issued())
    sent = json.dumps(body, ensure_ascii=False)
    assert "What is the weather in Tōkyō?" in sent and "Be brief." in sent and "Tell the weather." in sent
    assert (body.get("model") == MODELS[api]) is (api != "gemini")  # which has it in the path
    assert (body.get("stream") is True) is (api != "gemini")
    whole = ask(run, api, "hi", "--no-stream")
    assert whole.get("stream") in (None, False)


def test_strict_is_asked_for_where_there_is_such_a_thing(run: Shell) -> None:
    tools = json.dumps([WEATHER])
    chat = ask(run, "openai-chat", "hi", "--tools", tools, "--strict")["tools"][0]["function"]
    assert chat["strict"] is True and chat["parameters"]["additionalProperties"] is False
    assert ask(run, "openai-responses", "hi", "--tools", tools, "--strict")["tools"][0]["strict"] is True
    assert "strict" not in json.dumps(ask(run, "gemini", "hi", "--tools", tools, "--strict"))


def test_messages_come_from_a_file_or_standard_input_and_tools_in_any_vendors_form(run: Shell) -> None:
    file = run.home / "talk.json"
    file.write_text(json.dumps(TALK), encoding="utf-8")
    forms = [
        {"type": "function", "function": WEATHER},
        {"name": "weather", "description": "Tell the weather.", "inputSchema": WEATHER["parameters"]},
        {"name": "weather", "description": "Tell the weather.", "input_schema": WEATHER["parameters"]},
        {"type": "function", **WEATHER},
    ]
    asked = [
        run("model", "request", "--api", "anthropic", "--messages", str(file), "--tools", json.dumps(form)).stdout
        for form in forms
    ]
    piped = run(
        "model",
        "request",
        "--api",
        "anthropic",
        "--messages",
        "-",
        "--tools",
        json.dumps(WEATHER),
        given=json.dumps(TALK),
    )
    assert set(asked) == {piped.stdout} and "Tell the weather." in piped.stdout


def test_a_tool_without_description_and_parameters_is_one_without_parameters(run: Shell) -> None:
    body = ask(run, "anthropic", "hi", "--tools", '{"name": "ping", "description": null}')
    assert body["tools"][0]["input_schema"] == {"type": "object", "properties": {}}


def test_a_batch_answers_every_line_in_order_and_fails_when_one_does(run: Shell) -> None:
    lines: list[Any] = [{"api": api, "messages": TALK, "tools": [WEATHER], "model": MODELS[api]} for api in APIS]
    single = [ask(run, api, TALK, "--tools", json.dumps([WEATHER]), "--model", MODELS[api]) for api in APIS]
    good = run("model", "request", "--batch", given="\n\n".join(map(json.dumps, lines)))
    assert good.returncode == 0 and json_lines(good) == single
    wrong = [
        "{broken",
        '{"messages": "hi"}',
        '{"api": ["gemini"], "messages": "hi"}',
        '{"api": "gemini", "messages": [1]}',
        json.dumps({"api": "gemini", "messages": TALK[:2]}),
        '{"api": "gemini", "messages": "hi", "stream": false, "instructions": "x"}',
    ]
    done = run("model", "request", "--batch", given="\n".join(wrong))
    answers = json_lines(done)
    assert done.returncode == 1
    assert [list(answer) == ["error"] for answer in answers] == [True] * 5 + [False]
    assert [answer["error"].split(":")[0] for answer in answers[:5]] == [f"line {number}" for number in range(1, 6)]


# Which model answers.


def test_which_says_the_model_and_why(run: Shell) -> None:
    assert run("model", "which").stdout.startswith("offline, a rule-based stand-in: no model is named in the settings")
    assert "because OPENAI_API_KEY is set" in run("model", "which", OPENAI_API_KEY="sk-x").stdout
    named = run("model", "which", "--model", "gemini:gemini-3-flash", "--json", GEMINI_API_KEY="k")
    assert json.loads(named.stdout) == {
        "model": "gemini-3-flash",
        "why": "gemini:gemini-3-flash, because it is named so.",
        "models": [{"name": "gemini-3-flash", "state": "ready"}],
    }
    run.config('[models.near]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "llama"\n')
    only = "near (llama), because it is the only one of `models`, and the setting `model` names none.\n"
    assert run("model", "which").stdout == only
    run.config('model = "near"\n[models.near]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "llama"\n')
    assert run("model", "which").stdout == "near (llama), because the setting `model` names it.\n"


def test_a_model_that_is_not_there_is_told(run: Shell) -> None:
    done = run("model", "which", "--model", "nope")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no model 'nope'" in done.stderr
