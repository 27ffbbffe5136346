"""What a run used, in OpenAI's words."""

from msgspec import UNSET, UnsetType

from handspan.gateway.runs.usage import UsageMeter
from handspan.wire.openai.chat import CompletionDetails, PromptDetails, UsageView


def usage_view(meter: UsageMeter) -> UsageView | UnsetType:
    """Return the sum of all rounds; unset when a needed count is unknown."""
    total = meter.total
    if total is None or total.input is None or total.output is None:
        return UNSET
    return UsageView(
        total.input,
        total.output,
        total.input + total.output,
        prompt_tokens_details=PromptDetails(total.cached or 0),
        completion_tokens_details=CompletionDetails(total.reasoning or 0),
        cost=UNSET if meter.cost is None else round(meter.cost, 9),  # more digits only come of adding
    )
