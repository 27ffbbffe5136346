"""`handspan tokens`: list tokens, make one for a page or a program, revoke one (SPEC S5, U2)."""

from typing import Final

import click
import msgspec

from handspan.cli.door import gateway_options
from handspan.cli.operator import as_operator
from handspan.cli.options import ListingGroup, is_json, json_option
from handspan.cli.remote import Remote
from handspan.cli.render import (
    print_as_json,
    print_done,
    print_list,
    quote_label,
    render_time,
    token_cells,
    token_uses,
    token_words,
)
from handspan.cli.requests import segment
from handspan.core.errors import ConfigError
from handspan.core.names import did_you_mean
from handspan.core.values import JsonObject
from handspan.gateway.entry.auth import PAGE_LABEL, SCOPES
from handspan.gateway.entry.operator_token import OPERATOR_LABEL, is_operator_label
from handspan.wire.rest.tokens import MadeToken, RevokedToken, TokenList, TokenView

_LONGEST_LABEL: Final = 64
_TAKEN_LABELS: Final = {
    OPERATOR_LABEL: "the token of the person who runs it",
    PAGE_LABEL: "those of browsers that are signed in",
}


@click.group("tokens", cls=ListingGroup)
@click.option("--all", "with_revoked", is_flag=True, help="Revoked ones too.")
@json_option
@gateway_options
def command(with_revoked: bool) -> None:
    """List your tokens at the gateway: id, label, scopes, when made, when last seen. Never the tokens themselves."""
    with as_operator() as remote:
        tokens = _list_tokens(remote)
    shown = [token for token in tokens if with_revoked or token.revoked is None]
    print_list(("id", "label", "scopes", "made", "last seen", ""), shown, token_cells)
    if not is_json() and (hidden := len(tokens) - len(shown)):
        click.echo(f"({hidden} more {'is' if hidden == 1 else 'are'} revoked: --all)", err=True)


@command.command("new")
@click.argument("label")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    default=("chat",),
    show_default=True,
    help="What it may do: talk to agents, bring tools, call tools, all that you may. May be given several times.",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    help="Only this agent: with the scope tools its tools, with chat talk to it by OpenAI's API and the other fronts.",
)
@click.option(
    "--answers", is_flag=True, help="An MCP client with it may answer for its person whether its own calls may run."
)
@json_option
@gateway_options
def new(label: str, scopes: tuple[str, ...], agents: tuple[str, ...], answers: bool) -> None:
    """Make a token for a page or a program; LABEL is for you, to know it again.

    The token itself goes to standard output, and is shown this once; what to do with it, to standard error. It holds
    until it is revoked.
    """
    if agents and not set(scopes) <= {"tools", "chat"}:
        raise click.UsageError("--agent goes with `--scope tools` and chat: other scopes can't be bound to an agent.")
    if answers and set(scopes) == {"device"}:
        raise click.UsageError("--answers goes with `--scope tools`, chat or admin: a device calls no tools by MCP.")
    wanted: JsonObject = {"label": _check_label(label), "scopes": list(dict.fromkeys(scopes)), "agents": list(agents)}
    if answers:
        wanted["answers"] = True
    with as_operator() as remote:
        same = [token.id for token in _list_tokens(remote) if token.label == wanted["label"] and token.revoked is None]
        made = remote.change("POST", "/api/tokens", MadeToken, wanted)
    if same:
        older = f"{len(same)} older {'token has' if len(same) == 1 else 'tokens have'}"
        click.echo(f"Note: {older} this label too ({', '.join(same)}): `handspan tokens revoke ID` ends one.", err=True)
    if print_as_json({"url": remote.url, **msgspec.to_builtins(made)}):
        return
    click.echo(f"The token of {quote_label(made.label)} ({', '.join(made.scopes)}). It is shown this once:", err=True)
    click.echo(made.token)
    click.echo("Put it where only its user reads it, in place of TOKEN here:", err=True)
    for line in token_uses(made, remote.url):
        click.echo(f"  {line}", err=True)
    click.echo(f"It holds until you revoke it: handspan tokens revoke {made.id}", err=True)


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@click.option(
    "--yes", is_flag=True, help="Do not ask, even if it is the operator's, or the one that this command uses."
)
@json_option
@gateway_options
def revoke(token_id: str, yes: bool) -> None:
    """Let the token with this ID (`handspan tokens` lists them) in no more; what it has opened is closed at once."""
    with as_operator() as remote:
        token = _find(_list_tokens(remote), token_id)
        if token.revoked is None:
            if not yes:
                _confirm(token)
            remote.change("DELETE", f"/api/tokens/{segment(token.id)}", RevokedToken)
    text = "is revoked: it opens nothing any more, and what it had opened is closed."
    if token.revoked is not None:
        text = f"was revoked already: {render_time(token.revoked)}."
    answer = {"id": token.id, "label": token.label, "revoked": True, "changed": token.revoked is None}
    print_done(answer, f"The token {token_words(token)} {text}")


def _list_tokens(remote: Remote) -> list[TokenView]:
    return remote.get("/api/tokens", TokenList).tokens


def _check_label(label: str) -> str:
    """Return the label. Raises `UsageError` for one that a token can't have."""
    if not label.strip():
        raise click.UsageError("LABEL is empty: say whom the token is for, as in `handspan tokens new 'my page'`.")
    if len(label) > _LONGEST_LABEL:
        raise click.UsageError(f"LABEL has {len(label)} characters: {_LONGEST_LABEL} are enough.")
    if label.strip() in _TAKEN_LABELS:
        raise click.UsageError(
            f"LABEL: {label.strip()!r} is what the gateway calls {_TAKEN_LABELS[label.strip()]}. Choose another."
        )
    return label


def _find(tokens: list[TokenView], token_id: str) -> TokenView:
    """Return the token of this id. Raises `ConfigError`, which names ids that may be meant."""
    for token in tokens:
        if token.id == token_id:
            return token
    so_labelled = [token.id for token in tokens if token.label == token_id and token.revoked is None]
    if so_labelled:
        raise ConfigError(f"{token_id!r} is a label, and several may have it. Name the id: {' or '.join(so_labelled)}.")
    near = did_you_mean(token_id, [token.id for token in tokens])
    raise ConfigError(f"You have no token with the id {token_id!r}.{near} `handspan tokens` lists them.")


def _confirm(token: TokenView) -> None:
    """Ask first when the token is the operator's, or the one that this command uses."""
    if is_operator_label(token.label):
        text = "the operator's: no command gets in any more until the gateway is started again."
    elif token.current:
        text = "the token that this command uses: it can't be used again."
    else:
        return
    click.echo(f"{token_words(token)} is {text}", err=True)
    click.confirm("Revoke it?", abort=True, err=True)
