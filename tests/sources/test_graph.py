"""Tools that live where the request came from (SPEC H; graph.md 3.5, 3.6)."""

import pytest

from handspan.core.context import ToolContext
from handspan.core.errors import DefinitionError
from handspan.core.principals import BUILTIN, Origin, ToolScope
from handspan.core.results import Pending
from handspan.core.tool import UNKNOWN_EFFECTS, ToolSpec
from handspan.core.values import Arguments
from handspan.registry.registry import Registry
from handspan.sources.graph import GraphTool, GraphTools
from handspan.sources.offers import OfferRules
from handspan.wire.graph.requests import OfferedTool

pytestmark = pytest.mark.anyio

TAB = Origin("browser", "client", "thread")


class ReadFile:
    spec = ToolSpec("read_file", "Reads a file.", {"type": "object", "properties": {}})

    async def run(self, arguments: Arguments, ctx: ToolContext) -> str:
        return ""


class Bank(ReadFile):
    spec = ToolSpec("my_bank", "Asks the bank.", {"type": "object", "properties": {}})


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.register(ReadFile(), BUILTIN)
    return registry


@pytest.fixture
def tools(registry: Registry) -> GraphTools:
    return GraphTools(registry, OfferRules(deny=("evil*",), deny_permissions=("camera",)), 600.0)


def offered(name: str, node: str = "tools", **more: object) -> OfferedTool:
    return OfferedTool(node, name, "", {}, **more)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    "wrong",
    [
        offered("evil_one"),
        offered("photo", permissions=("camera",)),
        OfferedTool("tools", "x", "", {"type": "nothing"}),
        OfferedTool("tools", "x", "y" * 100_000, {}),
    ],
)
def test_what_may_not_be_offered_here_is_refused(tools: GraphTools, wrong: OfferedTool) -> None:
    with pytest.raises(DefinitionError):
        tools.make(wrong)


async def test_a_call_waits_for_its_client_as_long_as_the_tool_says(tools: GraphTools, ctx: ToolContext) -> None:
    assert await tools.make(offered("look")).run({}, ctx) == Pending(600.0)
    assert await tools.make(offered("look", timeout=5.0)).run({}, ctx) == Pending(5.0)


def test_who_says_nothing_of_its_effects_is_not_trusted(tools: GraphTools) -> None:
    assert tools.make(offered("look")).spec.annotations == UNKNOWN_EFFECTS
    assert tools.make(offered("look", annotations={"read_only": True})).spec.annotations.read_only


class TestLending:
    def register(self, tools: GraphTools, *made: GraphTool, nodes: tuple[str, ...] | None = None) -> dict[str, str]:
        with tools.register(made, nodes, TAB, "s1") as registered:
            return {name: tool.own_name for name, tool in registered.items()}

    def test_they_are_there_for_the_length_of_a_block_whatever_happens_in_it(
        self, registry: Registry, tools: GraphTools
    ) -> None:
        scope = ToolScope("turn", "s1")
        with pytest.raises(RuntimeError), tools.register([tools.make(offered("look"))], None, TAB, "s1"):
            assert registry.holder("look", scope) == TAB
            raise RuntimeError
        assert registry.holder("look", scope) is None

    def test_a_taken_name_gets_its_node_in_front(self, tools: GraphTools) -> None:
        assert self.register(tools, tools.make(offered("read_file", "page"))) == {"page__read_file": "read_file"}

    def test_names_of_plugins_and_of_mcp_servers_are_taken_as_those_of_built_in_tools_are(
        self, registry: Registry, tools: GraphTools
    ) -> None:
        registry.register(Bank(), Origin("plugin", "bank"))
        registry.reserve("mcp", {"rug__": Origin("mcp", "rug")})
        made = [tools.make(offered(name, "page")) for name in ("my_bank", "rug__stay", "look")]
        assert self.register(tools, *made) == {
            "page__my_bank": "my_bank",
            "page__rug__stay": "rug__stay",
            "look": "look",
        }

    @pytest.mark.parametrize("node", ["rug", "Rug", "rug__x", "page_rug", "rug!"])
    def test_a_node_that_is_called_like_an_mcp_server_does_not_bring_a_tool_into_its_names(
        self, registry: Registry, tools: GraphTools, node: str
    ) -> None:
        registry.reserve("mcp", {f"{name}__": Origin("mcp", name) for name in ("rug", "page_rug")})
        ((shown, own),) = self.register(tools, tools.make(offered("read_file", node))).items()
        assert own == "read_file" and shown.startswith("page_") and registry.rights.find_owner(shown) is None

    def test_a_node_that_can_not_be_in_a_name_gets_one_that_can(self, tools: GraphTools) -> None:
        ((shown, own),) = self.register(tools, tools.make(offered("read_file", "my page!"))).items()
        assert own == "read_file"
        assert shown.startswith("my_page___read_file_")

    def test_a_name_that_is_taken_even_with_its_node_gets_another(self, tools: GraphTools) -> None:
        made = [tools.make(offered("page__read_file")), tools.make(offered("read_file", "page"))]
        registered = self.register(tools, *made)
        assert sorted(registered.values()) == ["page__read_file", "read_file"]
        assert len(registered) == 2

    def test_only_those_of_the_nodes_and_the_last_of_a_name(self, tools: GraphTools) -> None:
        made = [tools.make(offered("do", "a")), tools.make(offered("do", "b")), tools.make(offered("go", "b"))]
        assert self.register(tools, *made, nodes=("a",)) == {"do": "do"}
        with tools.register(made, None, TAB, "s1") as registered:
            assert registered["do"].node == "b"
