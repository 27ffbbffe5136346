package org.handspan.test

import org.handspan.cetp.ProviderError
import org.handspan.cetp.readExtras
import org.handspan.json.canonical
import org.handspan.json.child
import org.handspan.json.items
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.io.File

/** The requests of `protocol/vectors/cetp`. On Android one is a method and a bundle, so only its extras are read. */
@RunWith(RobolectricTestRunner::class) // for org.json: Gradle gives a plain JVM stubs that throw
@Config(sdk = [35])
class RequestVectorsTest {
    @Test
    fun `requests are read as the cases say`() {
        var played = 0
        for (file in File(System.getProperty("protocol.folder"), "vectors/cetp").listFiles().orEmpty().sorted()) {
            for (case in parseObject(file.readText()).items("cases").filterIsInstance<JSONObject>()) {
                val steps = case.items("steps").filterIsInstance<JSONObject>().filter { it.opt("request") is JSONObject && !it.has("refused") }
                for (step in steps) if (play("${file.name}: ${case.text("name")}", step)) played++
            }
        }
        assertTrue("only $played were played", played > 5)
    }

    private fun play(name: String, step: JSONObject): Boolean {
        val request = step.child("request")!!
        val extras = request.child("extras")
        val read = { readExtras { key -> extras?.opt(key).takeUnless { it == JSONObject.NULL } } }
        if (step.has("answers")) {
            val error = assertThrows(name, ProviderError::class.java) { read() }.answer
            assertEquals(name, step.text("answers"), error.code.name)
            assertTrue("$name: '${error.message}'", step.text("says") in error.message)
            return true
        }
        val wanted = step.child("reads") ?: return false
        if (request.text("method") != "execute_tool") return false
        val call = read()
        assertEquals(name, wanted.text("tool_name"), call.toolName)
        assertEquals(name, canonical(wanted.get("arguments")), canonical(call.arguments))
        assertEquals(name, wanted.text("request_id"), call.requestId)
        return true
    }
}
