package org.handspan.client

import org.handspan.json.child
import org.handspan.json.copy
import org.handspan.json.flag
import org.handspan.json.items
import org.handspan.json.number
import org.handspan.json.problemsOf
import org.handspan.json.putSome
import org.handspan.json.text
import org.handspan.json.texts
import org.json.JSONArray
import org.json.JSONObject

/** A call whose code has not ended yet. */
private class OpenCall(val request: JSONObject, val ms: Long) {
    var isRunning = false

    /** It is answered, or its answer is not needed; its code may still run. */
    var isSettled = false
    val id = request.text("id")
    val name = request.text("name")
}

/**
 * The client's side of ws.md: frames in, actions out. No socket, no clock, no code of tools; one thread uses it.
 * It keeps answers until they are acknowledged. After a drop or a restart it knows what to send again, and what not to run
 * again.
 */
internal class ClientState(
    private val introduction: JSONObject,
    private val tools: ClientTools,
    private val memory: CallMemory,
    private val concurrency: Int,
) {
    var isConnected = false
        private set

    /** The capabilities that both ends have. */
    var capabilities = emptySet<String>()
        private set
    var limits = WireLimits()
        private set
    var label = ""
        private set

    /** Tools that the gateway did not take, and why. */
    val rejected = LinkedHashMap<String, String>()

    /** What people should know about this device. */
    private var notes: JSONObject? = null
    private var isOpen = false
    private val calls = LinkedHashMap<String, OpenCall>()
    private val permissions = LinkedHashMap<String, JSONObject?>()

    // The link.

    /** A link is open: introduce the client and offer its tools, without waiting (ws.md 1.5). */
    fun openLink(): List<Action> {
        isOpen = true
        rejected.clear()
        val hello = introduction.copy().putSome("resume", memory.resumeToken)
        return listOf(Action.Send(hello)) + offerFrames(tools.all())
    }

    /** The link has dropped, and with it all frames that were not sent yet. */
    fun dropLink() {
        isOpen = false
        isConnected = false
        if ("resume" in capabilities) return
        calls.values.forEach { it.isSettled = true } // ws.md 6.6: the gateway has ended its calls
        calls.values.removeAll { !it.isRunning }
    }

    fun receive(frame: JSONObject): List<Action> = when (frame.text("type")) {
        "tool_call_request" -> receiveRequest(frame)
        "result_acknowledged" -> receiveAcknowledged(listOf(frame.text("id")) + frame.texts("ids"))
        "tool_cancel" -> receiveCancel(frame.text("id"))
        "permission_request" -> receivePermission(frame)
        "login_start" -> listOf(Action.Login(loginRequest(frame.text("call_id"))))
        "question_closed" -> stopAsking(listOf(frame.text("id")))
        "channel_message" -> {
            val message = ChannelMessage(frame.text("channel"), frame.text("chat_id"), frame.text("content"))
            listOf(Action.Show(message))
        }
        "connected" -> receiveConnected(frame)
        "tools_registered" -> {
            for (one in frame.items("rejected").filterIsInstance<JSONObject>()) rejected[one.text("name")] = one.text("reason")
            emptyList()
        }
        else -> emptyList() // ws.md 2.2
    }

    /** Tell people about this device, on this link and on every later one (ws.md 7.4). */
    fun describe(about: JSONObject): List<Action> {
        notes = about
        return if (isConnected && "about" in capabilities) listOf(Action.Send(about)) else emptyList()
    }

    // The tools.

    /** A tool was added, replaced or removed. */
    fun changeTool(name: String): List<Action> {
        if (!isOpen) return emptyList()
        tools.find(name)?.let { return offerFrames(listOf(it)) }
        if ("unregister" !in capabilities) return emptyList()
        return listOf(Action.Send(JSONObject().put("type", "unregister_tools").put("names", JSONArray(listOf(name)))))
    }

    // The calls.

    /** The code of a call has ended, with this answer; null when it was stopped. */
    fun finishCall(id: String, answer: JSONObject?): List<Action> {
        val call = calls.remove(id)
        if (call == null || call.isSettled) return startCalls()
        if (answer != null) return storeAnswer(answer) + startCalls()
        memory.close(id)
        return startCalls()
    }

    /** The code of a call reports a value. */
    fun reportProgress(id: String, value: Any): List<Action> {
        val call = calls[id]
        if (call == null || call.isSettled || !isConnected || "progress" !in capabilities) return emptyList()
        val frame = JSONObject().put("type", "tool_progress").put("id", id).put("value", limits.progressValue(value))
        val ms = tools.find(call.name)?.timeoutMs ?: call.ms // ws.md 5.7: progress restarts the timeout
        return listOf(Action.Send(frame), Action.SetTimeout(id, ms))
    }

    /** The call has timed out. */
    fun expireCall(id: String): List<Action> {
        val call = calls[id] ?: return emptyList()
        // The link dropped without `resume`: the handler may still hold the place of other calls.
        if (call.isSettled) return if (call.isRunning) listOf(Action.Stop(id)) else emptyList()
        call.isSettled = true
        val what = "Tool '${call.name}' did not"
        val limit = "within ${call.ms / 1000.0} s"
        if (call.isRunning) return listOf(Action.Stop(id)) + fail(id, "$what finish $limit.", "timeout")
        calls.remove(id)
        return fail(id, "$what begin $limit: this device is still busy with other calls.", "busy")
    }

    /** The person has answered a permission question. */
    fun answerPermission(id: String, answer: PermissionAnswer): List<Action> {
        if (id !in permissions) return emptyList()
        val frame = JSONObject().put("type", "permission_answer").put("id", id).put("decision", answer.decision.word)
        frame.putSome("how_to_enable", limits.shorten(answer.howToEnable))
        permissions[id] = frame
        return if (isConnected) listOf(Action.Send(frame)) else emptyList()
    }

    /** Send this smaller form of an answer that did not fit into a message. */
    fun replaceAnswer(answer: JSONObject): List<Action> =
        if (memory.stage(answer.text("id")) == Stage.ANSWERED) storeAnswer(answer) else emptyList()

    // Frames.

    private fun receiveConnected(frame: JSONObject): List<Action> {
        isConnected = true
        capabilities = frame.texts("capabilities").toSet()
        limits = WireLimits(frame.child("limits"))
        label = frame.text("label")
        memory.resumeToken = frame.text("resume_token")
        val actions = mutableListOf<Action>(Action.Save)
        // A gateway that does not know the old link asks again where it has to.
        if (!frame.flag("resumed")) actions += stopAsking(permissions.keys.toList())
        for (answer in memory.unacknowledged()) actions += resendAnswer(answer)
        notes?.let { if ("about" in capabilities) actions += Action.Send(it) }
        return actions
    }

    /** Send an answer that an earlier link or process sent without an acknowledgement (ws.md 6.3). */
    private fun resendAnswer(answer: JSONObject): List<Action> {
        if ("resume" !in capabilities) {
            memory.close(answer.text("id")) // the gateway that asked for it has ended its call
            return emptyList()
        }
        if (limits.fits(answer)) return listOf(Action.Send(answer))
        // The limits of this gateway are lower than those of the earlier one: it would close every link on this answer.
        return if (answer.text("type") == "tool_error") storeAnswer(answer) else listOf(Action.Shrink(answer))
    }

    private fun receiveRequest(request: JSONObject): List<Action> {
        val id = request.text("id")
        val name = request.text("name")
        val isRetry = retryOf(request) > memory.retry(id) // ws.md 5.13
        val stage = memory.stage(id).takeUnless { isRetry && it == Stage.ANSWERED }
        if (id in calls || stage == Stage.ANSWERED || stage == Stage.OVER) return emptyList() // ws.md 6.3
        val tool = tools.find(name)
        if (stage != null && tool?.mayRepeat != true) { // ws.md 6.4: an earlier process started it
            return fail(id, "This device was restarted while it ran '$name': its outcome is unknown.", "unknown_outcome")
        }
        if (tool == null) return missing(id, name)
        if (tools.handler(name) == null) return fail(id, "No handler registered")
        val problems = problemsOf(tool.schema, argsOf(request))
        if (problems.isNotEmpty()) return fail(id, problems, "invalid_arguments")
        val ms = request.number("timeout_ms")?.toLong() ?: tool.timeoutMs
        calls[id] = OpenCall(request, ms)
        return listOf(Action.SetTimeout(id, ms)) + startCalls()
    }

    private fun receiveAcknowledged(ids: List<String>): List<Action> {
        val known = ids.filter { memory.stage(it) == Stage.ANSWERED }
        known.forEach { memory.close(it) }
        return if (known.isEmpty()) emptyList() else listOf(Action.Save)
    }

    private fun receiveCancel(id: String): List<Action> {
        val call = calls[id]
        if (call == null || call.isSettled) return emptyList()
        call.isSettled = true
        memory.close(id)
        if (call.isRunning) return listOf(Action.Stop(id))
        calls.remove(id)
        return emptyList()
    }

    private fun receivePermission(request: JSONObject): List<Action> {
        val id = request.text("id")
        if (id in permissions) return listOfNotNull(permissions[id]?.let { Action.Send(it) }) // asked again after a drop
        permissions[id] = null
        while (permissions.size > MAX_QUESTIONS) permissions.remove(permissions.keys.first())
        val question = PermissionQuestion(
            request.text("permission"),
            ownName(request.text("tool")),
            request.text("call_id"),
            request.child("arguments") ?: JSONObject(),
            request.text("agent"),
            request.number("expires_ms")?.toLong() ?: 0,
        )
        return listOf(Action.Ask(id, question))
    }

    /** Take back the questions of these that have no answer yet: their calls have ended (ws.md 5.9). */
    private fun stopAsking(ids: List<String>): List<Action> {
        val open = ids.filter { it in permissions && permissions[it] == null }
        open.forEach { permissions.remove(it) }
        return open.map { Action.Stop(it) }
    }

    private fun loginRequest(callId: String): LoginRequest {
        val answer = memory.findAnswer(callId)
        return LoginRequest(callId, answer?.text("authorize_intent") ?: "", answer?.text("resolution_hint") ?: "")
    }

    // Calls and tools.

    /** Start waiting calls while fewer than [concurrency] run, the oldest first. */
    private fun startCalls(): List<Action> {
        val actions = mutableListOf<Action>()
        var left = concurrency - calls.values.count { it.isRunning }
        for (call in calls.values.filterNot { it.isRunning }) {
            if (left < 1) break
            val tool = tools.find(call.name)
            if (tool == null || tools.handler(call.name) == null) {
                calls.remove(call.id) // it was unregistered while the call waited
                actions += missing(call.id, call.name)
                continue
            }
            left--
            call.isRunning = true
            memory.start(call.id, retryOf(call.request))
            val asksPerson = tool.permissions.isNotEmpty() && "permissions" !in capabilities
            actions += Action.Run(call.request, tool, !tool.mayRepeat, asksPerson)
        }
        return actions
    }

    private fun missing(id: String, name: String) = fail(id, "Tool '$name' is not available on this device.", "tool_not_found")

    private fun fail(id: String, error: String, code: String = "") = storeAnswer(toolError(id, error, code))

    /** Store the answer and send it. Without a link it is sent after the next connect. */
    private fun storeAnswer(given: JSONObject): List<Action> {
        val answer = limits.shortenError(given)
        memory.answer(answer)
        return if (isConnected) listOf(Action.Save, Action.Send(answer)) else listOf(Action.Save)
    }

    /** Frames with these tools, as many as needed. A tool that fits into no frame is rejected here. */
    private fun offerFrames(offered: List<ToolSpec>): List<Action> {
        val frames = mutableListOf<JSONArray>()
        var left = -1
        for (tool in offered) {
            val size = tool.size
            if (size > limits.space) {
                rejected[tool.name] = "It has $size bytes, and the gateway takes ${limits.messageBytes} in one message."
                continue
            }
            if (size > left) {
                frames += JSONArray()
                left = minOf(MAX_OFFERED, limits.space)
            }
            left -= size
            frames.last().put(tool.offer())
        }
        return frames.map { Action.Send(JSONObject().put("type", "register_tools").put("tools", it)) }
    }

    /** The client's own name of a tool that the gateway knows with the label before it (ws.md 7.1). */
    private fun ownName(name: String): String {
        val own = name.removePrefix("${label}__")
        return if (label.isNotEmpty() && tools.find(own) != null) own else name
    }

    private companion object {
        const val MAX_OFFERED = 256 * 1024
        const val MAX_QUESTIONS = 1000
    }
}

internal fun argsOf(request: JSONObject): JSONObject = request.child("args") ?: JSONObject()

internal fun retryOf(request: JSONObject): Int = request.number("retry")?.toInt() ?: 0
