"""The vendors' APIs: where they are, and the variables that everybody uses for them."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from handspan.core.messages import Api
from handspan.models.model import NoModel

Environ: TypeAlias = Mapping[str, str]


class Vendor(Struct, frozen=True):
    """An API by its vendor's own rules."""

    api: Api
    base_url: str
    base_variables: tuple[str, ...]
    key_variables: tuple[str, ...]
    model: str
    """What is asked where nobody has named a model."""
    model_variable: str


ANTHROPIC: Final = Vendor(
    "anthropic",
    "https://api.anthropic.com",
    ("ANTHROPIC_BASE_URL",),
    ("ANTHROPIC_API_KEY",),
    "claude-sonnet-5",
    "ANTHROPIC_MODEL",
)
OPENAI: Final = Vendor(
    "openai-responses",
    "https://api.openai.com/v1",
    ("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ("OPENAI_API_KEY",),
    "gpt-5.5",
    "OPENAI_MODEL",
)
OPENAI_CHAT: Final = replace(OPENAI, api="openai-chat")
GEMINI: Final = Vendor(
    "gemini",
    "https://generativelanguage.googleapis.com",
    ("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
    ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "gemini-flash-latest",
    "GEMINI_MODEL",
)

VENDORS: Final = (ANTHROPIC, OPENAI, GEMINI)
"""In the order in which their keys are looked for."""


def vendor_at_address(vendor: Vendor, environ: Environ) -> Vendor:
    """The vendor's API as it most likely is where the environment says: elsewhere OpenAI's is Chat Completions."""
    return OPENAI_CHAT if vendor == OPENAI and first_set(vendor.base_variables, environ) else vendor


def key_of(vendor: Vendor, environ: Environ, setting: str) -> str:
    """The vendor's key out of the environment; `NoModel` when there is none. `setting` is for the error."""
    variable = first_set(vendor.key_variables, environ)
    if not variable:
        names = " or ".join(vendor.key_variables)
        raise NoModel("auth", f"{setting}: there is no key for {vendor.api}. Set {names}, or a key in the settings.")
    return environ[variable].strip()


def base_url_of(vendor: Vendor, environ: Environ) -> str:
    """Where the vendor's API is: as the environment says, else the public one."""
    variable = first_set(vendor.base_variables, environ)
    return environ[variable].strip() if variable else vendor.base_url


def first_set(names: tuple[str, ...], environ: Environ) -> str:
    """The first of these variables that has a value; empty when none has."""
    return next((name for name in names if environ.get(name, "").strip()), "")
