"""`Bridge`: finds apps, and keeps one device connection to the gateway for each of them (cetp.md 8)."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from handspan.bridge.bridged_app import BridgedApp
from handspan.bridge.memory import AppSwitches, BridgeMemory, start_id
from handspan.bridge.transport import ProviderApp, Transport
from handspan.client import Client, LoginRequest
from handspan.client.address import Locate
from handspan.client.builder import Callbacks
from handspan.client.connection import State
from handspan.client.ws import Backoff, OpenLink
from handspan.core.tasks import Tasks
from handspan.core.values import JsonObject
from handspan.wire.ws import ServerFrame
from handspan.wire.ws_frames import Connected, DeviceNotes, ToolsRegistered, TrustRequest

if TYPE_CHECKING:
    import ssl

_log = logging.getLogger(__name__)
_LABEL: Final = "bridge"
_MAX_CALLS: Final = 64
"""Calls of one app that run at once: one that hangs holds up no other."""
_SWITCH_SECONDS: Final = 1.0
"""The time between two looks at the list of disabled apps."""


class Bridge:
    """The bridge of one person to one gateway.

    bridge = Bridge("http://127.0.0.1:42617", token)
    bridge.add(DesktopTransport(os.environ, bridge.may_start))
    asyncio.run(bridge.run())
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        memory: BridgeMemory | None = None,
        switches: AppSwitches | None = None,
        trusts_all: bool = False,
        backoff: Backoff | None = None,
        tls: "ssl.SSLContext | None" = None,
        locate: Locate | None = None,
        open_link: OpenLink | None = None,
    ) -> None:
        """`trusts_all`: apps are started without a question to the person."""
        self._url = url
        self._memory = memory or BridgeMemory()
        self._switches = switches or AppSwitches()
        self._trusts_all = trusts_all
        self._new_client = functools.partial(
            Client,
            url,
            token,
            prefix=False,
            concurrency=_MAX_CALLS,
            backoff=backoff,
            tls=tls,
            locate=locate,
            open_link=open_link,
        )
        self._transports: list[Transport] = []
        self._apps: dict[str, BridgedApp] = {}
        self._skipped: dict[str, str] = {}
        """Apps that are not bridged, and why."""
        self._disabled: frozenset[str] = frozenset()
        """The apps that were disabled at the last scan."""
        self._asking: dict[tuple[str, ...], asyncio.Task[bool]] = {}
        """Open questions, by the app and the command that the person is asked about."""
        self._tasks = Tasks()
        self._scan_wanted = asyncio.Event()
        self._client = self._new_client(
            label=_LABEL,
            device_name="Bridge to apps",
            on_state=self._on_state,
            callbacks=_FrameListener(self._on_own_frame),
            resume_token=self._memory.resume_token(_LABEL),
        )

    def add(self, transport: Transport) -> None:
        """Look for apps over this transport, too."""
        self._transports.append(transport)

    @property
    def apps(self) -> Mapping[str, BridgedApp]:
        """The apps that are bridged, or will be when they can be reached; by id."""
        return self._apps

    @property
    def skipped_apps(self) -> Mapping[str, str]:
        """The apps that are not bridged, and why; by id."""
        return self._skipped

    async def run(self) -> None:
        """Bridge until `close`. Raises `GatewayRefused` when the gateway does not accept this bridge."""
        for transport in self._transports:
            self._tasks.start(self._watch(transport))
        self._tasks.start(self._watch_switches())
        self._tasks.start(self._scan_when_wanted())
        self._scan_wanted.set()
        try:
            await self._client.run()
        finally:
            await self._tasks.close()
            await asyncio.gather(*(app.close() for app in self._apps.values()))
            self._apps.clear()
            await asyncio.gather(*(transport.close() for transport in self._transports))

    def close(self) -> None:
        """End `run`."""
        self._client.close()

    # Scans.

    async def _watch(self, transport: Transport) -> None:
        async for _ in transport.changes():
            self._scan_wanted.set()

    async def _watch_switches(self) -> None:
        while self._switches.path is not None:
            await asyncio.sleep(_SWITCH_SECONDS)
            # A scan that something else began may have read a switch that is back by now.
            if self._switches.disabled_apps() != self._disabled:
                self._scan_wanted.set()

    async def _scan_when_wanted(self) -> None:
        while True:
            await self._scan_wanted.wait()
            self._scan_wanted.clear()
            try:
                await self._scan()
            except OSError as error:
                _log.warning("The apps can't be looked for: %s", error)

    async def _scan(self) -> None:
        """Bridge the apps that are there now. Those that were there before keep their connections and calls."""
        found: dict[str, tuple[ProviderApp, Transport]] = {}
        for transport in self._transports:
            for app in await transport.apps():
                found.setdefault(app.id, (app, transport))
        self._skip(app for app, _ in found.values())
        usable = {app_id: one for app_id, one in found.items() if app_id not in self._skipped}
        for gone in self._apps.keys() - usable.keys():
            _log.info("%s: it is bridged no more", gone)
            await self._apps.pop(gone).close()
        for app_id, (app, transport) in usable.items():
            if app_id not in self._apps:
                label = self._memory.label(app_id, app.label)
                self._apps[app_id] = BridgedApp(app, label, transport, self._connect_app, on_change=self._describe)
            self._apps[app_id].refresh(app)
        self._describe()

    def _skip(self, apps: Iterable[ProviderApp]) -> None:
        """Note which of these apps are not bridged, and why."""
        before, self._skipped = self._skipped, {}
        self._disabled = disabled = self._switches.disabled_apps()
        for app in apps:
            reason = app.problem or ("it is disabled here" if app.id in disabled else "")
            if reason:
                self._skipped[app.id] = reason
                if before.get(app.id) != reason:
                    _log.info("%s is skipped: %s", app.id, reason)

    def _describe(self) -> None:
        """Show in the list of devices which apps are not bridged, and why."""
        waiting = {app_id: app.state for app_id, app in self._apps.items() if app.state}
        notes = [f"{app_id}: {reason}" for app_id, reason in sorted({**self._skipped, **waiting}.items())]
        count = len(self._apps) - len(waiting)
        self._client.describe(DeviceNotes(f"Bridges {count} app{'' if count == 1 else 's'}.", [], notes))

    # Connections.

    def _connect_app(
        self, app: ProviderApp, label: str, name: str, start_login: Callable[[LoginRequest], Awaitable[None]]
    ) -> Client:
        """Return a new connection of this app to the gateway, as a device, and remember what it is told."""

        def on_frame(frame: ServerFrame) -> None:
            if isinstance(frame, Connected):
                self._memory.keep_resume_token(app.id, frame.resume_token)
                if frame.notice and app.id in self._apps:
                    self._memory.keep_label(app.id, frame.label)
                    self._apps[app.id].rename(frame.label, frame.notice)
            elif isinstance(frame, ToolsRegistered) and app.id in self._apps:
                self._apps[app.id].note_rejected({one.name: one.reason for one in frame.rejected})

        return self._new_client(
            label=label,
            device_name=name,
            start_login=start_login,
            callbacks=_FrameListener(on_frame),
            resume_token=self._memory.resume_token(app.id),
        )

    def _on_own_frame(self, frame: ServerFrame) -> None:
        if isinstance(frame, Connected):
            self._memory.keep_resume_token(_LABEL, frame.resume_token)

    def _on_state(self, state: State) -> None:
        _log.info("The gateway at %s: %s", self._url, state)
        if state == "connected":  # cetp.md 8.5, 8.6
            self._scan_wanted.set()

    # Trust.

    async def may_start(self, app: ProviderApp, argv: Sequence[str]) -> bool:
        """Whether the person lets us start the app with this command. They are asked once, through the gateway."""
        rule = self._memory.start_rule(app.id)
        if self._trusts_all:
            return True
        if rule is not None and rule.argv == list(argv) and rule.decision:
            return rule.decision == "allow"
        asked = (app.id, *argv)
        if asked not in self._asking:
            task = self._asking[asked] = self._tasks.start(self._ask_start(app, list(argv)))
            task.add_done_callback(lambda _: self._asking.pop(asked, None))
        return await asyncio.shield(self._asking[asked])

    async def _ask_start(self, app: ProviderApp, argv: list[str]) -> bool:
        """Ask the person whether the app may be started with this command, and remember the answer."""
        rule = self._memory.start_rule(app.id)
        old = None if rule is None or rule.decision != "allow" else _describe_start(app, rule.argv)
        _log.info(
            "%s: may it be started? Answer on the page; or `handspan questions` shows the question with its id, and "
            "`handspan questions answer ID allow` answers it (or deny)",
            app.id,
        )
        decision = await self._client.ask_trust(
            TrustRequest(
                start_id(app.id, argv, 0 if rule is None else rule.asked),
                f"May the bridge start the app {app.name!r} ({app.id}) when its tools are needed?",
                _describe_start(app, argv),
                old,
            )
        )
        self._memory.keep_start(
            app.id, argv, "allow" if decision == "allow" else "" if decision == "expired" else "deny"
        )
        return decision == "allow"


def _describe_start(app: ProviderApp, argv: Sequence[str]) -> JsonObject:
    """Return what the person looks at before they let an app be started."""
    return {"app": app.id, "starts": list(argv)}


class _FrameListener(Callbacks):
    """Gives every frame to a function."""

    def __init__(self, on_frame: Callable[[ServerFrame], None]) -> None:
        super().__init__()
        self._on_frame = on_frame

    async def receive(self, frame: ServerFrame) -> None:
        self._on_frame(frame)
