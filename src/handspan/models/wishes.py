"""What a client wishes of the replies of one turn, and how each API says it (SPEC F2).

A wish that an API has no words for is left out. What the settings say of a model (`models.NAME.options`) stands back.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct, structs

from handspan.core.images import ImageReader
from handspan.core.messages import Api
from handspan.core.tool import ToolSpec
from handspan.core.values import Json, JsonObject
from handspan.models.model import LoweredTool, Model, ModelEvent, Projection

ANY_TOOL: Final = "*"
"""The `tool` of a wish: some tool has to be called."""


class ReplyWishes(Struct, frozen=True, kw_only=True):
    """What a client wishes of the model's replies. None or empty: it wishes nothing."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    """The most tokens of one reply."""
    effort: str = ""
    """How much the model should think, in OpenAI's words."""
    tool: str = ""
    """The tool that the first reply has to call, by our name for it; `ANY_TOOL`: one of all."""
    parallel: bool = True
    """Whether a reply may have several calls."""


NO_WISHES: Final = ReplyWishes()


@runtime_checkable
class WishModel(Model, Protocol):
    """A model whose API has words for wishes."""

    def reply_as_wished(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None, wishes: ReplyWishes
    ) -> AsyncIterator[ModelEvent]:
        """Reply as `Model.reply` does, as these wishes say."""
        ...


class WishedModel:
    """A model, for one turn with wishes. Its projections are those of the model."""

    def __init__(self, model: WishModel, wishes: ReplyWishes) -> None:
        self._model, self._wishes = model, wishes

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def projection(self, instructions: str = "") -> Projection:
        """Return an empty conversation in the model's format."""
        return self._model.projection(instructions)

    def reply(
        self, projection: Projection, specs: Sequence[ToolSpec], artifacts: ImageReader | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Reply as wished. Only the first reply of the turn has to call a tool: else the turn would not end."""
        wishes, self._wishes = self._wishes, structs.replace(self._wishes, tool="")
        return self._model.reply_as_wished(projection, specs, artifacts, wishes)


def with_wishes(model: Model, wishes: ReplyWishes) -> Model:
    """Return the model for one turn with these wishes; the same model if it has no words for any."""
    return WishedModel(model, wishes) if wishes != NO_WISHES and isinstance(model, WishModel) else model


def wished_options(
    api: Api, wishes: ReplyWishes, tools: Sequence[LoweredTool], given: JsonObject, *, is_vendor: bool
) -> JsonObject:
    """Return the options of a request: those that were `given` in the settings, with the wishes in the API's words.

    `is_vendor`: the request goes to the vendor of the API, who may have newer words than other servers.
    """
    name = next((tool.name for tool in tools if tool.spec.name == wishes.tool), "")
    if wishes.tool == ANY_TOOL and tools:
        name = ANY_TOOL
    match api:
        case "openai-chat":
            found = _chat(wishes, name, given, is_vendor=is_vendor)
        case "openai-responses":
            found = _responses(wishes, name, given)
        case "anthropic":
            found = _anthropic(wishes, name)
        case "gemini":
            found = _gemini(wishes, name)
    if not tools:
        found.pop("parallel_tool_calls", None)
        found.pop("tool_choice", None)
    return {**given, **{key: value for key, value in found.items() if value is not None}}


def _chat(wishes: ReplyWishes, tool: str, given: JsonObject, *, is_vendor: bool) -> JsonObject:
    """Return the wishes in the words of Chat Completions; None for what is not wished."""
    limit = "max_completion_tokens" if is_vendor and "max_tokens" not in given else "max_tokens"
    choice: Json = {"type": "function", "function": {"name": tool}} if tool != ANY_TOOL else "required"
    return {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "seed": wishes.seed,
        "stop": [*wishes.stop] or None,
        limit: wishes.max_tokens,
        "reasoning_effort": wishes.effort or None,
        "tool_choice": choice if tool else None,
        "parallel_tool_calls": None if wishes.parallel else False,
    }


def _responses(wishes: ReplyWishes, tool: str, given: JsonObject) -> JsonObject:
    """Return the wishes in the words of Responses; None for what is not wished."""
    choice: Json = {"type": "function", "name": tool} if tool != ANY_TOOL else "required"
    reasoning = given.get("reasoning")
    kept = reasoning if isinstance(reasoning, dict) else {}
    return {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "max_output_tokens": wishes.max_tokens,
        "reasoning": {**kept, "effort": wishes.effort} if wishes.effort else None,
        "tool_choice": choice if tool else None,
        "parallel_tool_calls": None if wishes.parallel else False,
    }


def _anthropic(wishes: ReplyWishes, tool: str) -> JsonObject:
    """Return the wishes in the words of Anthropic's API; None for what is not wished."""
    choice: JsonObject = {"type": "any"} if tool == ANY_TOOL else {"type": "tool", "name": tool}
    if not tool:
        choice = {"type": "auto"}
    if not wishes.parallel:
        choice["disable_parallel_tool_use"] = True
    return {
        "temperature": wishes.temperature,
        "top_p": wishes.top_p,
        "stop_sequences": [*wishes.stop] or None,
        "max_tokens": wishes.max_tokens,
        "tool_choice": choice if tool or not wishes.parallel else None,
    }


def _gemini(wishes: ReplyWishes, tool: str) -> JsonObject:
    """Return the wishes in the words of Gemini's API; None for what is not wished."""
    calling: JsonObject = {"mode": "ANY", **({} if tool == ANY_TOOL else {"allowedFunctionNames": [tool]})}
    return {
        "temperature": wishes.temperature,
        "topP": wishes.top_p,
        "seed": wishes.seed,
        "stopSequences": [*wishes.stop] or None,
        "maxOutputTokens": wishes.max_tokens,
        "toolConfig": {"functionCallingConfig": calling} if tool else None,
    }
