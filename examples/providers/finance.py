"""A finance app: what a person owns, and what was bought and sold. Programs need the person's yes; some see less.

python examples/providers/finance.py install    (then serve, authorize, remove)
"""

from datetime import date
from typing import Literal

from handspan.provider import Access, Consumer, Provider, ProviderError

app = Provider(
    "org.example.finance",
    description="Holdings and transactions of a made-up portfolio.",
    scopes={"holdings": "What the person owns.", "transactions": "What was bought and sold."},
    access=Access("ask", coarse=("statistics*",), valid_for=30 * 86400, hint=f"Run: python {__file__} authorize"),
)
HOLDINGS = [("stock", "ACME", 12, 1840.0), ("stock", "GLOBEX", 3, 611.1), ("fund", "WORLD", 40, 5203.25)]
TRANSACTIONS = [
    ("2026-01-15", "buy", "ACME", 10),
    ("2026-03-02", "buy", "WORLD", 40),
    ("2026-05-20", "sell", "ACME", 2),
]


@app.tool
def get_portfolio_holdings(consumer: Consumer, account_type: Literal["stock", "fund", "all"] = "all") -> object:
    """List what the person owns, with its value in euros."""
    found = [row for row in HOLDINGS if account_type in (row[0], "all")]
    if consumer.is_coarse:
        return {"positions": len(found), "value": round(sum(row[3] for row in found), -3)}
    return [dict(zip(("type", "symbol", "units", "value"), row, strict=True)) for row in found]


@app.tool
def get_transactions(start_date: date, end_date: date | None = None, limit: int = 50) -> object:
    """List what was bought and sold between two days, the first and the last included."""
    if end_date and end_date < start_date:
        raise ProviderError("INVALID_ARGS", "end_date is before start_date")
    found = [row for row in TRANSACTIONS if str(start_date) <= row[0] <= str(end_date or date.max)]
    return [dict(zip(("date", "kind", "symbol", "units"), row, strict=True)) for row in found[:limit]]


if __name__ == "__main__":
    app.main()
