"""The modules that a command imports when it needs them, so that the others start sooner.

A command imports one from here at its top, and uses it as ever: `late.remote.Remote`. The commands themselves are in
the table of `main.py`.
"""

from typing import TYPE_CHECKING

from handspan.core.late_imports import LateModule

if TYPE_CHECKING:
    from handspan.cli import http_request, inside, json_editor, json_errors, main, mcp_serve, remote, session_text
    from handspan.cli.chat import attachments, conversation, editor, screen
    from handspan.gateway import gateway
    from handspan.gateway.serving import lan_certificates
else:  # beside each: the CPU time that it would add to other commands (`handspan --help` takes 80 ms, `call` 220 ms)
    attachments = LateModule("handspan.cli.chat.attachments")  # 9 ms: a chat without files and images
    conversation = LateModule("handspan.cli.chat.conversation")  # 31 ms: a chat of one question
    editor = LateModule("handspan.cli.chat.editor")  # 250 ms: prompt_toolkit, where a terminal only writes letters
    gateway = LateModule("handspan.gateway.gateway")  # 55 ms: a second `serve` says at once that the state is in use
    http_request = LateModule("handspan.cli.http_request")  # 8 ms: HTTP, where no gateway runs
    inside = LateModule("handspan.cli.inside")  # 65 ms: all rooms of a gateway, where one runs
    json_editor = LateModule("handspan.cli.json_editor")  # 250 ms: prompt_toolkit
    json_errors = LateModule("handspan.cli.json_errors")  # 39 ms: the SDK with its errors
    lan_certificates = LateModule("handspan.gateway.serving.lan_certificates")  # 70 ms: a gateway without own TLS
    main = LateModule("handspan.cli.main")  # 8 ms: it is imported while no garbage is collected
    mcp_serve = LateModule("handspan.cli.mcp_serve")  # 27 ms: an HTTP client, in other commands of `handspan mcp`
    remote = LateModule("handspan.cli.remote")  # 20 ms: the SDK and HTTP, where no gateway runs
    screen = LateModule("handspan.cli.chat.screen")  # 190 ms: rich, where the output is no terminal
    session_text = LateModule("handspan.cli.session_text")  # 5 ms: a chat that begins a session

__all__ = [
    "attachments",
    "conversation",
    "editor",
    "gateway",
    "http_request",
    "inside",
    "json_editor",
    "json_errors",
    "lan_certificates",
    "main",
    "mcp_serve",
    "remote",
    "screen",
    "session_text",
]
