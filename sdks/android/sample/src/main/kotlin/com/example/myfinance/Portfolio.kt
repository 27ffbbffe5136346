package com.example.myfinance

/** The data of the sample: a real app has a database here. */
object Portfolio {
    private val held = listOf(
        mapOf("name" to "Acme Rockets", "type" to "stock", "shares" to 12, "value" to 1830.40),
        mapOf("name" to "World Fund", "type" to "fund", "shares" to 40.5, "value" to 5823.95),
    )
    private val traded = listOf(
        mapOf("date" to "2026-03-02", "name" to "World Fund", "action" to "buy", "amount" to 500.0),
        mapOf("date" to "2026-01-15", "name" to "Acme Rockets", "action" to "sell", "amount" to 310.2),
    )

    fun holdings(type: String): List<Map<String, Any>> = held.filter { type == "all" || it["type"] == type }

    fun transactions(start: String, end: String): List<Map<String, Any>> = traded.filter { it["date"].toString() in start..end }
}
