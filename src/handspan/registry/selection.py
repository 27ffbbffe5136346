"""What one agent may use of the tools that all sessions of an owner see: judged once, whatever sessions there are."""

from collections.abc import Callable, Mapping

from handspan.core.agents import Agent, mode_refuses
from handspan.core.names import matches_any
from handspan.core.principals import Scope
from handspan.core.tool import ToolSpec
from handspan.registry.entry import Entry
from handspan.registry.shelf import Shelf


class Selection:
    """An agent's choice among the tools of its owner and those of everybody."""

    def __init__(
        self,
        agent: Agent,
        owners: Shelf,
        everybodys: Shelf,
        disabled_by: Callable[[Entry], str | None],
        accept: Callable[[str, str, Scope], bool],
        skill_tools: tuple[str, ...] | None = None,
    ) -> None:
        """`skill_tools`: the globs of the skills that are on, which count in place of the agent's own (SPEC A3)."""
        self.accept = accept
        self.skill_tools = skill_tools
        self.agent = agent
        self.owners = owners
        self.everybodys = everybodys
        self.disabled_by = disabled_by
        self._specs: dict[str, ToolSpec] = {}
        self._version = -1

    def specs(self) -> Mapping[str, ToolSpec]:
        """The specs of those that it may use, by name; an owner's own comes before everybody's of the same name."""
        version = self.owners.version + self.everybodys.version
        if version != self._version:
            entries = self.everybodys.entries | self.owners.entries
            self._specs = {name: entry.spec for name, entry in entries.items() if self.allows(entry)}
            self._version = version
        return self._specs

    def allows(self, entry: Entry) -> bool:
        """Whether this agent may use this tool, wherever it stands."""
        refused = mode_refuses(self.agent.mode, entry.spec.annotations)  # R4: what can't be called is not shown
        if refused or not self.names(entry) or self.hides(entry) or self.disabled_by(entry) is not None:
            return False
        return entry.change is None or not entry.change.blocks

    def names(self, entry: Entry) -> bool:
        """Whether its lists name this tool."""
        tools, name = self.agent.tools if self.skill_tools is None else self.skill_tools, entry.spec.name
        return (tools is None or matches_any(tools, name)) and not matches_any(self.agent.deny, name)

    def hides(self, entry: Entry) -> bool:
        """Whether this tool is internal, and no skill is on that names it (SPEC C2)."""
        return entry.internal and not (self.skill_tools is not None and matches_any(self.skill_tools, entry.spec.name))
