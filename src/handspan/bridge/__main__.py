"""`python -m handspan.bridge`: the bridge alone, for a computer without the commands of the whole package."""

import argparse
import asyncio
import logging
import os
import signal
from pathlib import Path

from handspan.bridge import AndroidTransport, Bridge, BridgeMemory, DesktopTransport
from handspan.bridge.memory import AppSwitches


async def _main(url: str, token: str, state: Path, trusts_all: bool, android: bool) -> None:
    memory, switches = BridgeMemory(state), AppSwitches(state.with_suffix(".disabled"))
    bridge = Bridge(url, token, memory=memory, switches=switches, trusts_all=trusts_all)
    bridge.add(DesktopTransport(os.environ, bridge.may_start))
    if android:
        bridge.add(AndroidTransport(os.environ))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, bridge.close)
    await bridge.run()


def _options() -> argparse.Namespace:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "handspan" / "bridge.json"
    parser = argparse.ArgumentParser(
        "python -m handspan.bridge", description="Offer the tools of other apps to agents."
    )
    parser.add_argument("--url", default=os.environ.get("HANDSPAN_URL"), help="the gateway's address (HANDSPAN_URL)")
    parser.add_argument("--token", default=os.environ.get("HANDSPAN_TOKEN", ""), help="its token (HANDSPAN_TOKEN)")
    parser.add_argument("--state", type=Path, default=state, help="a file for what the bridge must not forget")
    parser.add_argument("--yes", action="store_true", help="start apps without asking")
    parser.add_argument("--android", action="store_true", help="bridge apps on phones, too, through adb")
    options = parser.parse_args()
    if not options.url:
        parser.error("name the gateway with --url or HANDSPAN_URL")
    return options


if __name__ == "__main__":
    given = _options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    asyncio.run(_main(given.url, given.token, given.state, given.yes, given.android))
