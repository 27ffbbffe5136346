"""`handspan schema compile`: a tool's schema as each model API gets it, and what was lost (SPEC M3)."""

import json
from typing import Any

import pytest

from tests.cli.shell import Shell, json_lines
from tests.recorded import mcp_tools

TARGETS = ("openai", "openai-strict", "anthropic", "gemini", "gemini-parameters")

ALARM: dict[str, Any] = {
    "name": "alarm",
    "description": "Set an alarm.",
    "parameters": {
        "type": "object",
        "properties": {
            "at": {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}$"},
            "days": {"type": "array", "items": {"$ref": "#/$defs/day"}, "uniqueItems": True},
        },
        "required": ["at"],
        "if": {"properties": {"at": {"const": "00:00"}}},
        "then": {"required": ["days"]},
        "$defs": {"day": {"enum": ["sat", "sun"]}},
    },
}
LISTING = {"name": "listing", "description": "No object.", "parameters": {"type": "array"}}


def compiled(run: Shell, target: str, tools: Any) -> list[Any]:
    return json_lines(run("schema", "compile", "--for", target, json.dumps(tools)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Missing option '--for'"),
        (("--for", "nobody", "{}"), "is not one of"),
        (("--for", "openai"), "Name TOOLS, or use --batch"),
        (("--for", "openai", "--batch", "{}"), "one of the two"),
        (("--for", "openai", "{broken"), "is no file, and as JSON it can't be read"),
        (("--for", "openai", "[1]"), "The tools can't be read"),
        (("--for", "openai", '{"parameters": {}}'), "missing required field `name`"),
    ],
)
def test_wrong_usage_is_explained(run: Shell, words: tuple[str, ...], said: str) -> None:
    done = run("schema", "compile", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_a_schema_that_can_not_be_lowered_is_quarantined_with_its_reason_and_the_others_go_on(
    run: Shell, target: str
) -> None:
    done = run("schema", "compile", "--for", target, json.dumps([LISTING, ALARM]))
    assert done.returncode == 1
    put_aside, lowered = json_lines(done)
    assert put_aside["name"] == "listing" and "'array'" in put_aside["quarantined"]
    assert lowered["name"] == "alarm" and "schema" in lowered


@pytest.mark.parametrize("target", TARGETS)
def test_what_an_api_can_not_say_is_in_the_report(run: Shell, target: str) -> None:
    done = run("schema", "compile", "--for", target, json.dumps(ALARM))
    assert done.returncode == 0
    (lowered,) = json_lines(done)
    assert set(lowered) == {"name", "strict", "schema", "losses"}
    assert lowered["strict"] is (target == "openai-strict")
    sent = json.dumps(lowered["schema"])
    # No subset has `if`; each of them keeps what the properties are.
    assert '"if"' not in sent and any("if" in loss for loss in lowered["losses"])
    assert {"at", "days"} == set(lowered["schema"]["properties"])


def test_the_targets_differ_in_what_they_lose(run: Shell) -> None:
    schemas = {target: compiled(run, target, ALARM)[0] for target in TARGETS}
    assert schemas["openai-strict"]["schema"]["required"] == ["at", "days"]
    assert schemas["openai-strict"]["schema"]["additionalProperties"] is False
    assert "$ref" not in json.dumps(schemas["gemini-parameters"]["schema"])
    assert len(schemas["gemini-parameters"]["losses"]) >= len(schemas["anthropic"]["losses"])


def test_a_plain_schema_loses_nothing(run: Shell) -> None:
    plain = {"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}}
    for target in ("openai", "anthropic", "gemini"):
        (lowered,) = compiled(run, target, plain)
        assert (lowered["losses"], lowered["schema"]) == ([], plain["parameters"])


def test_a_batch_answers_every_line_in_order(run: Shell) -> None:
    lines = [json.dumps(ALARM), "", "{broken", json.dumps([ALARM, LISTING]), '{"name": 7}', '{"name": "ping"}']
    done = run("schema", "compile", "--for", "gemini", "--batch", given="\n".join(lines))
    answers = json_lines(done)
    assert done.returncode == 1
    assert [answer.get("name") for answer in answers] == ["alarm", None, "alarm", "listing", None, "ping"]
    assert answers[1]["error"].startswith("line 3: Not JSON")
    assert answers[4]["error"].startswith("line 5: The tools can't be read")
    assert run("schema", "compile", "--for", "gemini", "--batch", given=json.dumps(ALARM)).returncode == 0


def test_tools_come_from_a_file_or_standard_input_too(run: Shell) -> None:
    file = run.home / "tools.json"
    file.write_text(json.dumps([ALARM]), encoding="utf-8")
    from_file = run("schema", "compile", "--for", "openai", str(file))
    piped = run("schema", "compile", "--for", "openai", "-", given=json.dumps([ALARM]))
    assert from_file.returncode == 0 and from_file.stdout == piped.stdout != ""


@pytest.mark.parametrize("target", TARGETS)
def test_every_tool_of_real_mcp_servers_is_lowered(run: Shell, target: str) -> None:
    tools = [entry["tool"] for entry in mcp_tools()]
    done = run("schema", "compile", "--for", target, "--batch", given="\n".join(map(json.dumps, tools)))
    assert done.returncode == 0
    assert [len(answer["schema"]) > 0 for answer in json_lines(done)] == [True] * len(tools)
