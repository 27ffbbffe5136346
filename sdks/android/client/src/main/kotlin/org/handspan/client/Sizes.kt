package org.handspan.client

import org.handspan.json.copy
import org.handspan.json.number
import org.handspan.json.sizeOf
import org.handspan.json.text
import org.json.JSONObject

/** What the gateway takes of one message (ws.md 8.1). */
internal class WireLimits(given: JSONObject? = null) {
    val messageBytes: Int = given?.number("message_bytes")?.toInt() ?: (1024 * 1024)
    val depth: Int = given?.number("depth")?.toInt() ?: 64

    /** Bytes of one field that always fit into a message. */
    val space: Int get() = messageBytes - FRAME_OVERHEAD

    fun fits(frame: JSONObject): Boolean = sizeOf(frame) <= messageBytes

    /** The text, short enough for a message; a note says where it was cut. */
    fun shorten(text: String): String {
        val most = minOf(MAX_TEXT, maxOf(0, space) / MAX_CHARACTER_BYTES)
        if (text.length <= most) return text
        val mark = "… (cut: it had ${text.length} characters)"
        return text.take(maxOf(0, most - mark.length)) + mark
    }

    /** The answer with a text that fits, if it is an error. */
    fun shortenError(answer: JSONObject): JSONObject {
        if (answer.text("type") == "tool_result") return answer
        val short = answer.copy().put("error", shorten(answer.text("error")))
        if (answer.text("code").length > MAX_CODE) short.remove("code")
        return short
    }

    /** The reported value; a note in its place when it does not fit into a message. */
    fun progressValue(value: Any): Any {
        val size = sizeOf(value)
        return if (size <= space) value else "(progress of $size bytes: too large to be shown)"
    }

    private companion object {
        /** Bytes of a message for all fields besides the one that may be large. */
        const val FRAME_OVERHEAD = 300
        const val MAX_TEXT = 10_000
        const val MAX_CODE = 64

        /** Bytes that one character takes in JSON at most. */
        const val MAX_CHARACTER_BYTES = 6
    }
}

internal fun toolError(id: String, error: String, code: String = ""): JSONObject {
    val frame = JSONObject().put("type", "tool_error").put("id", id).put("error", error).put("success", false)
    return if (code.isEmpty()) frame else frame.put("code", code)
}
