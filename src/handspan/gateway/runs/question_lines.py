"""A question to a person as one line, for clients that can't show it (SPEC F6)."""

from handspan.config.gateway_settings import GatewaySettings
from handspan.core.questions import Question, waiting_text
from handspan.core.values import strip_invisible
from handspan.gateway.http.message import AsgiRequest


def question_line(question: Question, page: str) -> str:
    """Return what is asked, and where a person can answer. `page`: the address of the page; empty if it is unknown."""
    line = strip_invisible(" ".join(waiting_text(question).split()))
    return f"{line} The page is at {page}" if page else line


def page_address(settings: GatewaySettings, asgi: AsgiRequest) -> str:
    """Return the address of the gateway's page, as this client reaches the gateway; empty without a Host."""
    if settings.public_url:
        return settings.public_url
    host = asgi.headers.get("host", "")
    return f"{asgi.scope['scheme']}://{host}{settings.path_prefix}/" if host else ""
