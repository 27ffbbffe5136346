"""The parts of uvicorn that serve requests, without its command line (a speed trick for the start)."""

import importlib.util
import sys
from typing import Any

from handspan.core.fast import IS_FAST


def put_off(name: str) -> None:
    """Run a module when its first name is read, not when it is imported. A module that ran already stays as it is.

    Unlike with `importlib.util.LazyLoader`, the modules of such a package can be imported meanwhile.
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
    put_off("uvicorn")  # the package itself only collects names, and starts and reloads processes

from uvicorn.config import Config  # noqa: E402 - only now, see above
from uvicorn.protocols.http.flow_control import FlowControl  # noqa: E402 - as above
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle  # noqa: E402 - as above
from uvicorn.server import Server  # noqa: E402 - as above

if IS_FAST:
    vars(sys.modules["uvicorn"])["Config"] = Config  # its modules read this name: the package need not run for that

__all__ = ["Config", "FlowControl", "HttpToolsProtocol", "RequestResponseCycle", "Server", "put_off"]
