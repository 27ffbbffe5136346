package org.handspan.client

import org.json.JSONObject

/** What a person said to a permission. */
enum class Decision(internal val word: String) {
    ALLOW("allow"),
    DENY("deny"),
    DENY_FOREVER("deny_forever"),
}

/** A question to the person at this device: may this tool use this permission now? */
class PermissionQuestion(
    val permission: String,
    val tool: String,
    val callId: String,
    val arguments: JSONObject,
    val agent: String,
    /** How long the question waits for its answer. */
    val expiresMs: Long,
)

/** The answer; [howToEnable] tells the person where a permission that is denied for ever can be changed. */
class PermissionAnswer(val decision: Decision, val howToEnable: String = "")

/**
 * Asks the person, on a thread that may wait. It is interrupted when the question is over; null, or an exception then, is no
 * answer. Without one the answer is no.
 */
fun interface AskPermission {
    fun ask(question: PermissionQuestion): PermissionAnswer?
}

internal fun deniedError(permission: String, answer: PermissionAnswer): ToolError {
    val how = if (answer.howToEnable.isEmpty()) "" else ": ${answer.howToEnable}"
    val code = if (answer.decision == Decision.DENY) "permission_denied" else "permission_denied_forever"
    return ToolError(code, "Permission '$permission' was denied by the user$how")
}
