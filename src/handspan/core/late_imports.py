"""The lock under which heavy libraries are imported late.

Two threads that import two modules of one library at the same time can fail: each holds the lock of a module that the
other one needs, and Python lets one of them fail, or gives it a module that is not complete.
"""

import threading
from typing import Final

LATE_IMPORTS: Final = threading.RLock()
"""Held while the MCP SDK is imported, by each of the modules that use it."""
