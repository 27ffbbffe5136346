"""The vendors' APIs: their addresses, their usual environment variables and their default models."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.messages import Api
from handspan.models.model import NoModel

Environ: TypeAlias = Mapping[str, str]


class Vendor(Struct, frozen=True):
    """A vendor's API."""

    api: Api
    base_url: str
    base_variables: tuple[str, ...]
    key_variables: tuple[str, ...]
    model: str
    """The model to use when no model is named."""
    model_variable: str


ANTHROPIC: Final = Vendor(
    "anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_BASE_URL",),
    ("ANTHROPIC_API_KEY",),
    model="claude-sonnet-5",
    model_variable="ANTHROPIC_MODEL",
)
OPENAI: Final = Vendor(
    "openai-responses",
    "https://api.openai.com/v1",
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ("OPENAI_API_KEY",),
    model="gpt-5.5",
    model_variable="OPENAI_MODEL",
)
OPENAI_CHAT: Final = replace(OPENAI, api="openai-chat")
GEMINI: Final = Vendor(
    "gemini",
    "https://generativelanguage.googleapis.com",
    ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    model="gemini-flash-latest",
    model_variable="GEMINI_MODEL",
)

VENDORS: Final = (ANTHROPIC, OPENAI, GEMINI)
"""In the order in which `choose` looks for their keys."""


def vendor_at_address(vendor: Vendor, environ: Environ) -> Vendor:
    """Return the vendor's API at the address in the environment: at other servers, OpenAI's is Chat Completions."""
    return OPENAI_CHAT if vendor == OPENAI and first_set(vendor.base_variables, environ) else vendor


def key_of(vendor: Vendor, environ: Environ, setting: str) -> str:
    """Return the vendor's key from the environment. Raises `NoModel`, which names the `setting`, when there is none."""
    variable = first_set(vendor.key_variables, environ)
    if not variable:
        names = " or ".join(vendor.key_variables)
        raise NoModel("auth", f"{setting}: there is no key for {vendor.api}. Set {names}, or a key in the settings.")
    return environ[variable].strip()


def base_url_of(vendor: Vendor, environ: Environ) -> str:
    """Return the API's base URL: that of the environment, else the public one."""
    variable = first_set(vendor.base_variables, environ)
    return environ[variable].strip() if variable else vendor.base_url


def first_set(names: tuple[str, ...], environ: Environ) -> str:
    """Return the first of these variables that has a value; empty when none has."""
    return next((name for name in names if environ.get(name, "").strip()), "")
