"""Rules: what the caller answered with "always" or "never", and how to take it back (SPEC P5)."""

from typing import Final

from handspan.core.records import Rule
from handspan.gateway.rest.route import Family, Visit
from handspan.wire.rest.questions import ForgottenRules, ListedRule, RuleList

family: Final = Family("questions")


@family.get("/api/rules")
async def rules(visit: Visit) -> RuleList:
    """The caller's rules, by tool and subject."""
    return RuleList([_listed(rule) for rule in await visit.doors.store.rules.all(owner=visit.owner)])


@family.delete("/api/rules/{tool}")
async def forget_rules(visit: Visit, tool: str) -> ForgottenRules:
    """Ask the caller about this tool again."""
    count = await visit.doors.store.rules.forget(tool, owner=visit.owner)
    visit.doors.app.engine.forget_answers(tool, visit.owner)
    return ForgottenRules(tool, count)


def _listed(rule: Rule) -> ListedRule:
    return ListedRule(rule.tool, rule.kind, rule.subject, "always" if rule.answer.decision == "allow" else "never")
