"""What each code of a failed call means, and what a person does about it; `make docs` writes it to the docs."""

from typing import Final, NamedTuple

from handspan.core.errors import ErrorCode


class ErrorHelp(NamedTuple):
    """What a code means, and what to do."""

    meaning: str
    remedy: str


ERROR_HELP: Final[dict[ErrorCode, ErrorHelp]] = {
    "tool_not_found": ErrorHelp(
        "No tool has this name.",
        "`handspan tools` lists all names. Tools of a device begin with its label (`phone__camera`), those of an MCP"
        " server with the server's name.",
    ),
    "tool_not_available": ErrorHelp(
        "The tool exists, but not here and now: its device is away, its MCP server is down or changed its definition, a"
        " skill hides it, or this agent may not use it.",
        "`handspan tools why NAME --agent AGENT` says which of these it is, and what to do.",
    ),
    "tool_disabled": ErrorHelp(
        "The tool, or its whole origin, is switched off for all agents.",
        "`handspan tools enable NAME`, or take it out of `tools.disabled` in the settings.",
    ),
    "invalid_arguments": ErrorHelp(
        "The arguments do not fit the tool's JSON Schema; the message names each place.",
        "`handspan tools show NAME` has the parameters and an example call.",
    ),
    "invalid_path": ErrorHelp(
        "The path leads out of the workspace, or is no path of a file there.",
        "Use paths inside the workspace. `handspan serve --workspace FOLDER` makes another folder the workspace.",
    ),
    "permission_denied": ErrorHelp(
        "The person, or the platform of the device, denied a permission that the tool needs.",
        "Call it again and allow it. On a phone the tool needs the permission of the browser or the app, too.",
    ),
    "permission_denied_forever": ErrorHelp(
        "The person denied it for ever.",
        "`handspan rules forget NAME` takes the answer back. What a phone's platform keeps, its settings change.",
    ),
    "approval_denied": ErrorHelp(
        "The agent's mode asks before such a call, and the person said no.",
        "Nothing, if no was meant. `handspan rules` lists what is always answered with no.",
    ),
    "question_expired": ErrorHelp(
        "No person answered the question in time (`tools.question_timeout`, 300 s), or none could be asked.",
        "Answer in the chat, on the page or with `handspan questions`, and call again.",
    ),
    "policy_denied": ErrorHelp(
        "The agent's mode or the command policy does not allow it; no person was asked.",
        "Use another agent or mode (`handspan agents`), or change `tools.command_policy` if the command is meant.",
    ),
    "hook_cancelled": ErrorHelp(
        "A hook of `hooks.chain` refused the call (as `rate_limit` does above its limit), or gave no verdict in time.",
        "The message names the hook and its reason; a hook that failed left its traceback in the log.",
    ),
    "auth_required": ErrorHelp(
        "The app or the MCP server wants a login first.",
        "`handspan questions` shows the login to start; `handspan mcp login NAME` starts one at an MCP server.",
    ),
    "timeout": ErrorHelp(
        "The tool took longer than its time limit. The message says whose clock ran out.",
        "`tools.timeouts` gives a tool more time. Look at the device, if it is a device's.",
    ),
    "interrupted": ErrorHelp(
        "The gateway ended, or could not store the call, before a tool was touched.",
        "Call again: it is safe.",
    ),
    "unknown_outcome": ErrorHelp(
        "The call was handed to its tool, and no answer came back: it may have run.",
        "Look whether it was done before you repeat it.",
    ),
    "execution_failed": ErrorHelp(
        "The tool ran and failed; the message has its error.",
        "For a tool of your own, the log of `handspan serve` has the traceback with the call's id.",
    ),
    "file_not_found": ErrorHelp(
        "There is no such file in the workspace, or no such thing where the tool looked.",
        "`handspan call list_directory` lists the workspace; `handspan doctor` says where it is.",
    ),
    "file_too_large": ErrorHelp(
        "The file is larger than the tool reads.",
        "Let the model read a part of it (`offset`, `limit`), or search it.",
    ),
    "network_error": ErrorHelp(
        "The address could not be reached; the message names the cause (name, refused, TLS, time), or that the URL"
        " policy does not allow it.",
        "Look at the cause. `tools.url_policy.allowed_domains` allows private hosts by name.",
    ),
    "rate_limited": ErrorHelp(
        "The other side (a device, an app, a search service) allows no more calls for a while.",
        "Wait; the message says how long, if the other side did.",
    ),
    "busy": ErrorHelp(
        "Too much of this runs already, or a device has too many open calls.",
        "Call again in a moment. `tools.concurrency` and `gateway.limits.pending_calls` are the settings.",
    ),
    "cancelled": ErrorHelp(
        "The person, the client or the end of the gateway cancelled the call.",
        "Call again if it is still wanted. What it had done by then stays done.",
    ),
    "disconnected": ErrorHelp(
        "The device or page was gone before it was asked.",
        "Connect it again and call again: it is safe.",
    ),
    "internal_error": ErrorHelp(
        "A fault of ours, or a hook that failed after the tool ran.",
        "The log has the details. Please report it with them, if it is ours.",
    ),
}
