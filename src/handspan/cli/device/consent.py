"""What the person at this device allows: asked in the terminal, remembered in a file of the device (SPEC P1-P3)."""

import contextlib
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from handspan.client import PermissionQuestion
from handspan.config.private_files import read_private, replace_private
from handspan.core.errors import ConfigError
from handspan.core.questions import Question, Questions
from handspan.wire.ws_frames import Decision

_NO_PERSON: Final = "start `handspan device` at a terminal, or with --allow {permission} or --yes"
_LONGEST: Final = 3600.0
"""Seconds; the gateway stops waiting long before."""


class Choices(Struct, frozen=True):
    """What is remembered of one device at one gateway."""

    v: int = 1
    token: str = ""
    """The token from pairing."""
    certificate: str = ""
    """The certificate to trust at that gateway, in PEM; empty: as this computer trusts."""
    permissions: dict[str, Literal["always", "never"]] = {}

    def __repr__(self) -> str:
        """Without the token: a repr ends up in logs."""
        return f"Choices(permissions={self.permissions!r})"


class DeviceFile:
    """The file with the choices of a device, which its owner alone can read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Choices:
        """Return what is remembered. Raises `ConfigError` when the file can't be read."""
        try:
            data = read_private(self.path)
            return Choices() if data is None else msgspec.json.decode(data, type=Choices)
        except OSError as error:
            raise ConfigError(f"{str(self.path)!r} can't be read: {error.strerror}.") from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{str(self.path)!r} is not what a device keeps: {error}. Remove it.") from None

    def write(self, choices: Choices) -> None:
        """Remember these choices. Raises `ConfigError` when the file can't be written."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_private(self.path, msgspec.json.encode(choices))
        except OSError as error:
            raise ConfigError(f"{str(self.path)!r} can't be written: {error.strerror}.") from None


class DeviceConsent:
    """Decides about permissions: by the options, by the file, or by asking the person."""

    def __init__(self, file: DeviceFile, allowed: Collection[str], questions: Questions | None) -> None:
        """`allowed` are granted without asking. Without `questions` no person is there to ask."""
        self._file = file
        self._allowed = allowed
        self._questions = questions

    async def ask(self, question: PermissionQuestion) -> tuple[Decision, str]:
        """Return what counts for this call, and where that can be changed."""
        permission = question.permission
        if permission in self._allowed:
            return "allow", ""
        match self._file.read().permissions.get(permission):
            case "always":
                return "allow", ""
            case "never":
                return "deny_forever", self._where(permission)
        if self._questions is None:
            return "deny", _NO_PERSON.format(permission=permission)
        answer = await self._questions.ask(_question(question))
        assert answer is not None and answer.decision != "expired"  # the gateway gives up before it expires
        if answer.always or answer.decision == "deny_forever":
            self._remember(permission, "always" if answer.decision == "allow" else "never")
        return answer.decision, self._where(permission) if answer.decision == "deny_forever" else ""

    def _remember(self, permission: str, choice: Literal["always", "never"]) -> None:
        choices = self._file.read()
        permissions = {**choices.permissions, permission: choice}
        with contextlib.suppress(ConfigError):  # then the choice counts this once, and the person is asked again
            self._file.write(msgspec.structs.replace(choices, permissions=permissions))

    def _where(self, permission: str) -> str:
        return f"`handspan device --allow {permission}` on that computer, or its file {self._file.path}"


def _question(question: PermissionQuestion) -> Question:
    about = (question.tool, question.arguments, question.permission)
    return Question(
        question.call_id, "permission", question.call_id, *about, "", "", "", _LONGEST, agent=question.agent
    )
