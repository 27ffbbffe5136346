package com.example.myfinance.cetp

import com.example.myfinance.Portfolio
import org.handspan.cetp.Access
import org.handspan.cetp.CetpCode
import org.handspan.cetp.Others
import org.handspan.cetp.ProviderCall
import org.handspan.cetp.ProviderError

/** Which apps may read: each new one needs the person's yes, for 30 days. */
val financeAccess = Access(
    others = Others.ASK,
    validForMs = 30L * 24 * 60 * 60 * 1000,
    hint = "Please open MyFinance and allow the app that asks",
    intent = "com.example.myfinance.ACTION_AUTHORIZE_CLAWSEED",
)

/** The portfolio as two tools that only read. The manifest names this class. */
class ToolProvider : org.handspan.cetp.ToolProvider(
    "MyFinance",
    "Holdings and transactions of a portfolio",
    mapOf("holdings" to "What you own", "transactions" to "What you bought and sold"),
    financeAccess,
) {
    override fun declareTools() {
        tool(
            "get_portfolio_holdings",
            "Get what the person owns now: shares and funds, with amounts in euros",
            """{"type":"object","properties":{"account_type":{"type":"string","enum":["stock","fund","all"]}}}""",
        ) { call -> Portfolio.holdings(call.args.optString("account_type", "all")) }
        tool(
            "get_transactions",
            "Get what was bought and sold between two days, the newest first",
            """{"type":"object","required":["start_date"],"properties":{
                "start_date":{"type":"string","description":"as in 2026-01-31"},
                "end_date":{"type":"string"},
                "limit":{"type":"integer","minimum":1,"maximum":500}}}""",
        ) { call -> transactions(call) }
    }

    private fun transactions(call: ProviderCall): List<Map<String, Any>> {
        val start = call.args.getString("start_date")
        val end = call.args.optString("end_date", "9999-12-31")
        if (start > end) throw ProviderError(CetpCode.INVALID_ARGS, "start_date $start is after end_date $end")
        return Portfolio.transactions(start, end).take(call.args.optInt("limit", 50))
    }
}

/** How consumers find the provider; the manifest's filter and meta-data say all. */
class ToolProviderService : org.handspan.cetp.ToolProviderService()

/** Starts this app's process after a boot. */
class BootReceiver : org.handspan.cetp.BootReceiver()
