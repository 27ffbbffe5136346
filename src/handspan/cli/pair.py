"""`handspan pair`: a new pairing code for a device or a program, or a link for a browser (SPEC S5, U1, U2)."""

import sys
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import click

from handspan.cli.door import gateway_options
from handspan.cli.operator import as_operator
from handspan.cli.options import json_option
from handspan.cli.remote import Remote
from handspan.cli.render import print_as_json
from handspan.core.principals import DEVICE_SCOPES
from handspan.core.values import JsonObject
from handspan.gateway.entry.auth import SCOPES
from handspan.gateway.entry.host_policy import LOOPBACK
from handspan.gateway.entry.pairing import pairing_url, qr_text
from handspan.wire.rest.tokens import MadeCode, SignInLink


@click.command("pair")
@click.option("--browser", is_flag=True, help="Show a link that signs a browser in as you, in place of a code.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help=f"What the device may do; default: {' and '.join(DEVICE_SCOPES)}. May be given several times.",
)
@json_option
@gateway_options
def command(browser: bool, scopes: tuple[str, ...]) -> None:
    """Let a device or a program in: show a new pairing code of the gateway, good once and for some minutes.

    The gateway is the one that serves the state folder, or the one at --url.
    """
    if browser and scopes:
        raise click.UsageError("--browser, or --scope: a browser that signs in may do all that you may.")
    with as_operator() as remote:
        if browser:
            _print_link(remote)
        else:
            _print_code(remote, tuple(dict.fromkeys(scopes)) or DEVICE_SCOPES)


def _print_link(remote: Remote) -> None:
    made = remote.change("POST", "/api/signin", SignInLink)
    if print_as_json({"url": made.url, **_until(made.expires_in)}):
        return
    click.echo(f"Page     {made.url}")
    click.echo(f"         signs one browser in as you, {_in_words(made.expires_in)}")


def _print_code(remote: Remote, scopes: tuple[str, ...]) -> None:
    """Make a code, and print for which programs and computers it is, and how they use it."""
    made = remote.change("POST", "/api/pairing", MadeCode, {"scopes": scopes})
    # An address that is not this computer's own loopback is one that others reach, too.
    host = urlsplit(remote.url).hostname or ""
    others = made.url if host in LOOPBACK or host.startswith("127.") else remote.url
    place = others or remote.url
    link = pairing_url(place, made.code, made.pin)
    where = {"url": place, "link": link, "reachable_by_others": bool(others)}
    if print_as_json({"code": made.code, "scopes": made.scopes, **where, **_until(made.expires_in)}):
        return
    who = "another computer or phone" if others else "another program of this computer"
    click.echo(f"Device   {who} pairs at {place} with the code {made.code}")
    click.echo(f"         once, {_in_words(made.expires_in)}; its scopes: {', '.join(made.scopes)}")
    if made.scopes == DEVICE_SCOPES:
        click.echo("         a program that chats, too, needs another code: --scope chat --scope device")
    if others is None:
        click.echo(f'         a program: POST {place}/pair with {{"code": "{made.code}"}} answers with its token')
        click.echo("         phones can't reach this address: start the gateway with --lan --tls to let them")
        return
    click.echo(f"         a computer: handspan device --pair '{link}'")
    if place.startswith("https:"):
        click.echo(f"         that does not trust its certificate: with --ca FILE, from {place}/device/root.crt")
    click.echo(f"         a phone: {link}")
    if sys.stdout.isatty():
        click.echo(qr_text(link))


def _until(seconds: float) -> JsonObject:
    return {"expires_in": seconds, "expires": _end(seconds).isoformat(timespec="seconds")}


def _in_words(seconds: float) -> str:
    return f"within {round(seconds / 60)} minutes (until {_end(seconds):%H:%M:%S})"


def _end(seconds: float) -> datetime:
    """Return the time by the clock of this computer, which the person sees."""
    return datetime.now().astimezone() + timedelta(seconds=seconds)
