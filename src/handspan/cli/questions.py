"""`handspan questions`: see and answer what agents ask (SPEC P5). `handspan rules` has "always" and "never"."""

import shlex
from collections.abc import Iterator
from typing import Final

import click

from handspan.cli.door import RequestGroup, ask_gateway, fetch
from handspan.cli.edit_arguments import argument_check
from handspan.cli.options import completes
from handspan.cli.render import one_line, print_as_json, print_done
from handspan.cli.requests import Requests, segment
from handspan.core.errors import WireError
from handspan.core.question_checks import is_text, options_of
from handspan.core.questions import QuestionAction, is_for_money
from handspan.core.values import Json, JsonObject, encode, escape_invisible, strip_invisible
from handspan.wire import strict_json
from handspan.wire.rest.questions import AcceptedAnswer, QuestionList, QuestionView, StartedLogin

_DECISIONS: Final = {"allow": "allow", "deny": "deny", "never": "deny_forever"}


@click.group("questions", cls=RequestGroup)
def command() -> None:
    """List the questions that wait for your answer, and the command that answers each.

    What a device asks its own person is listed too, with the device: answer it there.
    """
    found = fetch("/api/questions", QuestionList)
    if print_as_json([*found.questions, *found.at_devices]):
        return
    for one in (*found.questions, *found.at_devices):
        for line in question_lines(one):
            click.echo(strip_invisible(line))
    if not (found.questions or found.at_devices):
        click.echo("No question waits for an answer.")


def question_lines(question: QuestionView) -> Iterator[str]:
    """Yield what is asked and how to answer it. Nothing is cut: a person decides by it."""
    arguments = f" {escape_invisible(encode(question.arguments).decode())}" if question.arguments else ""
    asks = f"the agent {question.agent!r} calls {question.tool}" if question.agent else question.tool
    if is_for_money(question.to_question()):
        asks = f"money for the agent {question.agent!r}" if question.agent else "money"
    yield f"{question.id}  {question.kind}: {asks}{arguments}"
    yield f"    {one_line(question.subject)}"
    if question.device:
        yield f"    It is asked at the device {question.device!r}: answer there."
        return
    action = question.action or QuestionAction()
    if question.kind == "trust":
        yield f"    before: {_render_definition(action.old)}"
        yield f"    now:    {_render_definition(action.new)}"
    if question.kind == "login":
        begin = (
            f"to begin: handspan questions start {shlex.quote(question.id)}" if action.intent else f"open {action.url}"
        )
        yield from (f"    {line}" for line in (action.hint, begin if action.intent or action.url else "") if line)
    yield f"    answer: handspan questions answer {shlex.quote(question.id)} {_how_to_answer(question)}"


def _how_to_answer(question: QuestionView) -> str:
    if question.kind == "login":
        return "allow   (when you are logged in)"
    if question.schema is None:
        edit = ", allow --arguments JSON" if question.kind == "approval" else ""
        return f"allow   (or: deny, never, allow --always{edit})"
    options = options_of(question.schema)
    if not options or not all(isinstance(one, str) for one in options):
        values: Json = options or question.schema
        return f"allow --value JSON   (fits: {escape_invisible(encode(values).decode())})"
    first, *more = (escape_invisible(shlex.quote(str(one))) for one in options)
    others = f"   (or: {', '.join(more)})" if more else ""
    money = "; or: handspan budget add DOLLARS" if is_for_money(question.to_question()) else ""
    return f"allow --value {first}{others}{money}"


def _render_definition(definition: JsonObject | None) -> str:
    return "there was none" if definition is None else escape_invisible(encode(definition).decode())


@command.command("answer")
@click.argument("question_id", metavar="ID", shell_complete=completes("questions"))
@click.argument("decision", type=click.Choice(list(_DECISIONS)))
@click.option("--always", is_flag=True, help="Answer every question like it so, for this tool as it is now.")
@click.option("--value", help="What the question asks for, as JSON or a text of its list; with 'allow'.")
@click.option("--arguments", help="Let the call run with these arguments, a JSON object, instead; with 'allow'.")
@click.option("--reason", default="", help="Why not, in words that the model reads; with 'deny' and 'never'.")
def answer(
    question_id: str, decision: str, always: bool, value: str | None, arguments: str | None, reason: str
) -> None:
    """Answer the question ID: allow it, deny it, or never allow it. The first answer counts.

    The beginning of an id is enough where no other open question begins so.

    With --arguments the call runs with these, and the agent is told so.
    """
    if arguments is not None and decision != "allow":
        raise click.UsageError("--arguments goes with 'allow'.")
    body: JsonObject = {"decision": _DECISIONS[decision], "always": always, "reason": reason}

    async def work(requests: Requests) -> AcceptedAnswer:
        question = await _find(requests, question_id)
        if arguments is not None:
            if question is not None and question.kind != "approval":
                raise click.UsageError(f"--arguments goes with approvals: this question is a {question.kind}.")
            check = await argument_check(requests, question.tool if question is not None else "")
            body["arguments"] = check(arguments)
        body["value"] = _read_value(value, (question and question.schema) or {})
        found = question_id if question is None else question.id  # the gateway refuses one that is not there
        return await requests.change("POST", f"/api/questions/{segment(found)}/answer", AcceptedAnswer, body)

    accepted = ask_gateway(work)
    rule = " `handspan rules` lists it." if always or decision == "never" else ""
    print_done(accepted, f"The answer counts.{rule}")


async def _find(requests: Requests, typed: str) -> QuestionView | None:
    """Return the open question with this id, or whose id begins so. None: the gateway will refuse what was typed."""
    listed = (await requests.get("/api/questions", QuestionList)).questions
    found = [one for one in listed if one.id == typed] or [one for one in listed if typed and one.id.startswith(typed)]
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} open questions begin with {typed!r}: type more of the id.")
    return found[0] if found else None


def _read_value(value: str | None, schema: JsonObject) -> Json:
    """Return the value that is meant: a text where the question has it in its list or asks for one, else JSON."""
    if value is None or value in options_of(schema):
        return value
    try:
        return strict_json.parse(value)
    except WireError as error:
        if is_text(schema):
            return value
        raise click.UsageError(f"--value: this is not JSON: {error}. A text needs quotes: '\"text\"'.") from None


@command.command("start")
@click.argument("question_id", metavar="ID", shell_complete=completes("questions"))
def start(question_id: str) -> None:
    """Start the login that the question ID asks for, on the device that wants it. Answer 'allow' when it is done."""

    async def work(requests: Requests) -> StartedLogin:
        question = await _find(requests, question_id)
        found = question_id if question is None else question.id
        return await requests.change("POST", f"/api/questions/{segment(found)}/start", StartedLogin)

    started = ask_gateway(work)
    answer = f"handspan questions answer {shlex.quote(question_id)} allow"
    text = f"The device starts the login; if nothing opens there, its own output says why. When it is done: {answer}"
    print_done(started, text)
