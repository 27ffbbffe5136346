"""The declaration of tools is found in a binary manifest, in all the forms that Android's compilers write."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handspan.core.errors import WireError
from handspan.wire.android_manifest import ToolDeclaration, read_declaration
from tests.bridge.phone import PhoneApp, binary_manifest

AUTHORITY, VERSION = "com.clawseed.tools.authority", "com.clawseed.tools.version"


def manifest(metadata: dict[str, Any], **form: bool) -> bytes:
    return binary_manifest(PhoneApp("com.example.app", lambda method, extras: None, metadata), **form)


@pytest.mark.parametrize("is_utf8", [True, False])
@pytest.mark.parametrize("has_names", [True, False])
def test_the_meta_data_of_the_service_are_read(is_utf8: bool, has_names: bool) -> None:
    data = manifest({AUTHORITY: "com.example.app.tools", VERSION: 1}, is_utf8=is_utf8, has_names=has_names)
    assert read_declaration(data) == ToolDeclaration("com.example.app.tools", "1")


@pytest.mark.parametrize(
    ("metadata", "declared"),
    [
        ({AUTHORITY: "a.b"}, ToolDeclaration("a.b", "1")),
        ({AUTHORITY: "a.b", VERSION: "2"}, ToolDeclaration("a.b", "2")),
        ({AUTHORITY: None, VERSION: 1}, ToolDeclaration("", "1")),
        ({}, ToolDeclaration("", "1")),
        ({AUTHORITY: "x" * 300}, ToolDeclaration("x" * 300, "1")),
    ],
)
def test_what_is_missing_or_a_resource_is_empty(metadata: dict[str, Any], declared: ToolDeclaration) -> None:
    assert read_declaration(manifest(metadata)) == declared


@given(st.binary(max_size=80), st.integers(0, 900), st.integers(0, 255))
def test_damaged_bytes_are_refused_or_read_but_raise_nothing_else(data: bytes, at: int, byte: int) -> None:
    whole = bytearray(manifest({AUTHORITY: "a.b", VERSION: 1}))
    whole[at % len(whole)] = byte
    for damaged in (data, bytes(whole), bytes(whole[:at])):
        with contextlib.suppress(WireError):
            read_declaration(damaged)


def test_a_text_is_no_manifest() -> None:
    with pytest.raises(WireError, match="no manifest of Android"):
        read_declaration(b"unzip: not found")
