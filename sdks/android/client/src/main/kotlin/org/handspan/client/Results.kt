package org.handspan.client

import org.handspan.json.JsonError
import org.handspan.json.copy
import org.handspan.json.depthOf
import org.handspan.json.encodeJson
import org.handspan.json.items
import org.handspan.json.plain
import org.handspan.json.putSome
import org.handspan.json.sizeOf
import org.handspan.json.text
import org.json.JSONArray
import org.json.JSONObject
import java.util.Base64

/** Makes the frame of an answer from what a handler returned (ws.md 5.2, 5.10, 5.12). [upload] gives the id of an artifact. */
internal class ResultEncoder(private val upload: (MediaFile) -> String) {

    /** The answer with this value. Throws [ToolError] when it can't be sent. */
    fun encode(id: String, value: Any?, capabilities: Set<String>, limits: WireLimits): JSONObject {
        var (output, files) = split(value)
        if (files.isNotEmpty() && "parts" !in capabilities) {
            val note = "(${files.size} attachment(s) could not be sent: this gateway takes text alone.)"
            output = listOf(textOf(output), note).filter { it.isNotEmpty() }.joinToString("\n")
            files = emptyList()
        }
        if (capabilities.isEmpty()) output = textOf(output) // a gateway without capabilities takes text only
        val frame = JSONObject().put("type", "tool_result").put("id", id).put("output", output).put("success", true)
        if (files.isNotEmpty()) frame.put("parts", encodeParts(files, limits))
        val answer = shrink(frame, capabilities, limits)
        if (depthOf(answer.get("output")) >= limits.depth) {
            val text = "The tool ran, but its result is nested deeper than ${limits.depth}: give it a flatter form."
            throw ToolError("execution_failed", text)
        }
        return answer
    }

    /** The answer, small enough for one message: large contents are uploaded. Throws [ToolError] when none fits. */
    fun shrink(answer: JSONObject, capabilities: Set<String>, limits: WireLimits): JSONObject {
        if (limits.fits(answer)) return answer
        val output = answer.get("output")
        val size = textOf(output).toByteArray().size
        var small = answer
        if ("parts" in capabilities) {
            if (sizeOf(output) > limits.messageBytes / 2) small = uploadOutput(small)
            if (!limits.fits(small)) small = small.copy().put("parts", JSONArray(small.items("parts").map { uploadPart(it as JSONObject) }))
        }
        if (limits.fits(small)) return small
        throw ToolError(
            "execution_failed",
            "The tool ran, but its result of $size bytes is too large to be sent: a message to the gateway has at most " +
                "${limits.messageBytes} bytes. Ask it for a smaller part, or let it return less.",
        )
    }

    private fun uploadOutput(answer: JSONObject): JSONObject {
        val output = answer.get("output")
        val (type, name) = if (output is String) "text/plain" to "result.txt" else "application/json" to "result.json"
        val data = textOf(output).toByteArray()
        val part = JSONObject().put("kind", "file").put("media_type", type).put("name", name)
        part.put("artifact", upload(MediaFile(data, type, name)))
        val parts = JSONArray(answer.items("parts") + part)
        return answer.copy().put("output", "The result has ${data.size} bytes and came as the file '$name'.").put("parts", parts)
    }

    private fun uploadPart(part: JSONObject): JSONObject {
        val data = part.text("data").ifEmpty { return part }
        val file = MediaFile(Base64.getDecoder().decode(data), part.text("media_type"), part.text("name"))
        return part.copy().put("artifact", upload(file)).also { it.remove("data") }
    }

    private fun encodeParts(files: List<MediaFile>, limits: WireLimits): JSONArray {
        var left = minOf(MAX_INLINE, limits.messageBytes / INLINE_SHARE)
        val parts = files.map { file ->
            val part = JSONObject().put("kind", file.kind).put("media_type", file.mediaType).putSome("name", file.name)
            if (file.data.size <= left) {
                left -= file.data.size
                part.put("data", Base64.getEncoder().encodeToString(file.data))
            } else {
                part.put("artifact", upload(file))
            }
        }
        return JSONArray(parts)
    }

    private fun split(value: Any?): Pair<Any, List<MediaFile>> {
        try {
            if (value is MediaFile) return "" to listOf(value)
            val files = (value as? List<*>)?.filterIsInstance<MediaFile>() ?: emptyList()
            if (files.isEmpty()) return plain(value) to emptyList()
            val others = (value as List<*>).filterNot { it is MediaFile }
            return (if (others.size == 1) plain(others[0]) else if (others.isEmpty()) "" else plain(others)) to files
        } catch (error: JsonError) {
            throw ToolError("execution_failed", "The tool ran, but its result can't be sent: ${error.message}.")
        }
    }

    private companion object {
        /** Bytes of files that one frame carries at most. Files beyond that are uploaded. */
        const val MAX_INLINE = 256 * 1024

        /** Files take at most this part of a message: a quarter, which base64 makes a third. */
        const val INLINE_SHARE = 4
    }
}

/** The answer with the error that a handler threw (ws.md 5.5), or the one that keeps the call open for a login (5.13). */
internal fun encodeError(request: JSONObject, thrown: Throwable, capabilities: Set<String>): JSONObject {
    val id = request.text("id")
    val text = thrown.message?.ifEmpty { null } ?: thrown.javaClass.simpleName
    if (thrown !is LoginRequired) return toolError(id, text, (thrown as? ToolError)?.code ?: "")
    if ("login" !in capabilities) return toolError(id, if (thrown.hint.isEmpty()) text else "$text — ${thrown.hint}", thrown.code)
    val answer = toolError(id, text, thrown.code)
    answer.putSome("resolution_hint", thrown.hint.take(MAX_HINT)).putSome("authorize_intent", thrown.intent.take(MAX_HINT))
    return if (retryOf(request) > 0) answer.put("retry", retryOf(request)) else answer
}

private const val MAX_HINT = 1000

private fun textOf(value: Any): String = value as? String ?: encodeJson(value)
