package org.handspan.bridge

import org.handspan.cetp.CetpSuccess
import org.handspan.json.JsonError
import org.handspan.json.items
import org.handspan.json.text
import org.json.JSONObject

private const val MAX_TOOLS = 256
private const val MAX_SCOPES = 64
private const val MAX_NAME = 128

/** A tool of another app, as a consumer reads it. [onlyReads]: whether a consumer of version 1 may offer it (cetp.md 3.4). */
internal class ListedTool(val name: String, val description: String, val parameters: JSONObject, val onlyReads: Boolean)

/** The tools of a provider; [leftOut]: names of entries that can't be taken, with the reasons. */
internal class ToolListing(val tools: List<ListedTool>, val leftOut: List<Pair<String, String>>)

/** What a provider says of itself (cetp.md 3.5). */
internal class ProviderInfo(val name: String = "", val description: String = "", val scopes: List<Pair<String, String>> = emptyList())

/** Reads the data of `list_tools`. Throws [JsonError] when it holds no list of tools (cetp.md 3.6). */
internal fun readTools(response: CetpSuccess): ToolListing {
    val listed = response.value as? JSONObject
    if (listed?.opt("tools") !is org.json.JSONArray) throw JsonError("The data of list_tools is not {tools: […]}")
    val entries = listed.items("tools")
    val tools = LinkedHashMap<String, ListedTool>()
    val leftOut = mutableListOf<Pair<String, String>>()
    for (entry in entries.take(2 * MAX_TOOLS)) {
        val fields = entry as? JSONObject ?: JSONObject()
        val reason = reasonAgainst(fields, tools)
        if (reason == null) tools[fields.text("name")] = readTool(fields) else leftOut += fields.text("name") to reason
    }
    if (entries.size > 2 * MAX_TOOLS) leftOut += "" to "${entries.size - 2 * MAX_TOOLS} more entries were not read"
    return ToolListing(tools.values.toList(), leftOut)
}

private fun reasonAgainst(entry: JSONObject, earlier: Map<String, ListedTool>): String? {
    val name = entry.text("name")
    val parameters = entry.opt("parameters")
    return when {
        name.isEmpty() -> "it has no name"
        name.length > MAX_NAME -> "its name has more than $MAX_NAME characters"
        name in earlier -> "an earlier tool has this name"
        parameters != null && parameters != JSONObject.NULL && parameters !is JSONObject -> "its parameters are no object"
        earlier.size >= MAX_TOOLS -> "a provider may have $MAX_TOOLS tools"
        else -> null
    }
}

private fun readTool(entry: JSONObject) = ListedTool(
    entry.text("name"),
    entry.text("description"),
    entry.opt("parameters") as? JSONObject ?: JSONObject(),
    onlyReads(entry.opt("annotations")),
)

/** What is not clearly read-only counts as writing. */
private fun onlyReads(annotations: Any?): Boolean {
    if (annotations == null || annotations == JSONObject.NULL) return true
    if (annotations !is JSONObject) return false
    return (annotations.opt("read_only") ?: true) == true && (annotations.opt("destructive") ?: false) == false
}

/** Reads the data of `get_provider_info`. Throws [JsonError] when it is no object. */
internal fun readInfo(response: CetpSuccess): ProviderInfo {
    val fields = response.value as? JSONObject ?: throw JsonError("The data of get_provider_info is no object")
    val scopes = fields.items("scopes").take(MAX_SCOPES).filterIsInstance<JSONObject>().filter { it.text("name").isNotEmpty() }
    return ProviderInfo(
        cut(fields.text("provider_name")),
        cut(fields.text("description")),
        scopes.map { cut(it.text("name"), MAX_NAME) to cut(it.text("description")) },
    )
}
