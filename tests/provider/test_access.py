"""A provider's own authorization: lists, the first call, expiry, coarser data (cetp.md 5)."""

import os
import stat
from pathlib import Path

import pytest

from handspan.provider import Access, Consumer, ProviderError
from handspan.provider.access import AccessGate, Grants, grants_path

UID = 1000
BRIDGE = Consumer(UID, 7, "/opt/bin/bridge")


class Clock:
    """A clock that stands still until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def grants(tmp_path: Path, clock: Clock) -> Grants:
    return Grants(tmp_path / "cetp" / "a.json", clock)


def refused(access: Access, grants: Grants, consumer: Consumer = BRIDGE) -> ProviderError:
    """The refusal that this consumer gets."""
    with pytest.raises(ProviderError) as caught:
        AccessGate(access, grants, UID).admit(consumer)
    return caught.value


def test_every_program_of_the_person_is_admitted_by_default(grants: Grants) -> None:
    assert AccessGate(Access(), grants, UID).admit(BRIDGE) == BRIDGE


def test_programs_of_another_person_are_denied(grants: Grants) -> None:
    error = refused(Access(), grants, Consumer(UID + 1, 7, "/opt/bin/bridge"))
    assert error.answer.error_code == "PERMISSION_DENIED"


@pytest.mark.parametrize("allow", ["bridge", "/opt/bin/bridge", "/opt/*", "br?dge"])
def test_the_list_of_admitted_programs_has_names_paths_and_wildcards(allow: str, grants: Grants) -> None:
    gate = AccessGate(Access("deny", allow=(allow,)), grants, UID)
    assert gate.admit(BRIDGE) == BRIDGE
    assert refused(Access("deny", allow=(allow,)), grants, Consumer(UID, 8, "/bin/x")).answer.error_code == (
        "PERMISSION_DENIED"
    )


def test_a_denied_program_stays_denied_though_it_is_allowed_too(grants: Grants) -> None:
    error = refused(Access("admit", allow=("bridge",), deny=("bridge",)), grants)
    assert error.answer.error_code == "PERMISSION_DENIED"


def test_the_first_call_of_a_new_program_needs_the_person(grants: Grants) -> None:
    access = Access("ask", hint="Open the app", intent="org.example.ALLOW")
    answer = refused(access, grants).answer
    assert (answer.error_code, answer.resolution_hint) == ("AUTH_REQUIRED", "Open the app")
    assert answer.authorize_intent == "org.example.ALLOW"
    assert grants.load().waiting == ["/opt/bin/bridge"]
    grants.add("/opt/bin/bridge")
    assert AccessGate(access, grants, UID).admit(BRIDGE) == BRIDGE
    assert grants.load().waiting == []


def test_a_program_without_a_name_can_be_granted_nothing(grants: Grants) -> None:
    assert refused(Access("ask"), grants, Consumer(UID)).answer.error_code == "PERMISSION_DENIED"


def test_a_grant_expires_and_can_be_taken_back(grants: Grants, clock: Clock) -> None:
    grants.add(BRIDGE.program, 60)
    assert AccessGate(Access("ask"), grants, UID).admit(BRIDGE) == BRIDGE
    clock.now += 61
    assert refused(Access("ask"), grants).answer.error_code == "AUTH_REQUIRED"
    grants.add(BRIDGE.program)
    assert grants.remove(BRIDGE.program)
    assert not grants.remove(BRIDGE.program)
    assert refused(Access("ask"), grants).answer.error_code == "AUTH_REQUIRED"


def test_some_programs_see_coarser_data(grants: Grants) -> None:
    assert AccessGate(Access(coarse=("bridge",)), grants, UID).admit(BRIDGE).is_coarse
    grants.add(BRIDGE.program, is_coarse=True)
    for access in (Access("ask"), Access("admit"), Access("deny", allow=(BRIDGE.program,))):
        assert AccessGate(access, grants, UID).admit(BRIDGE).is_coarse


def test_another_process_grants_and_the_provider_sees_it(grants: Grants, tmp_path: Path) -> None:
    assert grants.find(BRIDGE.program) is None
    Grants(tmp_path / "cetp" / "a.json").add(BRIDGE.program)
    assert grants.find(BRIDGE.program) is not None


def test_a_file_that_can_not_be_read_grants_nothing(grants: Grants, tmp_path: Path) -> None:
    grants.add(BRIDGE.program)
    (tmp_path / "cetp" / "a.json").write_text("{", encoding="utf-8")
    assert grants.find(BRIDGE.program) is None


def test_the_file_of_grants_is_private(grants: Grants, tmp_path: Path) -> None:
    grants.add(BRIDGE.program)
    mode = stat.S_IMODE((tmp_path / "cetp" / "a.json").stat().st_mode)
    assert (mode, stat.S_IMODE((tmp_path / "cetp").stat().st_mode)) == (0o600, 0o700)
    assert sorted(os.listdir(tmp_path / "cetp")) == ["a.json", "a.json.lock"]


def test_programs_that_ask_are_bounded(grants: Grants) -> None:
    for number in range(120):
        grants.wait_for(f"/opt/bin/{number}")
    assert len(grants.load().waiting) == 100


def test_grants_are_in_the_persons_folder_for_state() -> None:
    assert grants_path("a", {"HOME": "/home/ann"}) == Path("/home/ann/.local/state/cetp/a.json")
    assert grants_path("a", {"XDG_STATE_HOME": "/s"}) == Path("/s/cetp/a.json")
