"""uvicorn's connections, without the modules that they need for annotations alone (a speed trick for the start)."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from handspan.core.fast import IS_FAST

_IN_ANNOTATIONS: Final = {
    "uvicorn._types": (
        *("ASGI3Application", "ASGIReceiveCallable", "ASGIReceiveEvent", "ASGISendCallable", "ASGISendEvent"),
        *("HTTPRequestEvent", "HTTPScope", "Scope", "WebSocketScope", "WWWScope"),
    ),
    "uvicorn.config": ("Config",),
    "uvicorn.server": ("ServerState",),
}
"""Modules of uvicorn, and the names in them that its connections use in annotations alone."""


_waiting: Final[dict[str, ModuleType]] = {}
"""The modules that were put off and did not run."""


def put_off(name: str) -> None:
    """Run a module when its first name is read, not when it is imported. A module that ran already stays as it is.

    Unlike with `importlib.util.LazyLoader`, the modules inside a package that was put off can be imported meanwhile.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, importlib.util.module_from_spec(spec)

    def run(wanted: str) -> Any:
        if wanted == "__path__":  # every `from … import` asks for `__path__`; a package has it without being run
            raise AttributeError(wanted)
        del vars(module)["__getattr__"], _waiting[name]
        loader.exec_module(module)
        return getattr(module, wanted)

    vars(module)["__getattr__"] = run
    sys.modules[name] = _waiting[name] = module
    package, _, within = name.rpartition(".")
    if package:
        setattr(sys.modules[package], within, module)


@contextlib.contextmanager
def annotations_left_out() -> Iterator[None]:
    """Open a block in which uvicorn's connections are imported without the modules of `_IN_ANNOTATIONS`.

    A module of which they need more than annotations does run.
    """
    if not IS_FAST:
        yield
        return
    for name, stand_ins in _IN_ANNOTATIONS.items():
        put_off(name)
        if name in _waiting:
            vars(_waiting[name]).update(dict.fromkeys(stand_ins, Any))
    try:
        yield
    finally:
        for name, stand_ins in _IN_ANNOTATIONS.items():
            if name in _waiting:
                for stand_in in stand_ins:
                    del vars(_waiting[name])[stand_in]


if IS_FAST:
    put_off("uvicorn")  # the package itself only collects names, and starts and reloads processes

with annotations_left_out():
    from uvicorn.protocols.http.flow_control import FlowControl
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["FlowControl", "HttpToolsProtocol", "RequestResponseCycle", "annotations_left_out", "put_off"]
