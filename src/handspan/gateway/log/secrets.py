"""Hides (redacts) secrets in lines of the log (SPEC S5): those of the settings and the environment, and known forms.

No line is made with a secret in it. This is the second guard, for texts that are not ours: errors of model APIs, what
an MCP server prints, tracebacks of a person's own tools.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from handspan.config.listing import secret_values
from handspan.config.settings import Settings

HIDDEN: Final = "…"
_SHORTEST: Final = 8
"""A shorter value of the settings or the environment is not looked for: it would hide ordinary words."""
_SECRET_VARIABLE: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|DATABASE_URL", re.IGNORECASE)
_FORMS: Final = re.compile(
    r"""
      (?P<scheme>\b(?i:Bearer|Basic)\s+)[^\s"',;]+
    | (?P<field>(?i:\b[\w-]*(?:token|secret|passw\w*|api[_-]?key)["']?\s*[=:]\s*["']?|[?&#]code=))[^\s"'&,;)}]{6,}
    | (?P<user>(?<=://))[^/@\s]+(?=@)
    | \b(?:sk|pk|rk)-[\w-]{16,}
    | \bAIza[\w-]{30,}
    | \b(?:gh[pousr]|github_pat|glpat|xox[abposr])[_-][\w-]{16,}
    | \b\d{4}-\d{4}-\d{4}\b
    | (?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{43}(?![\w-])
    | \b[0-9a-f]{32}\.[0-9a-f]{40}\b
    """,
    re.VERBOSE,
)
"""Headers and fields that hold a secret, users of addresses, keys of vendors, our pairing codes (12 digits), tokens (43
characters) and resume tokens."""


def hide_secrets_of(settings: Settings, environ: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that hides secrets in a text: those of settings and environment, and all known forms."""
    variables = [value for name, value in environ.items() if _SECRET_VARIABLE.search(name)]
    known = sorted({*_known_values(secret_values(settings)), *_known_values(variables)}, key=len, reverse=True)
    exact = re.compile("|".join(map(re.escape, known))) if known else None

    def hide(text: str) -> str:
        if exact is not None:
            text = exact.sub(HIDDEN, text)
        return _FORMS.sub(_shorten, text)

    return hide


def _shorten(found: "re.Match[str]") -> str:
    """Return what stays of a secret: the name of its field, or of its scheme."""
    return f"{found['scheme'] or found['field'] or ''}{HIDDEN}"


def _known_values(values: Iterable[str]) -> Iterator[str]:
    """Yield the values that are long enough, and what follows a scheme such as `Bearer` in them."""
    for value in values:
        for secret in (value.strip(), value.strip().rpartition(" ")[2]):
            if len(secret) >= _SHORTEST:
                yield secret
