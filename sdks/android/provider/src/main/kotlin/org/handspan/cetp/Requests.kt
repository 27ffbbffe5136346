package org.handspan.cetp

import org.handspan.json.JsonError
import org.handspan.json.parseJson
import org.json.JSONObject

private const val MAX_ID = 128

/** What a provider reads of the extras of `execute_tool`. */
internal class ToolRequest(val toolName: String, val arguments: JSONObject, val requestId: String)

/** Reads the extras of a call. Throws [ProviderError] with `INVALID_ARGS` (cetp.md 1.6). */
internal fun readExtras(field: (String) -> Any?): ToolRequest {
    val name = field("tool_name") as? String
    if (name.isNullOrEmpty()) throw ProviderError(CetpCode.INVALID_ARGS, "missing tool_name")
    val id = (field("request_id") as? String)?.takeIf { it.length <= MAX_ID } ?: ""
    return ToolRequest(name, readArgs(field("args")), id)
}

private fun readArgs(args: Any?): JSONObject {
    if (args == null || args == "" || args == JSONObject.NULL) return JSONObject()
    if (args !is String) throw ProviderError(CetpCode.INVALID_ARGS, "args must be a string that holds a JSON object")
    val value = try {
        parseJson(args)
    } catch (error: JsonError) {
        throw ProviderError(CetpCode.INVALID_ARGS, "args can't be read. ${error.message}")
    }
    return value as? JSONObject ?: throw ProviderError(CetpCode.INVALID_ARGS, "args must hold a JSON object")
}
