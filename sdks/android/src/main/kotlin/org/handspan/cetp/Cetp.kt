package org.handspan.cetp

import org.handspan.json.JsonError
import org.handspan.json.encodeJson
import org.handspan.json.parseJson
import org.handspan.json.plain
import org.json.JSONObject

/** The names of CETP on Android (cetp.md 7). */
object Cetp {
    const val ACTION = "com.clawseed.action.TOOL_PROVIDER"
    const val AUTHORITY = "com.clawseed.tools.authority"
    const val VERSION = "com.clawseed.tools.version"
    const val PERMISSION = "com.clawseed.permission.ACCESS_TOOLS"
    const val PROTOCOL_VERSION = 1

    const val LIST_TOOLS = "list_tools"
    const val EXECUTE_TOOL = "execute_tool"
    const val GET_PROVIDER_INFO = "get_provider_info"
}

/** The codes of an error, and what they are called at the gateway (cetp.md 2.3). */
enum class CetpCode(internal val code: String) {
    AUTH_REQUIRED("auth_required"),
    PERMISSION_DENIED("permission_denied"),
    TOOL_NOT_FOUND("tool_not_found"),
    INVALID_ARGS("invalid_arguments"),
    RATE_LIMITED("rate_limited"),
    INTERNAL_ERROR("internal_error"),
}

/** What a provider answers (cetp.md 2). */
sealed class CetpResponse {
    /** The keys and texts of the bundle. */
    internal abstract fun fields(): Map<String, String>
}

/** [data] is a JSON value as a text. */
class CetpSuccess(val data: String) : CetpResponse() {
    /** The value: JSON, or the text itself (cetp.md 2.2). */
    val value: Any
        get() = try {
            parseJson(data)
        } catch (error: JsonError) {
            data
        }

    override fun fields() = mapOf("status" to "success", "data" to data)
}

class CetpError(val code: CetpCode, val message: String, val hint: String = "", val intent: String = "") : CetpResponse() {
    /** The error in words (cetp.md 2.7). */
    val text: String get() = "[$code] $message" + if (hint.isEmpty()) "" else " — $hint"

    /** Whether the call got no response, so that it may be tried again (cetp.md 2.6, 8.4). */
    val isUnanswered: Boolean get() = code == CetpCode.INTERNAL_ERROR && message.startsWith(FAILED)

    override fun fields(): Map<String, String> = buildMap {
        put("status", "error")
        put("error_code", code.name)
        put("error_message", message)
        if (hint.isNotEmpty()) put("resolution_hint", hint)
        if (intent.isNotEmpty()) put("authorize_intent", intent)
    }
}

/** Thrown by a provider's code: the call is answered with this error. */
class ProviderError(code: CetpCode, message: String, hint: String = "", intent: String = "") : Exception(message) {
    internal val answer = CetpError(code, message, hint, intent)
}

private const val FAILED = "Provider call failed for "
private const val MAX_TEXT = 4000
private val INTENT = Regex("[A-Za-z0-9._:/-]{1,256}")

/** The response with this value. Throws [JsonError] when it has no JSON form. */
internal fun success(value: Any?): CetpSuccess = CetpSuccess(encodeJson(plain(value)))

/** What a call counts as that got no response (cetp.md 2.6). */
internal fun unanswered(provider: String, reason: String) = CetpError(CetpCode.INTERNAL_ERROR, cut("$FAILED$provider: $reason"))

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
