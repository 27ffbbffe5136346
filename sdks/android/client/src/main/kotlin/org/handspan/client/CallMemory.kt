package org.handspan.client

import org.handspan.json.JsonError
import org.handspan.json.items
import org.handspan.json.number
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONArray
import org.json.JSONObject

/** `ANSWERED`: not acknowledged yet. `OVER`: acknowledged, or the answer is not needed. */
internal enum class Stage(val word: String) { STARTED("started"), ANSWERED("answered"), OVER("over") }

private class SeenCall(val id: String, val at: Double, val stage: Stage, val retry: Int, val answer: JSONObject?)

/** The resume token and the calls that must not run twice (ws.md 6): 1,000 calls of the last hour at most. */
internal class CallMemory(saved: String?, private val now: () -> Double = { System.currentTimeMillis() / 1000.0 }) {
    /** The token with which the client resumes its connection. */
    var resumeToken = ""
    private val seen = LinkedHashMap<String, SeenCall>()

    init {
        try {
            if (!saved.isNullOrEmpty()) decode(parseObject(saved))
        } catch (error: JsonError) {
            seen.clear() // another text counts as nothing
        }
    }

    /** The text to save, in the form of the Python SDK's state file. */
    fun encode(): String {
        val calls = JSONArray()
        for (one in seen.values) {
            val call = JSONObject().put("id", one.id).put("at", one.at).put("stage", one.stage.word).put("retry", one.retry)
            calls.put(call.put("answer", one.answer?.toString() ?: ""))
        }
        return JSONObject().put("v", 1).put("resume_token", resumeToken).put("seen", calls).toString()
    }

    /** The stage of this call; null when the client has not seen it, or has forgotten it. */
    fun stage(id: String): Stage? = seen[id]?.stage

    /** How often the person had logged in when this call was last run. */
    fun retry(id: String): Int = seen[id]?.retry ?: 0

    /** The answer of this call that is not acknowledged yet. */
    fun findAnswer(id: String): JSONObject? = seen[id]?.answer

    /** Remember that the code of this call is about to run. */
    fun start(id: String, retry: Int) = put(SeenCall(id, now(), Stage.STARTED, retry, null))

    /** Remember this answer until it is acknowledged. */
    fun answer(frame: JSONObject) {
        val id = frame.text("id")
        put(SeenCall(id, now(), Stage.ANSWERED, retry(id), frame))
    }

    /** Forget the answer of this call. The id stays, so that the call does not run again. */
    fun close(id: String) = put(SeenCall(id, now(), Stage.OVER, retry(id), null))

    /** The answers to send again, the oldest first. */
    fun unacknowledged(): List<JSONObject> = seen.values.mapNotNull { it.answer }

    private fun decode(kept: JSONObject) {
        resumeToken = kept.text("resume_token")
        for (one in kept.items("seen").filterIsInstance<JSONObject>()) {
            val stage = Stage.values().find { it.word == one.text("stage") } ?: continue
            val answer = one.text("answer").ifEmpty { null }?.let { parseObject(it) }
            put(SeenCall(one.text("id"), one.number("at")?.toDouble() ?: 0.0, stage, one.number("retry")?.toInt() ?: 0, answer))
        }
    }

    private fun put(call: SeenCall) {
        seen.remove(call.id) // in the order of the last change
        seen[call.id] = call
        val oldest = now() - MAX_AGE
        val calls = seen.values.iterator()
        while (calls.hasNext() && (calls.next().at < oldest || seen.size > MAX_CALLS)) calls.remove()
    }

    private companion object {
        const val MAX_CALLS = 1000
        const val MAX_AGE = 3600.0
    }
}
