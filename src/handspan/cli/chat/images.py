"""Images in a terminal, where it can show them: by the protocols of kitty and of iTerm2."""

import base64
from collections.abc import Iterator, Mapping
from typing import Final

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_CHUNK: Final = 4096
"""Characters of one message of kitty's protocol, at most."""
_KITTY: Final = ("kitty", "ghostty")
_ITERM: Final = ("iTerm.app", "WezTerm", "mintty", "rio", "WarpTerminal")


def draw_image(data: bytes, environ: Mapping[str, str], width: int) -> str | None:
    """Return what shows this image in the terminal of this environment; None where it can't.

    Inside tmux and screen only their own drawing arrives, so nothing is sent there.
    """
    program = environ.get("TERM_PROGRAM", "")
    if "TMUX" in environ or environ.get("TERM", "").startswith("screen"):
        return None
    if (environ.get("TERM", "") == "xterm-kitty" or program in _KITTY) and data.startswith(_PNG):
        return "".join(_kitty(data, width))
    if program in _ITERM:
        content = base64.b64encode(data).decode()
        return f"\x1b]1337;File=inline=1;width={min(width, 60)};preserveAspectRatio=1;size={len(data)}:{content}\x07\n"
    return None


def _kitty(data: bytes, width: int) -> Iterator[str]:
    """Yield the image as the escape codes of kitty's graphics protocol, in chunks."""
    content = base64.b64encode(data).decode()
    for at in range(0, len(content), _CHUNK):
        more = int(at + _CHUNK < len(content))
        head = f"a=T,f=100,q=2,c={min(width, 60)},m={more}" if at == 0 else f"m={more}"
        yield f"\x1b_G{head};{content[at : at + _CHUNK]}\x1b\\"
    yield "\n"
