package org.handspan.bridge

import org.handspan.cetp.CetpCode
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpResponse
import org.handspan.cetp.CetpSuccess
import org.handspan.json.encodeJson
import org.json.JSONObject

private const val FAILED = "Provider call failed for "
private const val MAX_TEXT = 4000
private val INTENT = Regex("[A-Za-z0-9._:/-]{1,256}")

/** What a call counts as that got no response (cetp.md 2.6). */
internal fun unanswered(provider: String, reason: String) = CetpError(CetpCode.INTERNAL_ERROR, cut("$FAILED$provider: $reason"))

/** Whether the call got no response, so that it may be tried again (cetp.md 2.6, 8.4). */
internal val CetpError.isUnanswered: Boolean get() = code == CetpCode.INTERNAL_ERROR && message.startsWith(FAILED)

/** What the provider answered, from the fields of a response; [field] gives null for a missing one. */
internal fun readResponse(field: (String) -> Any?): CetpResponse {
    val status = field("status")
    if (status == "success") return readSuccess(field("data"))
    if (status == "error") return readError(field)
    val shown = if (status == null) "there is none" else cut(encodeJson(status), 80)
    return CetpError(CetpCode.INTERNAL_ERROR, "Unexpected status: $shown")
}

private fun readSuccess(data: Any?): CetpSuccess = when (data) {
    null -> CetpSuccess("null")
    is String -> CetpSuccess(data)
    else -> CetpSuccess(encodeJson(data))
}

private fun readError(field: (String) -> Any?): CetpError {
    val message = cut(field("error_message") as? String ?: "")
    val code = CetpCode.values().find { it.name == field("error_code") }
    if (code == null) {
        val shown = cut(encodeJson(field("error_code") ?: JSONObject.NULL), 80)
        return CetpError(CetpCode.INTERNAL_ERROR, "Unknown error code $shown: $message")
    }
    if (code != CetpCode.AUTH_REQUIRED) return CetpError(code, message)
    val intent = field("authorize_intent") as? String ?: ""
    return CetpError(code, message, cut(field("resolution_hint") as? String ?: ""), if (INTENT.matches(intent)) intent else "")
}

/** The prefix of a provider's tools, from its name (cetp.md 8.2). */
internal fun labelOf(name: String): String {
    val label = name.lowercase().replace(Regex("[^a-z0-9]+"), "_").trim('_')
    val whole = if (label.firstOrNull()?.isLetter() == true) label else "app_$label".trimEnd('_')
    return whole.take(MAX_LABEL).trimEnd('_')
}

/** The name of a provider's tool at the gateway. */
internal fun prefixed(label: String, tool: String) = "${label}__$tool"

internal fun cut(text: String, length: Int = MAX_TEXT) = if (text.length <= length) text else text.take(length - 1) + "…"

private const val MAX_LABEL = 40
