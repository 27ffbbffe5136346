"""`python -m handspan.bridge`: the bridge alone, for a computer without the commands of the whole package."""

import argparse
import asyncio
import logging
import os
import signal
from pathlib import Path

from handspan.bridge import AndroidTransport, Bridge, BridgeMemory, DesktopTransport
from handspan.bridge.memory import AppSwitches


async def _main(given: argparse.Namespace) -> None:
    """Bridge the apps of this computer, and of phones if wanted, until a signal stops it."""
    memory, switches = BridgeMemory(given.state), AppSwitches(given.state.with_suffix(".disabled"))
    bridge = Bridge(given.url, given.token, memory=memory, switches=switches, trusts_all=given.yes)
    bridge.add(DesktopTransport(os.environ, bridge.may_start))
    if given.android:
        bridge.add(AndroidTransport(os.environ))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, bridge.close)
    await bridge.run()


def _options() -> argparse.Namespace:
    """Return the options of the command line. Ends the program with a usage text when one is missing."""
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
    options = _options()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    asyncio.run(_main(options))
