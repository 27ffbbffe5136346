"""THE BRIDGE: tools of other apps (CETP, `protocol/cetp.md`) for a gateway's agents.

Holds:   `bridge.py` (`Bridge`: finds apps and keeps a connection for each) and `bridged_app.py` (one app: its tools,
         its calls); read these first. `transport.py` is how apps are found and reached, `desktop.py` implements it
         with manifests and Unix sockets, `android.py` with phones behind adb (`android_device.py` is one of them,
         `adb.py` the program), `in_process.py` with providers of the same process. `memory.py` is what a bridge must
         not forget. `wire/android_bundle.py` and `wire/android_manifest.py` read what adb prints.
         A call: `execute_tool` with the call's id. AUTH_REQUIRED keeps it open until the person has logged in
         (`sources/ws/logins.py`); the first start of a program is a question (`gateway/clients/trust.py`).
Imports: client, provider, wire, core. A bridge runs without the packages of a gateway: `python -m handspan.bridge`.
To add:  a way to reach apps: a class that implements `Transport`, given to `Bridge.add`.
"""

from handspan.bridge.android import AndroidTransport
from handspan.bridge.bridge import Bridge
from handspan.bridge.desktop import DesktopTransport
from handspan.bridge.in_process import InProcessTransport
from handspan.bridge.memory import BridgeMemory

__all__ = ["AndroidTransport", "Bridge", "BridgeMemory", "DesktopTransport", "InProcessTransport"]
