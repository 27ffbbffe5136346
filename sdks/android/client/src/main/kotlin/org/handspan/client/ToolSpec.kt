package org.handspan.client

import org.handspan.json.JsonError
import org.handspan.json.encodeJson
import org.handspan.json.parseObject
import org.handspan.json.putSome
import org.json.JSONArray
import org.json.JSONObject

/** What a tool does to the world (ws.md 4.2). A tool without annotations counts as destructive. */
data class Annotations(
    val readOnly: Boolean = false,
    val destructive: Boolean = !readOnly,
    val idempotent: Boolean = readOnly,
    val openWorld: Boolean = false,
    val serial: Boolean = false,
) {
    internal fun encode(): JSONObject = JSONObject()
        .put("read_only", readOnly)
        .put("destructive", destructive)
        .put("idempotent", idempotent)
        .put("open_world", openWorld)
        .put("serial", serial)
}

/**
 * What a tool is: its name, a description for the model, and the JSON Schema of its arguments as a text.
 * [timeout] is in seconds; [permissions] are asked for before a call.
 */
data class ToolSpec(
    val name: String,
    val description: String,
    val parameters: String = """{"type":"object"}""",
    val permissions: List<String> = emptyList(),
    val timeout: Double? = null,
    val version: String = "",
    val annotations: Annotations? = null,
) {
    internal val schema: JSONObject = try {
        parseObject(parameters)
    } catch (error: JsonError) {
        throw IllegalArgumentException("The parameters of the tool '$name' are no JSON Schema: ${error.message}")
    }

    init {
        require(name.isNotBlank()) { "A tool needs a name" }
    }

    /** Whether a call that was cut off may run again (ws.md 6.4). */
    internal val mayRepeat: Boolean get() = annotations?.run { readOnly || idempotent } ?: false

    internal val timeoutMs: Long get() = ((timeout ?: DEFAULT_TIMEOUT) * 1000).toLong()

    /** The tool as `register_tools` has it. */
    internal fun offer(): JSONObject = JSONObject()
        .put("name", name)
        .put("description", description)
        .put("parameters", schema)
        .putSome("permissions", permissions.ifEmpty { null }?.let { JSONArray(it) })
        .putSome("timeout", timeout)
        .putSome("version", version)
        .putSome("annotations", annotations?.encode())

    internal val size: Int get() = encodeJson(offer()).toByteArray().size + 1

    private companion object {
        const val DEFAULT_TIMEOUT = 30.0 // ws.md 5.6
    }
}
