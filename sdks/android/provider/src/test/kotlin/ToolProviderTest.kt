package org.handspan.test

import android.content.pm.ProviderInfo
import android.os.Bundle
import org.handspan.cetp.Access
import org.handspan.cetp.Cetp
import org.handspan.cetp.CetpCode
import org.handspan.cetp.Consumer
import org.handspan.cetp.Others
import org.handspan.cetp.ProviderError
import org.handspan.cetp.ToolProvider
import org.handspan.json.items
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

class CountingProvider : ToolProvider("Counter", "Counts", mapOf("numbers" to "All numbers"), callsPerMinute = 5) {
    var runs = 0

    override fun declareTools() {
        tool("count", "Count", """{"type":"object","properties":{"by":{"type":"integer"}}}""") { ++runs }
        tool("fail", "Fail") { throw IllegalStateException("broken") }
        tool("odd", "Odd") { Any() }
        tool("large", "Large") { "x".repeat(Cetp.MAX_CHARACTERS) }
    }
}

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class ToolProviderTest {
    private val provider = Robolectric.buildContentProvider(CountingProvider::class.java).create(ProviderInfo().apply { authority = "a.b" }).get()
    private val context = RuntimeEnvironment.getApplication()

    private fun execute(tool: String?, args: String? = null, id: String = ""): Bundle = provider.call(
        "execute_tool",
        null,
        Bundle().apply {
            tool?.let { putString("tool_name", it) }
            args?.let { putString("args", it) }
            if (id.isNotEmpty()) putString("request_id", id)
        },
    )

    private fun Bundle.code() = getString("error_code")

    private fun Bundle.message() = getString("error_message")!!

    @Test
    fun `it lists its tools and says what it is`() {
        val listed = parseObject(provider.call("list_tools", null, null).getString("data")!!).items("tools").map { (it as JSONObject).text("name") }
        assertEquals(listOf("count", "fail", "odd", "large"), listed)
        assertEquals("Counter", parseObject(provider.call("get_provider_info", null, null).getString("data")!!).text("provider_name"))
    }

    @Test
    fun `bad calls have the code of the protocol`() {
        assertEquals("missing tool_name", provider.call("execute_tool", null, null).message())
        assertEquals("TOOL_NOT_FOUND", execute("nope").code())
        assertEquals("TOOL_NOT_FOUND", provider.call("later_method", null, null).code())
        assertEquals("INVALID_ARGS", execute("count", "{").code())
        assertEquals("INVALID_ARGS", execute("count", """{"by":"x"}""").code())
    }

    @Test
    fun `calls are limited, the same id gets the same answer, and failures are errors`() {
        assertEquals(listOf("1", "1", "1"), List(3) { execute("count", id = "r1").getString("data") })
        assertEquals("INTERNAL_ERROR" to "broken", execute("fail").let { it.code() to it.message() })
        assertTrue(execute("odd").message(), "has no JSON form" in execute("odd").message())
        assertEquals("INTERNAL_ERROR", execute("fail").code())
        assertEquals("RATE_LIMITED", execute("count").code())
        assertEquals(1, provider.runs)
    }

    @Test
    fun `an answer that Android can't carry is refused in words`() {
        val refused = execute("large")
        assertEquals("INTERNAL_ERROR", refused.code())
        assertTrue(refused.message(), "400002 characters" in refused.message() && "ask for a smaller part" in refused.message())
    }

    @Test
    fun `lists win, and grants expire`() {
        var now = 0L
        val consumer = Consumer(10001, listOf("a.b"))
        val access = Access(Others.ASK, deny = setOf("x.y"), validForMs = 100, now = { now })
        fun code(check: () -> Unit) = assertThrows(ProviderError::class.java) { check() }.answer.code
        assertEquals(CetpCode.AUTH_REQUIRED, code { access.check(context, consumer) })
        assertEquals(listOf("a.b"), access.asking(context))
        access.grant(context, "a.b")
        access.check(context, consumer)
        now = 100
        assertEquals(CetpCode.AUTH_REQUIRED, code { access.check(context, consumer) })
        assertEquals(CetpCode.PERMISSION_DENIED, code { access.check(context, Consumer(7, listOf("x.y"))) })
        assertEquals(CetpCode.PERMISSION_DENIED, code { Access(Others.DENY).check(context, consumer) })
        Access(Others.DENY, allow = setOf("a.b")).check(context, consumer)
    }
}
