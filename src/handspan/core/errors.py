"""Every error class of Handspan, and the one table of the codes of a failed call.

HandspanError                   core     the root of all our errors
├── ToolError                   core     a call can't succeed; carries a code of the table below
│   ├── NotYours                core     … because the session is another owner's
│   ├── SessionDeleted          core     … because the session was deleted a moment ago
│   ├── TakenOver               core     … because another node has the turn of the session
│   ├── LoginRequired           client   … before the person has logged in; says how
│   ├── Unsent                  channels  … because a message did not arrive; it may be sent again
│   ├── ScopeMissing            sources  … because the login at an MCP server does not reach so far
│   └── StoreError              core     … because what must last can't be kept or read
├── DefinitionError             core     a tool can't be defined or registered as it is
│   └── NameTaken               core     … because of its name
├── InvalidAnswer               core     an answer does not fit its question, which stays open
├── UnpairedCalls               core     a conversation has a call that does not stand beside its result
│   └── RepliesInARow           core     … because two messages of the model follow each other
├── ConfigError                 core     the settings can't be used; names file, key and remedy
│   ├── StateFileInUse          client   … because another client uses the state file
│   ├── NoModel                 models   … because the model that they name can't be used
│   ├── ServerExists            sources  … because an MCP server of this name is there already, and may not be replaced
│   └── StateInUse              cli      … because another gateway serves this state folder
├── WireError                   core     bytes from outside are not what they claim to be
│   ├── TooManyValues           wire     … because they hold more values than one request may
│   ├── FrameError              wire     … in a frame of the WebSocket protocol; carries its code
│   ├── BodyError               wire     … in a body of the graph API; names each place
│   ├── WrongParameter          wire     … in a body of OpenAI's API; names the parameter
│   ├── ManifestError           wire     … in the manifest of a provider
│   └── NoFile                  gateway  … because a form has no file under the name that is wanted
├── ProviderError               wire     a provider answers a call with an error; carries the answer
├── CallFailed                  provider  a provider gave no response to a request
│   └── AnswerTooLarge          provider  its response has too many bytes
├── AdbError                    bridge   a command could not be run on an Android device
│   └── AdbAnswerTooLarge       bridge   it printed too many bytes
├── AlreadyServed               provider  another process serves the socket of a provider
├── ModelError                  models   a model can't answer
├── ScriptOver                  models   the scripted model was asked more often than its script has turns
├── SkillError                  skills   the file of a skill can't be used
├── SummaryFailed               agent    a model gave no usable summary of a long conversation
├── TurnRefused                 agent    a turn was not begun, and nothing was stored
│   ├── SessionBusy             agent    … because too many messages wait in the session
│   │   └── GatewayStops        agent    … because the gateway begins no more turns
│   │       └── TurnHandedOver  agent    … and another process takes this one over
│   ├── NoTurnsHere             agent    … because this node takes devices only
│   ├── SessionRefused          agent    … because the session can't be used by this caller
│   ├── NoUserMessage           agent    … because there is no message to answer again
│   └── IdTaken                 agent    … because another message has this id
├── ServerLost                  sources  the link to an MCP server ended, or can't be opened
├── NotRun                      sources  the node that was asked to run a call has not run it, and never will
├── LoginFailed                 sources  a login at an MCP server can't be begun, or did not succeed
├── LinkDown                    core     there is no connection to the other nodes at the moment
├── NoSuchNode                  core     no node listens under this id
├── ResponseBroken              gateway  the node of a request was lost while it worked on it
├── GatewayRefused              client   the gateway does not admit this client
├── GatewayUnreachable          client   the gateway does not answer at its address
├── MessageTooLarge             client   a message is larger than the gateway takes
├── RemoteRefused               cli      a running gateway refused what a command asked of it
├── UsageError                  front    a `Handspan` is used where it can't be: closed, or in another event loop
├── AskFailed                   front    a question to a `Handspan` has no answer
│   └── AnswerMismatch          front    … because the model gave none of the type that was asked for
├── OffersRefused               gateway  a client offers tools that can't be used; names each
├── ResultsRefused              gateway  a client brings results that no call of its waits for; names each
├── HistoryRefused              gateway  a session that has messages takes no history of a client
├── AttachmentRefused           gateway  an image or a file of a client can't be taken
├── NothingSaid                 gateway  a request of a chat has no message of a person, and no result
├── Refusal                     gateway  an HTTP request can't be answered as it is
│   └── OpenAiRefusal           gateway  … and names a parameter, or a code of OpenAI's API
│       └── RunFailed           gateway  … because its run has ended with an error
└── TooManyListeners            gateway  there is no place for one more live stream

A failing call is a raised `ToolError`; the engine turns it into the call's one result. The second column is the room
that defines the class. Errors that never leave their module are not here: they derive from `Exception`.
"""

from typing import Final, Literal, TypeAlias, get_args

ErrorType: TypeAlias = Literal["validation_error", "permission_denied", "timeout", "execution_error"]

ValidationCode: TypeAlias = Literal[
    "tool_not_found",
    "tool_not_available",
    "tool_disabled",
    "invalid_arguments",
    "invalid_path",
]
DenialCode: TypeAlias = Literal[
    "permission_denied",
    "permission_denied_forever",
    "approval_denied",
    "question_expired",
    "policy_denied",
    "hook_cancelled",
    "auth_required",
]
ExecutionCode: TypeAlias = Literal[
    "interrupted",
    "unknown_outcome",
    "execution_failed",
    "file_not_found",
    "file_too_large",
    "network_error",
    "rate_limited",
    "busy",
    "cancelled",
    "disconnected",
    "internal_error",
]
ErrorCode: TypeAlias = Literal[ValidationCode, DenialCode, "timeout", ExecutionCode]
# SPEC X2. `interrupted`: the call never reached its tool, a retry is safe. `unknown_outcome`: it did, no answer came.

ERROR_TYPES: Final[dict[ErrorCode, ErrorType]] = {
    **dict.fromkeys(get_args(ValidationCode), "validation_error"),
    **dict.fromkeys(get_args(DenialCode), "permission_denied"),
    "timeout": "timeout",
    **dict.fromkeys(get_args(ExecutionCode), "execution_error"),
}


class HandspanError(Exception):
    """The base class of all our errors."""


class ToolError(HandspanError):
    """A call can't succeed. The message is read by a model: it says what is wrong and what to do next."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message


class StoreError(ToolError):
    """The store can't write or read; the message says why and what to do. No acknowledged data is lost."""

    def __init__(self, message: str) -> None:
        super().__init__("execution_failed", message)


class TakenOver(ToolError):
    """Another process goes on with the turn of a session, or has ended it: what this one adds is refused."""

    def __init__(self, session: str) -> None:
        super().__init__("busy", f"Another node has taken over the session {session!r}: load it again.")


class NotYours(ToolError):
    """Another owner has a session of this id. Only a caller that chooses the id itself gets this error."""

    def __init__(self, session: str) -> None:
        super().__init__(
            "permission_denied", f"The session {session[:60]!r} belongs to another owner: choose another id."
        )


class SessionDeleted(ToolError):
    """The session of this id was deleted a moment ago, and can still be restored."""

    def __init__(self, session: str) -> None:
        shown = session[:60]
        super().__init__(
            "file_not_found",
            f"The session {shown!r} was deleted: restore it first (POST /api/sessions/{shown}/restore), or begin "
            "another one.",
        )


class DefinitionError(HandspanError):
    """A tool can't be defined or registered; the message gives the reason."""


class NameTaken(DefinitionError):
    """Another tool has this name in this scope, or the name is reserved."""


class InvalidAnswer(HandspanError):
    """An answer does not fit its question, which stays open; the message says what to answer."""


class WireError(HandspanError):
    """Bytes from outside are not what they claim to be."""


class ConfigError(HandspanError):
    """The settings can't be used; the message names file, key and remedy."""
