"""`handspan devices`: list your devices, rename and forget them (SPEC W10, U2)."""

import sys
from typing import Final

import click

from handspan.cli.door import ask_gateway, place_options
from handspan.cli.options import ListingGroup, completes, json_option
from handspan.cli.render import print_done, print_json, print_rows, render_time
from handspan.cli.requests import segment
from handspan.core.names import SEPARATOR
from handspan.wire.rest.devices import DeviceList, DeviceView, ForgottenDevice, Relabelled
from handspan.wire.rest.tokens import RevokedToken

_NO_DEVICES: Final = "No device yet: `handspan device` makes this computer one, `handspan pair` lets another one in."


@click.group("devices", cls=ListingGroup, invoke_without_command=True)
@json_option
@place_options
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List your devices: label, name, whether it is connected, when last seen, its tools."""
    if ctx.invoked_subcommand is not None:
        return
    found = ask_gateway(lambda requests: requests.get("/api/devices", DeviceList), says=not as_json)
    if as_json:
        print_json(found.devices)
        return
    rows = [
        (
            one.label,
            one.name,
            _state(one),
            "never" if one.last_seen is None else render_time(one.last_seen),
            ", ".join(_own_names(one)),
        )
        for one in found.devices
    ]
    print_rows(("label", "name", "state", "last seen", "tools"), rows, _NO_DEVICES)
    for one in found.devices:
        for line in _about(one):
            click.echo(f"{one.label}: {line}")


def _state(device: DeviceView) -> str:
    state = "connected" if device.connected else "away"
    return f"{state} as {device.connected_as}" if device.connected_as else state


def _own_names(device: DeviceView) -> list[str]:
    """Return the names of its tools without the label: those of a bridged app come with it."""
    return [name.removeprefix(f"{device.connected_as or device.label}{SEPARATOR}") for name in device.tools]


def _about(device: DeviceView) -> list[str]:
    """Return what the device says of itself, and what the gateway does not let it have, a line each."""
    refused = [f"the gateway does not take its tool {one.name!r}: {one.reason}" for one in device.refused]
    refused = [*([device.notice] if device.notice else []), *refused]
    scopes = [f"has {one.name}: {one.description}" if one.description else f"has {one.name}" for one in device.scopes]
    return [*([device.description] if device.description else []), *scopes, *device.notes, *refused]


@command.command("rename")
@click.argument("label", shell_complete=completes("devices"))
@click.argument("new_label")
@json_option
@place_options
def rename(label: str, new_label: str, as_json: bool) -> None:
    """Give the device LABEL another label: its tools have it from its next connection on."""
    path, body = f"/api/devices/{segment(label)}", {"label": new_label}
    renamed = ask_gateway(lambda requests: requests.change("PUT", path, Relabelled, body), says=not as_json)
    text = f"The device {label!r} is called {renamed.label!r}."
    if renamed.connected_as:
        text = (
            f"The device {label!r} is called {renamed.label!r} from its next connection on. Until then its tools keep "
            "their names: start the device again to change them now."
        )
    print_done(renamed, text, as_json=as_json)


@command.command("forget")
@click.argument("label", shell_complete=completes("devices"))
@json_option
@place_options
def forget(label: str, as_json: bool) -> None:
    """Forget the device LABEL and revoke its token: it has to be paired again.

    An admin token stays valid. So does one that lets in other devices: at a terminal, you are asked.
    """
    path = f"/api/devices/{segment(label)}"
    done = ask_gateway(lambda requests: requests.change("DELETE", path, ForgottenDevice), says=not as_json)
    token = "its token is revoked" if done.revoked else f"its token is still valid. {done.still_valid}"
    print_done(done, f"The device {done.label!r} is forgotten, and {token.removesuffix('.')}.", as_json=as_json)
    if done.serves and done.token_id and not as_json and sys.stdin.isatty():
        click.confirm(f"Revoke it, and end {', '.join(done.serves)}, too?", abort=True, err=True)
        token_path = f"/api/tokens/{segment(done.token_id)}"
        ask_gateway(lambda requests: requests.change("DELETE", token_path, RevokedToken))
        click.echo("The token is revoked.")
