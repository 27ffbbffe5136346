"""Heavy libraries that load with their first use: a start pays only for what it needs.

A module imports one from here at its top, and uses it as ever: `from handspan.core.late_imports import httpx2`. Our own
modules that load late are in the tables of `cli/late.py`, `tools/late.py`, `cli/main.py`, `gateway/gateway.py` and
`handspan/__init__.py`.
"""

import importlib
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

LATE_IMPORTS: Final = threading.RLock()
"""Held while the MCP SDK is imported, by each of the modules that use it.

Two threads that import two modules of one library at the same time can fail: each holds the lock of a module that the
other one needs, and Python lets one of them fail, or gives it a module that is not complete.
"""


class LateModule:
    """A module that is imported when its first name is read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name)
        return getattr(self._module, name)


if TYPE_CHECKING:  # `as` lets other modules import the name from here
    import ctypes as ctypes
    import difflib as difflib
    import html as html
    import http.client
    import tomllib as tomllib
    import zoneinfo as zoneinfo
    from importlib import metadata as metadata

    import charset_normalizer as charset_normalizer
    import cronsim as cronsim
    import docstring_parser as docstring_parser
    import httpcore2 as httpcore2
    import httpx2 as httpx2
    import idna as idna
    import jsonschema_rs as jsonschema_rs
    import pydantic as pydantic
    import re2 as re2
    import segno as segno
    import yaml as yaml

    http_client = http.client
else:  # beside each: the CPU time that it would add to a gateway's start (300 ms)
    charset_normalizer = LateModule("charset_normalizer")  # 31 ms: only for pages without a charset that are not UTF-8
    cronsim = LateModule("cronsim")  # 2 ms: only for schedules by the calendar
    ctypes = LateModule("ctypes")  # 4 ms
    difflib = LateModule("difflib")  # 3 ms: only errors need it
    docstring_parser = LateModule("docstring_parser")  # 7 ms: with the first function that becomes a tool
    html = LateModule("html")  # 1 ms: its table of names, for the first search of the web
    http_client = LateModule("http.client")  # 7 ms: with the first request of the SDK
    httpcore2 = LateModule("httpcore2")  # 100 ms: with the first request that goes out
    httpx2 = LateModule("httpx2")  # 46 ms, and httpcore2
    idna = LateModule("idna")  # 4 ms: hosts outside ASCII are rare
    jsonschema_rs = LateModule("jsonschema_rs")  # 5 ms: a chat without calls does not need it
    metadata = LateModule("importlib.metadata")  # 14 ms: only where a package may have entry points of ours
    pydantic = LateModule("pydantic")  # 24 ms: with the first function that becomes a tool
    re2 = LateModule("re2")  # 7 ms: for the first search by an expression
    segno = LateModule("segno")  # 47 ms: only for a person who pairs a device
    tomllib = LateModule("tomllib")  # 5 ms: only for a settings file
    yaml = LateModule("yaml")  # 49 ms: no file of ours needs it
    zoneinfo = LateModule("zoneinfo")  # 5 ms: only for questions about a time zone
