"""Who may see and answer a question: the one place where it is decided, for every door (SPEC P7).

| kind                              | a person with `chat` | a person with `admin` | an MCP client, for its own call |
|-----------------------------------|----------------------|-----------------------|---------------------------------|
| `permission`, `approval`          | yes                  | yes                   | where it may answer             |
| `input`                           | yes                  | yes                   | yes                             |
| `login` of an app                 | yes                  | yes                   | no                              |
| `login` that all owners share     | no                   | yes                   | no                              |
| `trust`                           | no                   | yes                   | no                              |

A person is the owner of the question, at the page, a terminal, a chat of a channel. The buttons of a notification
answer the first row alone. Tokens that only call tools
(`tools`) or bring them (`device`) see no question.
"""

from typing import Final

from msgspec import Struct

from handspan.core.principals import Principal
from handspan.core.questions import FIRST_KINDS, Question, QuestionKind

_ALL: Final[frozenset[QuestionKind]] = frozenset(("permission", "approval", "input", "login", "trust"))
_NONE: Final[frozenset[QuestionKind]] = frozenset()
_INPUT: Final[frozenset[QuestionKind]] = frozenset(("input",))


class AnsweringClient(Struct, frozen=True):
    """A client that wants to see or answer questions, and what it may."""

    owner: str
    kinds: frozenset[QuestionKind]
    """The kinds of questions that it may answer."""
    is_admin: bool = False
    """Whether it may answer for an administrator."""
    call_id: str = ""
    """The only call whose questions it may answer; empty: all of the owner's."""

    def may_answer(self, question: Question) -> bool:
        """Whether it may see and answer this question."""
        return (
            question.owner == self.owner
            and question.kind in self.kinds
            and (self.is_admin or not needs_admin(question))
            and self.call_id in ("", question.call_id)
        )


def needs_admin(question: Question) -> bool:
    """Whether the question stands for an act of an administrator.

    `trust` lets a changed tool or a program run: a device could ask for that itself, and answer with its chat token.
    """
    return question.kind == "trust" or question.for_admin


def person(who: Principal) -> AnsweringClient:
    """Return the person who uses a token with these scopes: at the page, a terminal or a chat."""
    is_admin = "admin" in who.scopes
    return AnsweringClient(who.owner, _ALL if is_admin or "chat" in who.scopes else _NONE, is_admin)


def channel_person(owner: str) -> AnsweringClient:
    """Return the owner in a chat of a channel: such a chat has no token, and nothing of it counts as `admin`."""
    return AnsweringClient(owner, _ALL)


def push_person(owner: str) -> AnsweringClient:
    """Return the owner at a notification, which has two buttons: what needs a form or `admin` only opens the page."""
    return AnsweringClient(owner, FIRST_KINDS)


def mcp_client(who: Principal, call_id: str, *, may_approve: bool) -> AnsweringClient:
    """Return the MCP client whose call this is. `may_approve`: the settings let clients answer for their person."""
    return AnsweringClient(who.owner, FIRST_KINDS | _INPUT if may_approve or who.answers else _INPUT, call_id=call_id)
