"""`make quick` stays inside its own process: it starts no other one, and loads no SDK of a vendor.

A test that does is marked `outside`, and runs in `make test`. One that lacks the mark fails here, with the reason.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

_STARTS: Final = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
_SLOW: Final = ("anthropic", "boto3", "google.genai", "mcp", "moto", "openai", "schemathesis")
"""Packages that take longer to load than most test modules take to run."""


class Outside(RuntimeError):
    """A test of `make quick` is about to leave its process."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: mark this test `outside`, so that `make test` runs it and `make quick` does not")


class _SlowPackages(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Refuse the packages that are slow to load; look for no other."""
        if name in _SLOW:
            raise Outside(f"{name} is loaded")


def stay_inside() -> None:
    """Refuse both from now on, to whatever runs in this process."""
    loaded = [name for name in _SLOW if name in sys.modules]
    assert not loaded, f"Test modules of `make quick` load {', '.join(loaded)}: load them in tests marked `outside`."
    sys.meta_path.insert(0, _SlowPackages())
    sys.addaudithook(_refuse_starts)


def _refuse_starts(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS:
        raise Outside(f"A process is started ({event})")
