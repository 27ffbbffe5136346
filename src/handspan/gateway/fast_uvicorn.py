"""The parts of uvicorn that serve, without its command line, which we never use (a speed trick for the start)."""

import importlib.util
import sys
from typing import Any

from handspan.core.fast import IS_FAST


def put_off(name: str) -> None:
    """Let a module run when something in it is first wanted, not when it is imported. One that ran already stays.

    Like `importlib.util.LazyLoader`; but a package that waits like this lets its modules be imported meanwhile.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, importlib.util.module_from_spec(spec)

    def run(wanted: str) -> Any:
        del vars(module)["__getattr__"]
        loader.exec_module(module)
        return getattr(module, wanted)

    vars(module)["__getattr__"] = run
    sys.modules[name] = module
    package, _, within = name.rpartition(".")
    if package:
        setattr(sys.modules[package], within, module)


if IS_FAST:
    put_off("logging.config")  # our logging is not configured by dictionaries
    put_off("uvicorn")  # the package itself only gathers names, and starts and reloads processes

from uvicorn.config import Config  # noqa: E402 - only now, see above
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle  # noqa: E402 - as above
from uvicorn.server import Server  # noqa: E402 - as above

if IS_FAST:
    vars(sys.modules["uvicorn"])["Config"] = Config  # its modules take this one from there: it need not run for that

__all__ = ["Config", "HttpToolsProtocol", "RequestResponseCycle", "Server", "put_off"]
