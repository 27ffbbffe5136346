"""`handspan questions`: answer what agents ask, list the rules "always" and "never", take them back (SPEC P5)."""

from typing import Final

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import json_option, settings_options
from handspan.cli.render import print_done, print_json, print_rows
from handspan.cli.requests import segment
from handspan.core.question_checks import options_of
from handspan.core.values import Json, JsonObject, encode, escape_invisible
from handspan.wire import strict_json
from handspan.wire.rest.questions import (
    AcceptedAnswer,
    ForgottenRules,
    QuestionList,
    QuestionView,
    RuleList,
    StartedLogin,
)

_DECISIONS: Final = {"allow": "allow", "deny": "deny", "never": "deny_forever"}


@click.group("questions", invoke_without_command=True)
@json_option
@settings_options
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the questions that wait for your answer: id, kind, agent, tool, arguments, what is asked.

    What a device asks its own person is listed too, with the device: answer it there.
    """
    if ctx.invoked_subcommand is not None:
        return
    found = ask_gateway(lambda requests: requests.get("/api/questions", QuestionList), says=not as_json)
    if as_json:
        print_json([*found.questions, *found.at_devices])
        return
    rows = [
        (one.id, one.kind, one.agent, one.tool, escape_invisible(encode(one.arguments).decode()), _asks(one))
        for one in (*found.questions, *found.at_devices)
    ]
    print_rows(("id", "kind", "agent", "tool", "arguments", "asks"), rows)
    for one in found.questions:  # below the table, which cuts what does not fit
        for line in _how_to_log_in(one):
            click.echo(line)


def _asks(question: QuestionView) -> str:
    """What is asked, and what has to be known to answer it: the choice, or the form of a value."""
    if question.device:
        return f"asked at {question.device}: {question.subject}"
    if question.schema is None:
        return question.subject
    values: Json = options_of(question.schema) or question.schema
    return f"{question.subject} --value: {escape_invisible(encode(values).decode())}"


def _how_to_log_in(question: QuestionView) -> list[str]:
    """What a login needs, a line each: what to do, how to begin, how to say that it is done."""
    action = question.action
    if action is None or question.kind != "login":
        return []
    begin = f"begin: handspan questions start {question.id}" if action.intent else f"open {action.url}"
    lines = [question.subject, action.hint, begin if action.intent or action.url else ""]
    done = f"done: handspan questions answer {question.id} allow"
    return ["", *(f"  {line}" for line in (*lines, done) if line)]


@command.command("answer")
@click.argument("question_id", metavar="ID")
@click.argument("decision", type=click.Choice(list(_DECISIONS)))
@click.option("--always", is_flag=True, help="Answer every question like it so, for this tool as it is now.")
@click.option("--value", help="What the question asks for, as JSON; with 'allow'.")
@click.option("--reason", default="", help="Why not, in words that the model reads; with 'deny' and 'never'.")
@json_option
@settings_options
@place_options
def answer(question_id: str, decision: str, always: bool, value: str | None, reason: str, as_json: bool) -> None:
    """Answer the question ID: allow it, deny it, or never allow it. The first answer counts."""
    given: Json = None if value is None else strict_json.parse(value)
    body: JsonObject = {"decision": _DECISIONS[decision], "always": always, "value": given, "reason": reason}
    path = f"/api/questions/{segment(question_id)}/answer"
    accepted = ask_gateway(lambda requests: requests.change("POST", path, AcceptedAnswer, body), says=not as_json)
    print_done(accepted, "The answer counts.", as_json=as_json)


@command.command("start")
@click.argument("question_id", metavar="ID")
@json_option
@settings_options
@place_options
def start(question_id: str, as_json: bool) -> None:
    """Start the login that the question ID asks for, on the device that wants it. Answer 'allow' when it is done."""
    path = f"/api/questions/{segment(question_id)}/start"
    started = ask_gateway(lambda requests: requests.change("POST", path, StartedLogin), says=not as_json)
    text = f"The device starts the login. When it is done: handspan questions answer {question_id} allow"
    print_done(started, text, as_json=as_json)


@command.command("rules")
@json_option
@settings_options
@place_options
def rules(as_json: bool) -> None:
    """List what you answered with "always" or "never": tool, kind, what was asked, the answer."""
    found = ask_gateway(lambda requests: requests.get("/api/rules", RuleList), says=not as_json)
    if as_json:
        print_json(found.rules)
    else:
        print_rows(
            ("tool", "kind", "asks", "answer"), [(one.tool, one.kind, one.subject, one.answer) for one in found.rules]
        )


@command.command("forget")
@click.argument("tool")
@json_option
@settings_options
@place_options
def forget(tool: str, as_json: bool) -> None:
    """Take back every "always" and "never" about TOOL: you are asked again."""
    path = f"/api/rules/{segment(tool)}"
    done = ask_gateway(lambda requests: requests.change("DELETE", path, ForgottenRules), says=not as_json)
    print_done(
        done, f"{done.forgotten} rule{'' if done.forgotten == 1 else 's'} about {done.tool} forgotten.", as_json=as_json
    )
