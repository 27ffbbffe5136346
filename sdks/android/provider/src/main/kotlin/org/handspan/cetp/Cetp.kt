package org.handspan.cetp

import org.handspan.json.JsonError
import org.handspan.json.encodeJson
import org.handspan.json.parseJson
import org.handspan.json.plain

/** The names of CETP on Android (cetp.md 7). */
object Cetp {
    const val ACTION = "com.clawseed.action.TOOL_PROVIDER"
    const val AUTHORITY = "com.clawseed.tools.authority"
    const val VERSION = "com.clawseed.tools.version"
    const val PERMISSION = "com.clawseed.permission.ACCESS_TOOLS"
    const val PROTOCOL_VERSION = 1

    /**
     * How long a text may be that goes from app to app. All transactions of a process share 1 MB
     * (frameworks/native/libs/binder/ProcessState.cpp, BINDER_VM_SIZE), and a Bundle has two bytes for each character.
     */
    const val MAX_CHARACTERS = 400_000

    const val LIST_TOOLS = "list_tools"
    const val EXECUTE_TOOL = "execute_tool"
    const val GET_PROVIDER_INFO = "get_provider_info"
}

/** The codes of an error, and what they are called at the gateway (cetp.md 2.3). */
enum class CetpCode(val code: String) {
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

/** The response with this value. Throws [JsonError] when it has no JSON form or is too large for Android's Binder. */
internal fun success(value: Any?): CetpSuccess {
    val data = encodeJson(plain(value))
    if (data.length <= Cetp.MAX_CHARACTERS) return CetpSuccess(data)
    throw JsonError(
        "it has ${data.length} characters, and Android carries ${Cetp.MAX_CHARACTERS} from app to app: ask for a smaller part of it",
    )
}
