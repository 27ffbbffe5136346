package org.handspan.test

import org.handspan.client.readPairingLink
import org.handspan.json.JsonError
import org.handspan.json.encodeJson
import org.handspan.json.parseJson
import org.handspan.json.parseObject
import org.handspan.json.problemsOf

fun Checks.strictJson() {
    val wrong = listOf(
        "", "{", "{a:1}", "{'a':1}", "[1,]", "{\"a\":1,}", "01", "1.", "+1", "NaN", "1e999", "\"\\x\"", "\"\u0001\"", "[1] 2",
        "{\"a\":1,\"a\":2}", "tru", "\"\\u12g4\"", "// x\n1", "\"", "[".repeat(100_000),
    )
    for (text in wrong) check("no JSON: ${text.take(20)}") { expectThrown<JsonError> { parseJson(text) } }
    for (text in listOf("null", "[]", "{}", "-0", "1.5e3", "\"\\ud83d\\ude42\"", "  [1, {\"a\": [true, false, null]}] ")) {
        check("JSON: $text") { parseJson(encodeJson(parseJson(text))) }
    }
    check("arguments are checked by their schema") {
        val schema = parseObject(
            """{"type":"object","required":["n"],"additionalProperties":false,"properties":{"n":{"type":"integer","minimum":1},
            "kind":{"enum":["a",1]},"tags":{"type":"array","items":{"${'$'}ref":"#/${'$'}defs/tag"},"maxItems":2}},
            "${'$'}defs":{"tag":{"type":"string","pattern":"^[a-z]+${'$'}"}}}""",
        )
        for (fits in listOf("""{"n":1}""", """{"n":2.0,"kind":1.0,"tags":["a","b"]}""")) expect("", problemsOf(schema, parseObject(fits)))
        for (not in listOf("""{}""", """{"n":0}""", """{"n":"1"}""", """{"n":1,"x":1}""", """{"n":1,"tags":["A"]}""", """{"n":1,"kind":"b"}""")) {
            claim(problemsOf(schema, parseObject(not)).startsWith("Invalid arguments: "), "$not passes")
        }
    }
    check("a schema that refers to itself ends") {
        val schema = parseObject("""{"${'$'}ref":"#"}""")
        claim("refers to itself" in problemsOf(schema, parseObject("{}")), "it passes")
    }
}

fun Checks.pairingLinks() {
    check("a pairing link has the address and the code") {
        expect("https://10.0.0.7:42617/x" to "1234-5678", readPairingLink("https://10.0.0.7:42617/x/device#code=1234-5678"))
        expectThrown<IllegalArgumentException> { readPairingLink("https://10.0.0.7/device?code=1") }
    }
}
