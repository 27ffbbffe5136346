"""`handspan devices`: list your devices, rename and forget them (SPEC W10, U2)."""

import sys
from typing import Final

import click

from handspan.cli.door import RequestGroup, change, fetch
from handspan.cli.options import completes, is_json
from handspan.cli.render import print_as_json, print_done, print_rows, render_time
from handspan.cli.requests import segment
from handspan.core.names import SEPARATOR
from handspan.wire.rest.devices import DeviceList, DeviceView, ForgottenDevice, Relabelled
from handspan.wire.rest.tokens import RevokedToken

_NO_DEVICES: Final = "No device yet: `handspan device` makes this computer one, `handspan pair` lets another one in."


@click.group("devices", cls=RequestGroup)
def command() -> None:
    """List your devices: label, name, whether it is connected, when last seen, its tools."""
    found = fetch("/api/devices", DeviceList)
    if print_as_json(found.devices):
        return
    print_rows(("label", "name", "state", "last seen", "tools"), [_cells(one) for one in found.devices], _NO_DEVICES)
    for one in found.devices:
        for line in _about(one):
            click.echo(f"{one.label}: {line}")


def _cells(device: DeviceView) -> tuple[str, ...]:
    state = "connected" if device.connected else "away"
    state += f" as {device.connected_as}" if device.connected_as else ""
    seen = "never" if device.last_seen is None else render_time(device.last_seen)
    label = f"{device.connected_as or device.label}{SEPARATOR}"  # tools of a bridged app come with it
    return device.label, device.name, state, seen, ", ".join(name.removeprefix(label) for name in device.tools)


def _about(device: DeviceView) -> list[str]:
    """Return what the device says of itself, and what the gateway does not let it have, a line each."""
    refused = [f"the gateway does not take its tool {one.name!r}: {one.reason}" for one in device.refused]
    scopes = [f"has {one.name}: {one.description}" if one.description else f"has {one.name}" for one in device.scopes]
    return [line for line in (device.description, *scopes, *device.notes, device.notice, *refused) if line]


@command.command("rename")
@click.argument("label", shell_complete=completes("devices"))
@click.argument("new_label")
def rename(label: str, new_label: str) -> None:
    """Give the device LABEL another label: its tools have it from its next connection on."""
    renamed = change("PUT", f"/api/devices/{segment(label)}", Relabelled, {"label": new_label})
    text = f"The device {label!r} is called {renamed.label!r}."
    if renamed.connected_as:
        text = (
            f"The device {label!r} is called {renamed.label!r} from its next connection on. Until then its tools keep "
            "their names: start the device again to change them now."
        )
    print_done(renamed, text)


@command.command("forget")
@click.argument("label", shell_complete=completes("devices"))
def forget(label: str) -> None:
    """Forget the device LABEL and revoke its token: it has to be paired again.

    An admin token stays valid. So does one that lets in other devices: at a terminal, you are asked.
    """
    done = change("DELETE", f"/api/devices/{segment(label)}", ForgottenDevice)
    token = "its token is revoked" if done.revoked else f"its token is still valid. {done.still_valid}"
    print_done(done, f"The device {done.label!r} is forgotten, and {token.removesuffix('.')}.")
    if done.serves and done.token_id and not is_json() and sys.stdin.isatty():
        click.confirm(f"Revoke it, and end {', '.join(done.serves)}, too?", abort=True, err=True)
        change("DELETE", f"/api/tokens/{segment(done.token_id)}", RevokedToken)
        click.echo("The token is revoked.")
