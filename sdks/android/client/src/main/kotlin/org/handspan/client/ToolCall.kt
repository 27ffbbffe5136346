package org.handspan.client

import org.json.JSONObject

/** A call, as a handler gets it. */
class ToolCallRequest(val id: String, val name: String, val args: JSONObject, val context: CallContext)

/** What a handler may do while its call runs. */
interface CallContext {
    /** Whether the result is not needed any more. The handler's thread is interrupted then, too. */
    val isCancelled: Boolean

    /** Shows a value to the person who waits, and gives the call more time (ws.md 5.7). */
    fun progress(value: Any?)
}

/** What a handler returns. */
sealed class ToolCallResult {
    /**
     * The call succeeded. [output]: a text, a number, a Boolean, null, a Map, a List, a `JSONObject`, a `JSONArray`, a
     * [MediaFile], or a List with media files beside other values.
     */
    class Success(val output: Any? = "") : ToolCallResult()

    /** The call failed. [code]: one of ws.md 5.5, such as `rate_limited`. */
    class Failure(val error: String, val code: String = "") : ToolCallResult()
}

/** Runs the calls of a client's tools. */
fun interface ToolCallHandler {
    fun handleToolCall(request: ToolCallRequest): ToolCallResult
}

/** A picture, a sound or another file as a tool's result. */
class MediaFile(val data: ByteArray, val mediaType: String, val name: String = "") {
    internal val kind: String
        get() = mediaType.substringBefore('/').let { if (it == "image" || it == "audio") it else "file" }
}

/** Thrown by a handler: the call failed, with this code (ws.md 5.5). */
open class ToolError(val code: String, message: String) : Exception(message)

/** Thrown by a handler: the person has to log in first. The gateway asks them, and then sends the call again. */
class LoginRequired(message: String, val hint: String = "", val intent: String = "") : ToolError("auth_required", message)

/** The person wants to begin the login that a call waits for (ws.md 5.13). */
class LoginRequest(val callId: String, val intent: String, val hint: String)

/** Begins a login: opens a page or an app. It need not wait for its end, which the person tells the gateway. */
fun interface StartLogin {
    fun start(request: LoginRequest)
}
