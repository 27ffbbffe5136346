"""`handspan device`: this computer's own tools, for every conversation of its owner (SPEC W10, P2)."""

import asyncio
import hashlib
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

import click
from msgspec import Struct, structs

from handspan.cli.device.consent import DeviceConsent, DeviceFile
from handspan.cli.device.log import DeviceCall, DeviceConnected, DeviceDecision, DeviceLog, DeviceWaits
from handspan.cli.device.phone import PHONE_PERMISSIONS, phone_tools
from handspan.cli.device.tools import PERMISSIONS, DeviceTool, device_tools
from handspan.cli.door import gateway_options, given_certificate, given_url, named_gateway, remote_at, running_gateway
from handspan.cli.options import read_place
from handspan.cli.remote import Remote
from handspan.cli.terminal_questions import TerminalQuestions
from handspan.cli.trust import named_tls
from handspan.client import PermissionQuestion
from handspan.client.address import Address
from handspan.client.builder import Callbacks
from handspan.client.client import Client
from handspan.client.connection import State
from handspan.client.context import CallContext
from handspan.client.errors import GatewayRefused, StateFileInUse
from handspan.client.functions import Code
from handspan.client.pairing import read_link
from handspan.client.ws import Backoff, usual_backoff
from handspan.config.settings import Settings
from handspan.core.errors import ConfigError, ToolError
from handspan.core.names import SEPARATOR
from handspan.core.values import Arguments
from handspan.gateway.clients.device_labels import clean_label
from handspan.wire.ws import ServerFrame
from handspan.wire.ws_frames import Decision, ToolsRegistered, ToolsWithdrawn

_PERMISSIONS: Final = (*PERMISSIONS, *PHONE_PERMISSIONS)
_LINK: Final = "handspan.client.ws"
"""The logger that says why there is no link."""
_CLIENT: Final = "handspan.client.client"
"""The logger of what `DeviceLog` shows: without anything that takes its lines, Python would print them, too."""
_UNAUTHORIZED: Final = 401


@click.command("device")
@click.option("--label", help="What its tools' names begin with; default: the name of this computer.")
@click.option("--pair", metavar="CODE|LINK", help="Pair by the code of the gateway at --url, or by a link of `pair`.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(_PERMISSIONS),
    help="Grant this permission without asking. May be given several times.",
)
@click.option("--yes", is_flag=True, help="Grant every permission without asking.")
@click.option("--json", "as_json", is_flag=True, help="One object a line, as JSON.")
@gateway_options
def command(label: str | None, pair: str | None, allow: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Make this computer a device: agents of the gateway can use its tools, when you say yes.

    The gateway is the one that serves the state folder, or the one at --url.
    """
    log = DeviceLog(sys.stdout, as_json=as_json)
    settings = read_place()
    own_label = clean_label(label or "", os.uname().nodename)
    remote, file, name = join_gateway(settings, f"device-{own_label}", own_label, pair)
    if pair is not None:
        named = f" --label {shlex.quote(label)}" if label else ""
        log.note(f"Paired. From now on this is enough: handspan device --url {shlex.quote(remote.url)}{named}")
    is_at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    questions = TerminalQuestions(sys.stdin, sys.stderr, grants_once=True) if is_at_terminal else None
    consent = DeviceConsent(file, _PERMISSIONS if yes else allow, questions)
    # Without a terminal no person sees what agents write: for them it would count as delivered (ws.md 3.9).
    device = Device(remote, own_label, consent, log, shows_messages=sys.stdout.isatty())
    sys.exit(asyncio.run(device.run(settings, name)))


def join_gateway(settings: Settings, name: str, label: str, pair: str | None) -> tuple[Remote, DeviceFile, str]:
    """Return the gateway of --pair, --url or the state folder, the file of choices, and the name of its files."""
    url, code = (given_url(), "") if pair is None else _read_code(pair)
    name = name_files(name, url)
    file = DeviceFile(settings.state / f"{name}.choices.json")
    return _pair(settings, file, url, code, label=label) if code else _find_gateway(settings, file), file, name


def name_files(name: str, url: str) -> str:
    """Return the name of the files: one set for the gateway of the state folder, one for each other gateway."""
    return name + (f"-{hashlib.sha256(url.encode()).hexdigest()[:8]}" if url else "")


def _find_gateway(settings: Settings, file: DeviceFile) -> Remote:
    """Return the gateway of --url or, without it, of the state folder. Raises `ConfigError` when there is none."""
    choices = file.read()
    remote = named_gateway(choices.token, choices.certificate) or running_gateway(settings)
    if remote is None:
        raise ConfigError(
            f"No gateway serves the state folder {str(settings.state)!r}: start one with `handspan serve`, or name one "
            "with --url (after it was paired that is enough), --url and --token, or --url and --pair."
        )
    return remote


def _pair(settings: Settings, file: DeviceFile, url: str, code: str, label: str) -> Remote:
    """Exchange the code for a token, and store the token for the next time, with the certificate of --ca."""
    choices = file.read()
    certificate = given_certificate() or choices.certificate
    tls = named_tls(settings, url, certificate)
    remote = remote_at(url, "", tls)
    paired = remote.change("POST", "/pair", _Paired, {"code": code, "label": label})
    remote.close()
    file.write(structs.replace(choices, token=paired.token, certificate=certificate))
    return remote_at(url, paired.token, tls)


def explain_refusal(remote: Remote, refused: GatewayRefused) -> GatewayRefused:
    """Return the refusal with what a person at this command can do about it."""
    if refused.status != _UNAUTHORIZED:
        return refused
    pair = "" if remote.state else " To pair anew: `handspan pair` beside the gateway shows a link for --pair."
    return GatewayRefused(refused.status, f"{remote.explain_refused_token()}{pair}")


def _read_code(given: str) -> tuple[str, str]:
    """Return the address and the code: of a link, or of --url and --pair."""
    if "://" in given:
        try:
            return read_link(given)
        except ValueError as problem:
            raise click.UsageError(f"--pair: {problem}.") from None
    if not given_url():
        raise click.UsageError("--pair needs --url, or a link in place of the code: the gateway shows both.")
    return given_url(), given


class _Paired(Struct, frozen=True):
    token: str


class Device:
    """This computer at the gateway, from the first connection to Ctrl-C."""

    def __init__(
        self, remote: Remote, label: str, consent: DeviceConsent, log: DeviceLog, *, shows_messages: bool
    ) -> None:
        """`shows_messages`: whether messages of agents to the person are shown."""
        self._shows_messages = shows_messages
        self._remote = remote
        self._label = label
        self._consent = consent
        self._log = log
        phone = phone_tools(os.environ)
        self._tools = [*device_tools(os.environ, lambda text: log.note(text, bell=True)), *phone.tools]
        self._missing = phone.missing
        """Why tools are missing; empty after this was logged."""
        self._why = _Why()
        self._logged_why: str | None = None
        self._is_ending = False

    async def run(self, settings: Settings, name: str) -> int:
        """Stay connected until a signal ends this, and return the exit code."""
        client = Client(
            self._remote.url,
            self._remote.token,
            label=self._label,
            state=settings.state / f"{name}.json",
            ask_permission=self._ask,
            on_state=self._on_state,
            backoff=_Backoff(tell=self._log_wait, longest=usual_backoff(Address(self._remote.url)).longest),
            callbacks=_RegistrationListener(lambda: self._log_connected(client), self._log_withdrawn),
            tls=self._remote.tls,
            locate=self._remote.locate,
            on_channel_message=self._log.log if self._shows_messages else None,
        )
        for tool in self._tools:
            client.register(tool.spec, self._log_calls(tool))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._end, client)
        logging.getLogger(_CLIENT).addHandler(logging.NullHandler())
        logging.getLogger(_LINK).addHandler(self._why)
        logging.getLogger(_LINK).setLevel(logging.INFO)
        try:
            await client.run()
        except StateFileInUse:
            raise ConfigError(
                f"A `handspan device` with the label {self._label!r} runs on this computer already: use that one, or "
                "make this one another device with --label."
            ) from None
        except GatewayRefused as refused:
            raise explain_refusal(self._remote, refused) from None
        finally:
            logging.getLogger(_LINK).removeHandler(self._why)
        self._log.note("Ended." if self._is_ending else "The gateway has ended the connection for good.")
        return 0 if self._is_ending else 1

    def _end(self, client: Client) -> None:
        self._is_ending = True
        client.close()

    # The link.

    def _on_state(self, state: State) -> None:
        if state == "connected":
            self._why.text, self._logged_why = "", None

    def _log_connected(self, client: Client) -> None:
        """Log under which names the gateway has the tools, which it refused, and what is not offered."""
        rejected = client.rejected
        names = [tool.spec.name for tool in self._tools if tool.spec.name not in rejected]
        tools = [f"{client.label}{SEPARATOR}{name}" for name in names]
        self._log.log(DeviceConnected(self._remote.url, client.label, tools, dict(rejected)))
        if client.notice:
            self._log.note(client.notice)
        missing, self._missing = self._missing, []
        for why in missing:  # once, not after every drop of the link
            self._log.note(why)

    def _log_withdrawn(self, frame: ToolsWithdrawn) -> None:
        for tool in frame.tools:
            self._log.note(f"The gateway has taken {tool.name!r} away: {tool.reason}")

    def _log_wait(self, seconds: float) -> None:
        if self._why.text != self._logged_why:  # once, not before every attempt
            self._logged_why = self._why.text
            self._log.log(DeviceWaits(self._remote.url, round(seconds, 3), self._why.text))

    # Calls.

    async def _ask(self, question: PermissionQuestion) -> tuple[Decision, str]:
        with self._log.hold_back():  # a line would break into the prompt
            decision, where = await self._consent.ask(question)
        words = {"allow": "allowed", "deny": "denied"}.get(decision, "denied for good")
        self._log.log(DeviceDecision(question.tool, question.permission, words, where))
        return decision, where

    def _log_calls(self, tool: DeviceTool) -> Code:
        """Return the tool's code, with a line for every call."""

        def run(arguments: Arguments, ctx: CallContext) -> object:
            """Run the tool's code, and log the call with its outcome."""
            began, outcome = time.monotonic(), "ok"
            try:
                return tool.code(arguments, ctx)
            except ToolError as error:
                outcome = f"{error.code} ({error.message})"
                raise
            except Exception as error:  # only for the log line: the client answers the call
                outcome = f"failed ({error})"
                raise
            finally:
                outcome = "cancelled" if ctx.cancelled.is_set() else outcome
                seconds = round(time.monotonic() - began, 6)
                self._log.log(DeviceCall(tool.spec.name, dict(arguments), outcome, seconds))

        return run


class _Backoff(Backoff, frozen=True, kw_only=True):
    """The usual backoff, which calls `tell` with the seconds that it waits."""

    tell: Callable[[float], None]

    def delay(self, attempt: int, chance: float) -> float:
        seconds = super().delay(attempt, chance)
        self.tell(seconds)
        return seconds


class _RegistrationListener(Callbacks):
    """Calls `registered` when the gateway has taken the tools, `withdrawn` when it has taken some away."""

    def __init__(self, registered: Callable[[], None], withdrawn: Callable[[ToolsWithdrawn], None]) -> None:
        super().__init__()
        self._registered = registered
        self._withdrawn = withdrawn

    async def receive(self, frame: ServerFrame) -> None:
        if isinstance(frame, ToolsRegistered):
            self._registered()
        elif isinstance(frame, ToolsWithdrawn):
            self._withdrawn(frame)
        await super().receive(frame)


class _Why(logging.Handler):
    """Keeps the last reason why there was no link."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage().partition(": ")[2]
