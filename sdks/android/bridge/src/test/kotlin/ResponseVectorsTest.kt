package org.handspan.test

import org.handspan.bridge.isUnanswered
import org.handspan.bridge.labelOf
import org.handspan.bridge.readInfo
import org.handspan.bridge.readResponse
import org.handspan.bridge.readTools
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpResponse
import org.handspan.cetp.CetpSuccess
import org.handspan.json.JsonError
import org.handspan.json.canonical
import org.handspan.json.encodeJson
import org.handspan.json.items
import org.handspan.json.parseJson
import org.handspan.json.parseObject
import org.handspan.json.text
import org.handspan.json.texts
import org.json.JSONArray
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.io.File

/** What a consumer reads, by every case of `protocol/vectors/cetp`. Requests are the provider's; manifests only the desktop has. */
@RunWith(RobolectricTestRunner::class) // for org.json: Gradle gives a plain JVM stubs that throw
@Config(sdk = [35])
class ResponseVectorsTest {
    @Test
    fun `responses, tools, descriptions and labels are read as the cases say`() {
        var played = 0
        for (file in File(System.getProperty("protocol.folder"), "vectors/cetp").listFiles().orEmpty().sorted()) {
            for (case in parseObject(file.readText()).items("cases").filterIsInstance<JSONObject>()) {
                for (step in case.items("steps").filterIsInstance<JSONObject>()) if (play("${file.name}: ${case.text("name")}", step)) played++
            }
        }
        assertTrue("only $played were played", played > 20)
    }

    private fun play(name: String, step: JSONObject): Boolean {
        when {
            step.has("response") -> playResponse(name, step)
            step.has("tools") -> playTools(name, step)
            step.has("info") -> playInfo(name, step)
            step.has("label") -> assertEquals(name, step.text("is"), labelOf(step.text("label")))
            step.has("request") || step.has("manifest") -> return false
            else -> throw AssertionError("an unknown step: $step")
        }
        return true
    }

    private fun responseOf(given: Any): CetpResponse {
        val value = try {
            if (given is String) parseJson(given) else given
        } catch (error: JsonError) {
            JSONObject.NULL
        }
        return readResponse { (value as? JSONObject)?.opt(it).takeUnless { one -> one == JSONObject.NULL } }
    }

    private fun playResponse(name: String, step: JSONObject) {
        val response = responseOf(step.get("response"))
        if (step.has("value")) return assertEquals(name, canonical(step.get("value")), canonical((response as CetpSuccess).value))
        val error = response as CetpError
        assertEquals(name, step.text("error"), error.code.name)
        if (step.has("code")) assertEquals(name, step.text("code"), error.code.code)
        if (step.has("text")) assertEquals(name, step.text("text"), error.text)
        if (step.has("intent")) assertEquals(name, step.text("intent"), error.intent)
        assertFalse("$name: it counts as unanswered", error.isUnanswered)
    }

    private fun dataOf(given: Any) = CetpSuccess(given as? String ?: encodeJson(given))

    private fun playTools(name: String, step: JSONObject) {
        val data = dataOf(step.get("tools"))
        if (step.has("fails")) return Unit.also { assertThrows(name, JsonError::class.java) { readTools(data) } }
        val found = readTools(data)
        val shown = JSONArray(
            found.tools.map {
                JSONObject().put("name", it.name).put("description", it.description).put("parameters", it.parameters).put("only_reads", it.onlyReads)
            },
        )
        assertEquals(name, canonical(step.get("reads")), canonical(shown))
        assertEquals(name, step.texts("left_out"), found.leftOut.map { it.first })
    }

    private fun playInfo(name: String, step: JSONObject) {
        val data = dataOf(step.get("info"))
        if (step.has("fails")) return Unit.also { assertThrows(name, JsonError::class.java) { readInfo(data) } }
        val info = readInfo(data)
        val scopes = JSONArray(info.scopes.map { (one, text) -> JSONObject().put("name", one).put("description", text) })
        val shown = JSONObject().put("provider_name", info.name).put("description", info.description).put("scopes", scopes)
        assertEquals(name, canonical(step.get("reads")), canonical(shown))
    }
}
