"""QR codes: for the terminal as text, for the page as SVG."""

import io

import segno


def qr_text(url: str) -> str:
    """The code in block characters, dark on light as terminals and cameras want it."""
    shown = io.StringIO()
    segno.make(url, error="l", micro=False).terminal(out=shown, border=2, compact=True)
    return shown.getvalue()


def qr_svg(url: str) -> str:
    """The code as an SVG element that scales."""
    return str(segno.make(url, error="m", micro=False).svg_inline(scale=4, border=4, omitsize=True))
