"""`handspan doctor`: does everything work here, and what to do where it does not."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

import click

from handspan.cli.doctor_gateway import gateway_findings
from handspan.cli.door import ask_gateway, given_token, given_url, is_embedded, place_options
from handspan.cli.options import config_folder, json_option, read_loaded_settings
from handspan.cli.render import print_json
from handspan.cli.requests import RemoteRefused, Requests
from handspan.cli.wrapping import wrap_for
from handspan.config.settings import Settings
from handspan.core.errors import HandspanError
from handspan.core.version import VERSION
from handspan.wire.rest.status import Diagnosis, Finding

_COLUMN: Final = 6
"""Where the words begin, after the mark."""
_LIBRARIES: Final = ("msgspec", "jsonschema-rs", "httpx2", "pydantic", "click")
_NEEDED: Final = ("gateway", "gateway token")
"""The checks that must pass before a running gateway is asked for its own findings."""


@click.command("doctor")
@json_option
@place_options
def command(as_json: bool) -> None:
    """See whether everything works here, and what to do where it does not. Exit code 1: something does not.

    A gateway that runs is looked at from outside, and asked how it does; else one inside this process is asked.
    """
    findings = list(_findings())
    if as_json:
        print_json(findings)
    else:
        for finding in findings:
            click.echo(wrap_for(sys.stdout, f"{_mark(finding)}  {finding.what}: {finding.found}", _COLUMN))
            if finding.remedy:
                click.echo(wrap_for(sys.stdout, f"{' ' * _COLUMN}do this: {finding.remedy}", _COLUMN))
    sys.exit(0 if all(finding.ok for finding in findings) else 1)


def _mark(finding: Finding) -> str:
    """Return the mark of a finding: `note` when the check passed but something is to be done."""
    if not finding.ok:
        return "FAIL"
    return "note" if finding.remedy else "ok  "


def _findings() -> Iterator[Finding]:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield Finding("versions", True, f"handspan {VERSION}, Python {platform.python_version()}, {libraries}")
    try:
        loaded = read_loaded_settings()
        file = loaded.file or "no settings file, so all defaults"
        yield Finding("configuration", True, f"{file}; folder {config_folder()}")
    except HandspanError as error:
        yield Finding("configuration", False, str(error), "correct the settings")
        return
    try:
        yield from _check_gateway(loaded.settings)
    except HandspanError as error:
        yield Finding("start", False, str(error), "this first: until then no gateway can start here")


def _check_gateway(settings: Settings) -> Iterator[Finding]:
    """Yield what the gateway says of itself, then what is seen of it from outside."""
    outside = [] if is_embedded() else list(gateway_findings(settings, given_url() or None, given_token() or None))
    if all(finding.ok for finding in outside if finding.what in _NEEDED):
        try:
            yield from ask_gateway(_ask_doctor, says=False).findings
        except RemoteRefused as refused:
            yield Finding("gateway doctor", False, str(refused), "give the operator's token with --token")
    yield from outside


async def _ask_doctor(requests: Requests) -> Diagnosis:
    return await requests.get("/api/doctor", Diagnosis)
