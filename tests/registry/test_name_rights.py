"""SPEC R2, R5: whose a name is, whoever comes first. A name of a higher rank never leads to a tool of a lower one."""

import logging
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from handspan.core.agents import GENERAL, SkillTools
from handspan.core.errors import NameTaken
from handspan.core.principals import BUILTIN, GLOBAL, OUTSIDE, Origin, ToolScope
from handspan.registry.name_rights import DisplacedTool
from handspan.registry.registry import Registry, RegistryRules
from tests.registry.class_tools import (
    ADA,
    BOB,
    CHAT,
    FOR_ADA,
    FOR_BOB,
    GIT,
    IN_ONE,
    IN_TWO,
    PHONE,
    PLUGIN,
    ClassTool,
)
from tests.thoroughness import examples

TAB = Origin("browser", "tab", "thread")
IN_TURN = ToolScope("turn", "one")
FROM_OUTSIDE = [(PHONE, FOR_ADA), (CHAT, IN_ONE), (TAB, IN_TURN)]
ALL_SCOPES = (GLOBAL, FOR_ADA, FOR_BOB, IN_ONE, IN_TWO, IN_TURN)


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.reserved = 0
        self.lost: list[tuple[Origin, str, str]] = []

    def on_reserved(self) -> None:
        self.reserved += 1

    def on_displaced(self, origin: Origin, tools: Sequence[DisplacedTool]) -> None:
        self.lost += [(origin, one.entry.spec.name, one.reason) for one in tools]


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(ClassTool("read_file"))
    registry.register(ClassTool("my_bank"), PLUGIN)
    registry.register(ClassTool("git__log"), GIT)
    return registry


@pytest.mark.parametrize(("origin", "scope"), FROM_OUTSIDE)
@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("read_file", "the built-in tool"),
        ("my_bank", "the plugin or tools file 'weather'"),
        ("git__log", "the MCP server 'git'"),
    ],
)
def test_a_name_of_the_gateways_own_tools_is_refused_to_every_client_and_its_owner_is_named(
    registry: Registry, name: str, owner: str, origin: Origin, scope: ToolScope
) -> None:
    for register in (registry.register, registry.register_or_replace):
        with pytest.raises(NameTaken, match=f"{name!r} is reserved for {owner}: choose another name, or let the oper"):
            register(ClassTool(name), origin, scope)


@pytest.mark.parametrize(("origin", "scope"), FROM_OUTSIDE)
def test_a_prefix_is_reserved_without_any_tool_and_in_every_spelling(
    registry: Registry, origin: Origin, scope: ToolScope
) -> None:
    registry.reserve("mcp", {"Rug__": Origin("mcp", "Rug")})
    for name in ("rug__stay", "RUG__x", "Rug__", "rug___y", "rug__a__b"):
        with pytest.raises(NameTaken, match="reserved for the MCP server 'Rug'"):
            registry.register(ClassTool(name), origin, scope)
    for name in ("rug", "rug_stay", "rug_2__stay", "carug__stay", "x__rug__stay", "_rug__stay"):
        registry.register(ClassTool(name), origin, scope)
    registry.register(ClassTool("Rug__stay"), Origin("mcp", "Rug"))


def test_a_prefix_that_is_freed_can_be_had(registry: Registry) -> None:
    registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    registry.reserve("mcp", {})
    registry.register(ClassTool("rug__stay"), PHONE, FOR_ADA)


def test_each_source_keeps_its_own_names(registry: Registry) -> None:
    registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    registry.reserve("tools folder", {"pay": PLUGIN})
    registry.reserve("mcp", {})
    with pytest.raises(NameTaken, match="the plugin or tools file 'weather'"):
        registry.register(ClassTool("pay"), CHAT, IN_ONE)
    registry.register(ClassTool("pay"), Origin("plugin", "another"))


def test_reserving_takes_the_tools_of_clients_away_and_tells_who_has_lost_what(
    registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    registry.listen(heard)
    for origin, scope in FROM_OUTSIDE:
        registry.register(ClassTool("rug__stay"), origin, scope)
        registry.register(ClassTool("other"), origin, scope)
    box = registry.toolbox(GENERAL, ADA, "one", in_turn=True)
    assert box.find("rug__stay") is not None
    with caplog.at_level(logging.WARNING):
        registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    assert box.find("rug__stay") is None and box.find("other") is not None
    assert {(origin, name) for origin, name, _ in heard.lost} == {(one, "rug__stay") for one, _ in FROM_OUTSIDE}
    assert all("the MCP server 'rug'" in reason for _, _, reason in heard.lost)
    assert "device(phone) has lost its tool 'rug__stay'" in caplog.text
    assert heard.reserved == 1
    registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    assert heard.reserved == 1


@pytest.mark.parametrize(("owner", "name"), [(BUILTIN, "look"), (PLUGIN, "look"), (GIT, "git__look")])
@pytest.mark.parametrize("way", ["register", "register_or_replace", "replace"])
def test_a_tool_of_a_higher_rank_takes_the_name_from_clients_that_had_it_first(
    registry: Registry, owner: Origin, name: str, way: str
) -> None:
    heard = Heard()
    registry.listen(heard)
    for origin, scope in FROM_OUTSIDE:
        registry.register(ClassTool(name), origin, scope)
    if way == "replace":
        assert registry.replace(owner, [ClassTool(name)]) == []
    else:
        getattr(registry, way)(ClassTool(name), owner)
    found = registry.toolbox(GENERAL, ADA, "one", in_turn=True).find(name)
    assert found is not None and found.origin == owner
    assert {origin for origin, _, _ in heard.lost} == {origin for origin, _ in FROM_OUTSIDE}
    assert all(registry.count(origin) == 0 for origin, _ in FROM_OUTSIDE)


def test_a_builtin_that_comes_late_takes_the_name_from_a_plugin(registry: Registry) -> None:
    registry.replace(BUILTIN, [ClassTool("my_bank")])
    found = registry.toolbox(GENERAL, ADA).find("my_bank")
    assert found is not None and found.origin == BUILTIN
    assert registry.count(PLUGIN) == 0


def test_unregister_with_an_origin_takes_only_its_own(registry: Registry) -> None:
    assert not registry.unregister("my_bank", origin=Origin("plugin", "another"))
    assert registry.unregister("my_bank", origin=PLUGIN)


def test_a_name_that_the_settings_allow_is_for_everyone_until_they_do_not() -> None:
    rules = RegistryRules(allow_shadowing=("rug__stay", "my_bank"))
    registry = Registry(rules)
    registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    near = [registry.register(ClassTool(name), PHONE, FOR_ADA) for name in rules.allow_shadowing]
    registry.register(ClassTool("my_bank"), PLUGIN)
    registry.register(ClassTool("rug__stay"), Origin("mcp", "rug"))
    box = registry.toolbox(GENERAL, ADA)
    assert [box.find(name) for name in rules.allow_shadowing] == near
    with pytest.raises(NameTaken):
        registry.register(ClassTool("rug__go"), PHONE, FOR_ADA)
    registry.use(RegistryRules(), ())
    assert [entry.origin.kind for name in rules.allow_shadowing if (entry := box.find(name))] == ["mcp", "plugin"]


def test_the_tools_of_all_owners_can_be_had_without_any_clients() -> None:
    registry = Registry(RegistryRules(allow_shadowing=("rug__stay",)))
    of_server = registry.register(ClassTool("rug__stay"), Origin("mcp", "rug"))
    registry.register(ClassTool("rug__stay"), PHONE, FOR_ADA)
    assert registry.shared_toolbox(GENERAL, SkillTools((), ("rug__*",))).find("rug__stay") is of_server


def test_who_wanted_a_name_is_known_to_those_who_see_that_client_while_it_is_there(registry: Registry) -> None:
    registry.register(ClassTool("pay"), PHONE, FOR_ADA)
    registry.register(ClassTool("pay"), PLUGIN)  # the phone loses it
    with pytest.raises(NameTaken):
        registry.register(ClassTool("git__log"), PHONE, FOR_ADA)
    rights = registry.rights
    for name in ("pay", "git__log"):
        assert rights.refusals((GLOBAL, FOR_ADA))[name] == [PHONE]
    assert rights.refusals((GLOBAL, FOR_BOB, IN_ONE)) == {}
    registry.unregister("pay")
    registry.register(ClassTool("pay"), PHONE, FOR_ADA)
    assert rights.refusals((FOR_ADA,)) == {"git__log": [PHONE]}
    registry.unregister_by_source(PHONE)
    assert rights.refusals((FOR_ADA,)) == {}


def test_a_client_that_wants_ever_new_names_takes_no_memory(registry: Registry) -> None:
    registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
    for number in range(200):
        with pytest.raises(NameTaken):
            registry.register(ClassTool(f"rug__{number}"), PHONE, FOR_ADA)
    assert list(registry.rights.refusals((FOR_ADA,))) == [f"rug__{number}" for number in range(64)]


# Everything at once.

SERVERS = ("git", "Rug")
OWN_NAMES = ("read_file", "my_bank")
NAMES = (*OWN_NAMES, "git__log", "rug__stay", "Rug__stay", "phone__look")
SOURCES: list[tuple[Origin, tuple[str, ...]]] = [
    (BUILTIN, OWN_NAMES),
    (PLUGIN, OWN_NAMES),
    (Origin("plugin", "file"), OWN_NAMES),
    (GIT, ("git__log",)),
    (Origin("mcp", "Rug"), ("Rug__stay",)),
]
CLIENTS: list[tuple[Origin, ToolScope]] = [
    *FROM_OUTSIDE,
    (Origin("device", "lamp", "connection-4"), FOR_ADA),
    (Origin("device", "phone", "connection-5"), FOR_BOB),
    (Origin("remote", "session-2", "connection-6"), IN_TWO),
]


class Names(RuleBasedStateMachine):
    """Sources, clients and devices come and go in any order, and the settings change meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.servers: set[str] = set()
        self.allowed: tuple[str, ...] = ()
        self.boxes = [
            self.registry.toolbox(GENERAL, who, session, in_turn=True)
            for who, session in ((ADA, "one"), (ADA, "two"), (BOB, "two"), (BOB, ""))
        ]

    @rule(source=st.sampled_from(SOURCES), data=st.data(), way=st.sampled_from(["one", "again", "all"]))
    def supply(self, source: tuple[Origin, tuple[str, ...]], data: st.DataObject, way: str) -> None:
        origin, names = source
        if origin.kind == "mcp":  # a server is in the settings before its tools come
            self.configure(origin.name, is_there=True)
        name = data.draw(st.sampled_from(names))
        try:
            if way == "all":
                self.registry.replace(origin, [ClassTool(one) for one in names])
            elif way == "again":
                self.registry.register_or_replace(ClassTool(name), origin)
            else:
                self.registry.register(ClassTool(name), origin)
        except NameTaken:
            holder = self.registry.holder(name)
            assert holder is not None and holder.rank <= origin.rank

    @rule(client=st.sampled_from(CLIENTS), name=st.sampled_from(NAMES))
    def offer(self, client: tuple[Origin, ToolScope], name: str) -> None:
        origin, scope = client
        is_free = self.registry.rights.find_owner(name) is None and self.registry.holder(name, scope) in (None, origin)
        try:
            self.registry.register_or_replace(ClassTool(name), origin, scope)
        except NameTaken:
            assert not is_free
        else:
            assert is_free

    @rule(origin=st.sampled_from([*(one for one, _ in SOURCES), *(one for one, _ in CLIENTS)]))
    def close(self, origin: Origin) -> None:
        self.registry.unregister_by_source(origin)

    @rule(server=st.sampled_from(SERVERS), is_there=st.booleans())
    def configure(self, server: str, is_there: bool) -> None:
        if is_there:
            self.servers.add(server)
        else:
            self.servers.discard(server)
            self.registry.unregister_by_source(Origin("mcp", server))
        self.registry.reserve("mcp", {f"{name}__": Origin("mcp", name) for name in self.servers})

    @rule(allowed=st.sampled_from([(), ("read_file",), ("git__log", "rug__stay")]))
    def reload(self, allowed: tuple[str, ...]) -> None:
        self.allowed = allowed
        self.registry.use(RegistryRules(allow_shadowing=allowed), ())

    @invariant()
    def no_name_of_a_higher_rank_leads_to_a_lower_one(self) -> None:
        prefixes = tuple(f"{name.casefold()}__" for name in self.servers)
        for name in NAMES:
            of_all = self.registry.holder(name)
            for box in self.boxes:
                found = box.find(name)
                if found is None or name in self.allowed:
                    continue
                assert of_all is None or found.origin.rank <= of_all.rank
                assert found.origin.rank < OUTSIDE or not name.casefold().startswith(prefixes)

    @invariant()
    def every_tool_is_listed_under_its_origin(self) -> None:
        entries = list(self.registry)
        assert sum(self.registry.count(origin) for origin in {entry.origin for entry in entries}) == len(entries)
        assert all(self.registry.holder(entry.spec.name, entry.scope) == entry.origin for entry in entries)


TestNames = Names.TestCase
TestNames.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
