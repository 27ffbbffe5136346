"""Every setting there is, as plain data, with its sections. The docstring under a field is its reference.

In a file the keys are these names, or the same in camelCase; in the environment `HANDSPAN_` and the names in capitals,
joined by two underscores: `HANDSPAN_TOOLS__URL_POLICY__ALLOW_PRIVATE=true`. Two variables are no settings:
`HANDSPAN_CONFIG` names the file, and `HANDSPAN_FAST=off` takes the libraries' way instead of our speed tricks.
"""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from handspan.config.budget_settings import BudgetSettings
from handspan.config.gateway_settings import FrontSettings, GatewaySettings, McpDoorSettings
from handspan.config.kinds import Bytes, ChannelName, Count, Days, Dollars, NotEmpty, Seconds, Switch, WebAddress
from handspan.config.push_settings import PushSettings
from handspan.config.schedule_settings import ScheduleSettings
from handspan.config.store_settings import ClusterSettings, StoreSettings
from handspan.config.tool_settings import ToolSettings
from handspan.core.agents import AgentLimits, Mode
from handspan.core.budgets import BudgetLimits
from handspan.core.values import JsonObject


class HookSettings(Struct, frozen=True):
    """One hook of the chain."""

    type: NotEmpty
    """A built-in one (`audit_log`, `rate_limit`, `path_prefix`) or the name of an entry point `handspan.hooks`."""
    config: JsonObject = {}
    """The options of this type. `audit_log`: `arguments` (false: not written), `file` (`audit.jsonl` in the state
    folder), `max_bytes` (10,000,000) and `backups` (5 full files are kept). `rate_limit`: `per_minute`, `tools`.
    `path_prefix`: `prefix`, `tools`, `parameter`."""
    timeout: Seconds = 5.0
    """Seconds for one verdict; a before-hook that takes longer refuses the call (SPEC E7)."""


class HookChain(Struct, frozen=True):
    """The hooks that check every call before and after it runs (SPEC E7)."""

    enabled: bool = True
    """False switches the whole chain off."""
    chain: tuple[HookSettings, ...] = ()
    """The hooks, in order."""


class ModelPrice(Struct, frozen=True):
    """What a model costs, in US dollars for a million tokens. Unset is unknown, which is not the same as 0."""

    input: Dollars | None = None
    """For what the model reads."""
    output: Dollars | None = None
    """For what the model writes."""
    cached: Dollars | None = None
    """For input that is read from a cache; unset: as other input."""
    cache_write: Dollars | None = None
    """For input that is written to a cache; unset: as other input."""


class ModelSettings(Struct, frozen=True):
    """One model: which protocol it speaks, where it is and what to send with every request (SPEC M1)."""

    api: Literal["openai-chat", "openai-responses", "anthropic", "gemini", "custom"] = "custom"
    """The protocol. `custom`: Chat Completions, which most other servers speak, at a `base_url` of your own."""
    base_url: WebAddress = ""
    """Where it is, up to and without the API's own path; empty: the vendor's public one. `custom` needs one."""
    key: str = ""
    """`env:NAME` for a variable, `file:PATH` for a file, or the key itself; empty: the vendor's usual variable."""
    model: str = ""
    """The model's id in the words of its API; empty: the name of this section."""
    options: JsonObject = {}
    """More fields of the request, in the API's own words (`max_tokens`, `temperature` …)."""
    strict: bool = False
    """Ask the API to enforce tools' schemas. It takes fewer of them then; the engine always enforces all."""
    stream: bool = True
    """False asks for whole answers; for servers that can't stream tool calls."""
    context: Count | None = None
    """How many tokens it can read; unset: as known, else learned from its first refusal, else 32,000."""
    price: ModelPrice = ModelPrice()
    """In place of the known price."""
    images: bool = True
    """False: it can't see images. It gets a note in place of each."""
    then: tuple[NotEmpty, ...] = ()
    """Models that answer in its place while it can't: the first of them that can (SPEC L6). Names as in `model`."""

    def __repr__(self) -> str:
        """Without the key and the options, which may hold one (SPEC S5)."""
        return f"ModelSettings(api={self.api!r}, base_url={self.base_url!r}, model={self.model!r})"


class ContextSettings(Struct, frozen=True):
    """How a conversation that becomes long still fits into what its model can read (SPEC L1, docs/conversations.md)."""

    at: Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")] = 0.8
    """From this part of the model's context on, old results become one line and older messages a summary, down to half
    of the context; 0: never."""
    summary: Switch = "auto"
    """Whether a model summarises older messages. `off`: only results become shorter."""


class SummarySettings(Struct, frozen=True):
    """Who summarises (SPEC L2)."""

    model: str = ""
    """The model that writes summaries, as `model` at the top level; empty: the session's own."""


class AgentSettings(Struct, frozen=True):
    """One agent: which tools it may use, and when a person is asked first."""

    tools: tuple[NotEmpty, ...] | None = None
    """Names or globs that it may use; unset: all, empty: none (SPEC R7)."""
    deny: tuple[NotEmpty, ...] = ()
    """Names or globs that it may not use; they win."""
    mode: Mode = "automatic"
    """When a person is asked (SPEC P4)."""
    instructions: str = ""
    """The instructions that the model reads first; empty: none, and for `General` a text made from the live state."""
    model: str = ""
    """The model that it talks to, as `model` at the top level; empty: the gateway's own."""
    then: tuple[NotEmpty, ...] | None = None
    """Models that answer while its model can't; unset: those of that model (`models.NAME.then`), empty: none."""
    description: str = ""
    """One sentence for people who choose an agent."""
    max_tool_iterations: Annotated[int | None, Meta(description="a whole number of rounds, or 0 for no limit")] = 20
    """Rounds of calls in one turn; 0 for no limit (SPEC E4)."""
    skills: tuple[NotEmpty, ...] = ()
    """Skills that are on from the start (SPEC A3)."""
    nodes: tuple[NotEmpty, ...] | None = None
    """Nodes of web pages and programs over HTTP whose tools it may use; unset: all (SPEC H1)."""
    limits: AgentLimits = AgentLimits()
    budget: BudgetLimits = BudgetLimits()
    """How many US dollars its models may cost: `{ day = 1, month = 10 }` (SPEC L5)."""
    may_ask: tuple[NotEmpty, ...] = ()
    """Names or globs of the agents that it may ask by the tool `ask_agent`; `["*"]`: all others (SPEC J5)."""


class ChannelSettings(Struct, frozen=True):
    """One channel: a way to write to people, and perhaps for people to write to an agent (docs/channels.md)."""

    type: Literal["auto", "page", "telegram", "webhook", "apprise"] = "auto"
    """`page`: the owner's open pages and WebSocket clients. `telegram`: a bot. `webhook`: signed HTTP to and from a
    program of yours. `apprise`: everything that the Apprise library knows. `auto`: what the channel's name says."""
    token: str = ""
    """Telegram: the token of the bot; it may be `env:NAME` or `file:PATH`."""
    url: str = ""
    """Webhook: the http or https address that gets messages. Apprise: the address of the service, in which
    `{chat_id}` stands for the chat. It may be `env:NAME` or `file:PATH`."""
    secret: str = ""
    """Webhook: the key of the signatures, 16 characters at least; it may be `env:NAME` or `file:PATH`."""
    owner: NotEmpty = "operator"
    """The owner whose agents send here, and whose sessions the people of `allow` open. `*`: all agents send here, and
    the sessions are the operator's."""
    agent: str = ""
    """The agent that answers; empty: the default agent. It asks at least before destructive calls."""
    allow: tuple[NotEmpty, ...] = ()
    """Ids of senders who may write to the agent, and of chats that it may write to, beside those that were paired;
    `*` for all."""
    receive: bool = True
    """False: people can't write to the agent here."""
    queue: Count = 1024
    """How many messages may wait in each direction; then senders are told to wait."""
    per_minute: Count = 20
    """How many messages a minute are taken of one sender."""
    base_url: WebAddress = "https://api.telegram.org"
    """Telegram: where its Bot API is."""

    def __repr__(self) -> str:
        """Without token, secret and address: they are keys or hold one (SPEC S5)."""
        return f"ChannelSettings(type={self.type!r}, owner={self.owner!r}, agent={self.agent!r})"


class LogSettings(Struct, frozen=True):
    """What `handspan serve` logs, and where. No line has a token, a key, arguments or results of calls (SPEC S5)."""

    level: Literal["warning", "info", "debug"] = "info"
    """`warning` (as `serve --quiet`): what needs a person. `info`: connections, calls with their duration, refusals,
    too. `debug` (as `serve --verbose`): every call and every request. With `info`, at most ten calls a second have a
    line of their own; the others are counted."""
    format: Literal["text", "json"] = "text"
    """`text`: lines for people. `json`: one JSON object a line, for programs."""
    file: Path | None = None
    """The file to write to, which you alone can read; unset: standard error."""
    max_bytes: Bytes = 10_000_000
    """A line that would make the file larger begins a new one; the full one becomes `FILE.1`."""
    backups: Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")] = 5
    """How many full files are kept."""


class BridgeSettings(Struct, frozen=True):
    """Where `handspan bridge` looks for other apps, besides the manifests of this computer."""

    android: bool = False
    """Whether it also bridges apps on Android phones and emulators, through `adb` (docs/android.md)."""
    adb: NotEmpty = "adb"
    """The program `adb`: a name in the PATH, or a path."""
    package_seconds: Seconds = 5.0
    """Seconds between two looks at the packages of the phones; devices that come and go are noticed at once."""


class Settings(Struct, frozen=True):
    """All settings. `load_settings` gives one; the two folders have no default here because they depend on the user."""

    workspace: Path
    """The folder that file and shell tools work in; default `$XDG_DATA_HOME/handspan/workspace`."""
    state: Path
    """The folder for journal, artifacts, tokens and all else that must last; default `$XDG_STATE_HOME/handspan`."""
    store: StoreSettings = StoreSettings()
    cluster: ClusterSettings = ClusterSettings()
    journal_days: Days = 30.0
    """How long the journal keeps calls that have their result; 0 or "none" for all time. Open calls stay (SPEC E8)."""
    default_agent: NotEmpty = "General"
    """The agent to use when none is named: one of `agents`, or a stored one (`handspan agents`)."""
    model: str = ""
    """The model that is meant where none is named: a name of `models`, `offline`, or `API:MODEL` as in
    `anthropic:claude-sonnet-5`; empty: the first that is found (the first of `models`, a key in the environment, a
    local Ollama, offline)."""
    models: dict[NotEmpty, ModelSettings] = {}
    """Models by name. Without `model`, the first one answers."""
    context: ContextSettings = ContextSettings()
    summary: SummarySettings = SummarySettings()
    budget: BudgetSettings = BudgetSettings()
    schedules: ScheduleSettings = ScheduleSettings()
    model_requests: Count = 100
    """How many requests to one model may run at once. Further ones wait for their turn, and the turn says so."""
    tools: ToolSettings = ToolSettings()
    hooks: HookChain = HookChain()
    agents: dict[NotEmpty, AgentSettings] = field(default_factory=lambda: {"General": AgentSettings()})
    """Agents by name. `General` is always there."""
    channels: dict[ChannelName, ChannelSettings] = {}
    """Channels by name: where the tool `message` delivers, and where people write to an agent."""
    push: PushSettings = PushSettings()
    gateway: GatewaySettings = GatewaySettings()
    mcp: McpDoorSettings = McpDoorSettings()
    fronts: FrontSettings = FrontSettings()
    log: LogSettings = LogSettings()
    bridge: BridgeSettings = BridgeSettings()
