package org.handspan.test

import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpResponse
import org.handspan.cetp.CetpSuccess
import org.handspan.cetp.ProviderError
import org.handspan.cetp.labelOf
import org.handspan.cetp.readExtras
import org.handspan.cetp.readInfo
import org.handspan.cetp.readResponse
import org.handspan.cetp.readTools
import org.handspan.json.JsonError
import org.handspan.json.canonical
import org.handspan.json.child
import org.handspan.json.encodeJson
import org.handspan.json.items
import org.handspan.json.parseJson
import org.handspan.json.parseObject
import org.handspan.json.text
import org.handspan.json.texts
import org.json.JSONArray
import org.json.JSONObject
import java.io.File

/** Every case of `protocol/vectors/cetp` but the manifests, which only the desktop has. */
fun Checks.cetpVectors(folder: File) {
    for (file in folder.listFiles().orEmpty().sorted()) {
        for (case in parseObject(file.readText()).items("cases").filterIsInstance<JSONObject>()) {
            val steps = case.items("steps").filterIsInstance<JSONObject>().filterNot { it.has("manifest") }
            if (steps.isNotEmpty()) check("${file.name}: ${case.text("name")}") { steps.forEach { play(it) } }
        }
    }
}

private fun play(step: JSONObject) {
    when {
        step.has("request") -> playRequest(step)
        step.has("response") -> playResponse(step)
        step.has("tools") -> playTools(step)
        step.has("info") -> playInfo(step)
        step.has("label") -> expect(step.text("is"), labelOf(step.text("label")))
        else -> throw AssertionError("an unknown step: $step")
    }
}

/** On Android a request is a method and a bundle, so only its extras are read. */
private fun playRequest(step: JSONObject) {
    val request = step.opt("request") as? JSONObject ?: return
    if (step.has("refused")) return
    val extras = request.child("extras")
    val read = { readExtras { key -> extras?.opt(key).takeUnless { it == JSONObject.NULL } } }
    if (step.has("answers")) {
        val error = expectThrown<ProviderError> { read() }.answer
        expect(step.text("answers"), error.code.name)
        return claim(step.text("says") in error.message, "'${error.message}' does not say '${step.text("says")}'")
    }
    val wanted = step.child("reads") ?: return
    if (request.text("method") != "execute_tool") return
    val call = read()
    expect(wanted.text("tool_name"), call.toolName)
    expect(canonical(wanted.get("arguments")), canonical(call.arguments))
    expect(wanted.text("request_id"), call.requestId)
}

private fun responseOf(given: Any): CetpResponse {
    val value = try {
        if (given is String) parseJson(given) else given
    } catch (error: JsonError) {
        JSONObject.NULL
    }
    return readResponse { (value as? JSONObject)?.opt(it).takeUnless { one -> one == JSONObject.NULL } }
}

private fun playResponse(step: JSONObject) {
    val response = responseOf(step.get("response"))
    if (step.has("value")) return expect(canonical(step.get("value")), canonical((response as CetpSuccess).value))
    val error = response as CetpError
    expect(step.text("error"), error.code.name)
    if (step.has("code")) expect(step.text("code"), error.code.code)
    if (step.has("text")) expect(step.text("text"), error.text)
    if (step.has("intent")) expect(step.text("intent"), error.intent)
    claim(!error.isUnanswered, "it counts as unanswered")
}

private fun dataOf(given: Any) = CetpSuccess(given as? String ?: encodeJson(given))

private fun playTools(step: JSONObject) {
    val data = dataOf(step.get("tools"))
    if (step.has("fails")) return Unit.also { expectThrown<JsonError> { readTools(data) } }
    val found = readTools(data)
    val shown = JSONArray(
        found.tools.map {
            JSONObject().put("name", it.name).put("description", it.description).put("parameters", it.parameters).put("only_reads", it.onlyReads)
        },
    )
    expect(canonical(step.get("reads")), canonical(shown))
    expect(step.texts("left_out"), found.leftOut.map { it.first })
}

private fun playInfo(step: JSONObject) {
    val data = dataOf(step.get("info"))
    if (step.has("fails")) return Unit.also { expectThrown<JsonError> { readInfo(data) } }
    val info = readInfo(data)
    val scopes = JSONArray(info.scopes.map { (name, text) -> JSONObject().put("name", name).put("description", text) })
    val shown = JSONObject().put("provider_name", info.name).put("description", info.description).put("scopes", scopes)
    expect(canonical(step.get("reads")), canonical(shown))
}
