"""`handspan bridge`: tools of other apps on this computer, for every conversation of their owner (SPEC D3, U2)."""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final, TextIO

import click
import msgspec

from handspan.bridge import AndroidTransport, Bridge, BridgeMemory, DesktopTransport
from handspan.bridge.memory import AppSwitches
from handspan.cli.device.command import explain_refusal, join_gateway, name_files
from handspan.cli.door import gateway_options, given_url
from handspan.cli.options import CommandGroup, json_option, read_client_settings
from handspan.cli.remote import Remote
from handspan.cli.render import print_done
from handspan.cli.wrapping import wrap_for
from handspan.client.errors import GatewayRefused
from handspan.config.settings import BridgeSettings
from handspan.core.errors import ConfigError
from handspan.core.values import strip_invisible

_ROOMS = ("handspan.bridge", "handspan.client.ws")
"""The loggers whose lines are printed: what the bridge does, and why there is no link."""
_COLUMN: Final = 9
"""Where the text of a line begins."""


@click.group("bridge", cls=CommandGroup, invoke_without_command=True)
@click.option("--pair", metavar="CODE", help="Pair with the gateway at --url; it is remembered.")
@click.option("--yes", is_flag=True, help="Start apps that declare themselves without asking.")
@click.option("--android/--no-android", default=None, help="Bridge apps on phones, too, through adb.")
@click.option("--json", "as_json", is_flag=True, help="One object a line, as JSON.")
@gateway_options
def command(pair: str | None, yes: bool, android: bool | None, as_json: bool) -> None:
    """Offer the tools of other apps on this computer to the gateway's agents, until Ctrl-C.

    Apps declare themselves by a manifest: `handspan provider list` shows what is found. The gateway is the one that
    serves the state folder, or the one at --url. Before an app is started for the first time you are asked, in a chat
    or with `handspan questions answer`. With --android (setting `bridge.android`) apps on the phones that adb knows are
    bridged, too.
    """
    settings = read_client_settings()
    remote, _, name = join_gateway(settings, "bridge", "bridge", pair)
    lines = _Lines(sys.stdout, as_json=as_json)
    phones = settings.bridge if (settings.bridge.android if android is None else android) else None
    sys.exit(asyncio.run(_run(remote, settings.state / f"{name}.json", yes, phones, lines=lines)))


@command.command("disable")
@click.argument("app")
@json_option
@gateway_options
def disable(app: str) -> None:
    """Bridge the app APP no more; its id is as in `handspan provider list`. A bridge that runs follows at once."""
    _switch(app, is_enabled=False)


@command.command("enable")
@click.argument("app")
@json_option
@gateway_options
def enable(app: str) -> None:
    """Bridge the app APP again."""
    _switch(app, is_enabled=True)


def _switch(app: str, *, is_enabled: bool) -> None:
    switches = _switches(read_client_settings().state / f"{name_files('bridge', given_url())}.json")
    try:
        switches.set(app, is_enabled=is_enabled)
    except OSError as error:
        raise ConfigError(f"{str(switches.path)!r} can't be written: {error.strerror}.") from None
    text = f"The app {app!r} is {'bridged again' if is_enabled else 'bridged no more'}."
    print_done({"app": app, "enabled": is_enabled}, text)


def _switches(memory: Path) -> AppSwitches:
    return AppSwitches(memory.with_suffix(".disabled"))


async def _run(remote: Remote, memory: Path, trusts_all: bool, phones: BridgeSettings | None, lines: "_Lines") -> int:
    """Bridge apps until a signal ends this, and return the exit code. `phones` None: apps on phones are left out."""
    bridge = Bridge(
        remote.url,
        remote.token,
        memory=BridgeMemory(memory),
        switches=_switches(memory),
        trusts_all=trusts_all,
        tls=remote.tls,
        locate=remote.locate,
    )
    bridge.add(DesktopTransport(os.environ, bridge.may_start))
    if phones is not None:
        bridge.add(AndroidTransport(os.environ, program=phones.adb, scan_seconds=phones.package_seconds))
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        bridge.close()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    loggers = [logging.getLogger(name) for name in _ROOMS]
    for logger in loggers:
        logger.addHandler(lines)
        logger.setLevel(logging.INFO)
    try:
        await bridge.run()
    except GatewayRefused as refused:
        raise explain_refusal(remote, refused) from None
    finally:
        for logger in loggers:
            logger.removeHandler(lines)
    return 0 if ended else 1


class _Lines(logging.Handler):
    """Prints each log record on a line."""

    def __init__(self, write_to: TextIO, *, as_json: bool) -> None:
        super().__init__(logging.INFO)
        self._write_to = write_to
        self._as_json = as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line of the log, as text or as JSON."""
        text = strip_invisible(record.getMessage())
        if self._as_json:
            line = msgspec.json.encode({"at": record.created, "level": record.levelname.lower(), "text": text}).decode()
        else:
            line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {' '.join(text.split())}"
            line = wrap_for(self._write_to, line, _COLUMN)
        self._write_to.write(f"{line}\n")
        self._write_to.flush()
