package org.handspan.test

import android.os.Bundle
import com.example.myfinance.cetp.ToolProvider
import com.example.myfinance.cetp.financeAccess
import org.handspan.bridge.AndroidTransport
import org.handspan.cetp.Access
import org.handspan.cetp.CetpCode
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpSuccess
import org.handspan.cetp.Consumer
import org.handspan.cetp.Others
import org.handspan.cetp.ProviderError
import org.handspan.json.items
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject

private fun extras(tool: String?, args: String? = null, id: String = "") = Bundle().apply {
    tool?.let { putString("tool_name", it) }
    args?.let { putString("args", it) }
    if (id.isNotEmpty()) putString("request_id", id)
}

private class CountingProvider(limit: Int) : org.handspan.cetp.ToolProvider("Counter", callsPerMinute = limit) {
    var runs = 0

    override fun declareTools() {
        tool("count", "Count") { ++runs }
        tool("fail", "Fail") { throw IllegalStateException("broken") }
        tool("odd", "Odd") { Any() }
    }
}

private fun Bundle.code() = getString("error_code")

fun Checks.providers() {
    check("MyFinance lists its tools, says what it is, and answers once the person agreed") {
        val phone = FakePhone()
        val provider = ToolProvider().apply { attach(phone) }
        val listed = parseObject(provider.call("list_tools", null, null).getString("data")!!).items("tools").map { (it as JSONObject).text("name") }
        expect(listOf("get_portfolio_holdings", "get_transactions"), listed)
        expect("MyFinance", parseObject(provider.call("get_provider_info", null, null).getString("data")!!).text("provider_name"))
        val refused = provider.call("execute_tool", null, extras("get_portfolio_holdings"))
        expect("AUTH_REQUIRED", refused.code())
        expect("com.example.myfinance.ACTION_AUTHORIZE_CLAWSEED", refused.getString("authorize_intent"))
        expect(listOf(CONSUMER), financeAccess.asking(phone))
        financeAccess.grant(phone, CONSUMER)
        val answer = provider.call("execute_tool", null, extras("get_portfolio_holdings", """{"account_type":"fund"}"""))
        claim("World Fund" in answer.getString("data")!! && "Acme" !in answer.getString("data")!!, answer.getString("data")!!)
        expect("INVALID_ARGS", provider.call("execute_tool", null, extras("get_transactions")).code())
        expect("INVALID_ARGS", provider.call("execute_tool", null, extras("get_portfolio_holdings", """{"account_type":"x"}""")).code())
        expect("INVALID_ARGS", provider.call("execute_tool", null, extras("get_portfolio_holdings", "{")).code())
        expect("missing tool_name", provider.call("execute_tool", null, null).getString("error_message"))
        expect("TOOL_NOT_FOUND", provider.call("execute_tool", null, extras("nope")).code())
        expect("TOOL_NOT_FOUND", provider.call("later_method", null, null).code())
        financeAccess.revoke(phone, CONSUMER)
        expect("AUTH_REQUIRED", provider.call("execute_tool", null, extras("get_portfolio_holdings")).code())
    }
    check("calls are limited, the same id gets the same answer, and failures are errors") {
        val provider = CountingProvider(4).apply { attach(FakePhone()) }
        val first = List(3) { provider.call("execute_tool", null, extras("count", id = "r1")).getString("data") }
        expect(listOf<String?>("1", "1", "1"), first)
        expect("INTERNAL_ERROR", provider.call("execute_tool", null, extras("fail")).code())
        expect("broken", provider.call("execute_tool", null, extras("fail")).getString("error_message"))
        claim("has no JSON form" in provider.call("execute_tool", null, extras("odd")).getString("error_message")!!, "no reason")
        expect("RATE_LIMITED", provider.call("execute_tool", null, extras("count")).code())
        expect(1, provider.runs)
    }
    check("access: lists win, grants expire") {
        val phone = FakePhone()
        var now = 0L
        val consumer = Consumer(10001, listOf("a.b"))
        val access = Access(Others.ASK, deny = setOf("x.y"), validForMs = 100, now = { now })
        expect(CetpCode.AUTH_REQUIRED, expectThrown<ProviderError> { access.check(phone, consumer) }.answer.code)
        access.grant(phone, "a.b")
        access.check(phone, consumer)
        now = 100
        expect(CetpCode.AUTH_REQUIRED, expectThrown<ProviderError> { access.check(phone, consumer) }.answer.code)
        expect(CetpCode.PERMISSION_DENIED, expectThrown<ProviderError> { access.check(phone, Consumer(7, listOf("x.y"))) }.answer.code)
        expect(CetpCode.PERMISSION_DENIED, expectThrown<ProviderError> { Access(Others.DENY).check(phone, consumer) }.answer.code)
        Access(Others.DENY, allow = setOf("a.b")).check(phone, consumer)
    }
    check("the consumer finds apps, calls them, and counts what they throw as the protocol says") {
        val phone = FakePhone()
        val counter = phone.install("com.example.counter", CountingProvider(9))
        phone.install("com.example.future", null, version = "2")
        phone.install("com.example.odd", null, version = "one")
        phone.install("com.example.silent", null, authority = null)
        val transport = AndroidTransport(phone)
        val found = transport.apps().associateBy { it.label }
        claim("version 2" in found.getValue("future").problem, "future")
        claim("write 1" in found.getValue("odd").problem, "odd")
        claim("is missing" in found.getValue("silent").problem, "silent")
        val app = found.getValue("counter")
        expect("1", (transport.call(app, "execute_tool", mapOf("tool_name" to "count")) as CetpSuccess).data)
        counter.problem = SecurityException("Permission Denial")
        val denied = transport.call(app, "list_tools", null) as CetpError
        expect(CetpCode.PERMISSION_DENIED, denied.code)
        claim("ACCESS_TOOLS" in denied.message, denied.message)
        counter.problem = IllegalStateException("dead")
        claim((transport.call(app, "list_tools", null) as CetpError).isUnanswered, "it is answered")
        phone.apps.remove("com.example.counter")
        claim((transport.call(app, "list_tools", null) as CetpError).isUnanswered, "it is answered")
    }
}
