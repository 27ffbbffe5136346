package org.handspan.test

import org.handspan.json.JsonError
import org.handspan.json.encodeJson
import org.handspan.json.parseJson
import org.handspan.json.parseObject
import org.handspan.json.problemsOf
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class) // for org.json: Gradle gives a plain JVM stubs that throw
@Config(sdk = [35])
class JsonTest {
    @Test
    fun `what is no JSON is refused`() {
        val wrong = listOf(
            "", "{", "{a:1}", "{'a':1}", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "NaN", "1e999", "\"\\x\"", "\"\u0001\"", "[1] 2",
            "{\"a\":1,\"a\":2}", "tru", "\"\\u12g4\"", "// x\n1", "\"", "[".repeat(100_000),
        )
        for (text in wrong) assertThrows(text.take(20), JsonError::class.java) { parseJson(text) }
    }

    @Test
    fun `what is JSON stays the same`() {
        for (text in listOf("null", "[]", "{}", "-0", "1.5e3", "\"\\ud83d\\ude42\"", "  [1, {\"a\": [true, false, null]}] ")) {
            val value = parseJson(text)
            assertEquals(text, encodeJson(value), encodeJson(parseJson(encodeJson(value))))
        }
    }

    @Test
    fun `arguments are checked by their schema`() {
        val schema = parseObject(
            """{"type":"object","required":["n"],"additionalProperties":false,"properties":{"n":{"type":"integer","minimum":1},
            "kind":{"enum":["a",1]},"tags":{"type":"array","items":{"${'$'}ref":"#/${'$'}defs/tag"},"maxItems":2}},
            "${'$'}defs":{"tag":{"type":"string","pattern":"^[a-z]+${'$'}"}}}""",
        )
        for (fits in listOf("""{"n":1}""", """{"n":2.0,"kind":1.0,"tags":["a","b"]}""")) assertEquals("", problemsOf(schema, parseObject(fits)))
        for (not in listOf("""{}""", """{"n":0}""", """{"n":"1"}""", """{"n":1,"x":1}""", """{"n":1,"tags":["A"]}""", """{"n":1,"kind":"b"}""")) {
            assertTrue("$not passes", problemsOf(schema, parseObject(not)).startsWith("Invalid arguments: "))
        }
    }

    @Test
    fun `a schema that refers to itself ends`() {
        val schema = parseObject("""{"${'$'}ref":"#"}""")
        assertTrue("refers to itself" in problemsOf(schema, parseObject("{}")))
    }
}
