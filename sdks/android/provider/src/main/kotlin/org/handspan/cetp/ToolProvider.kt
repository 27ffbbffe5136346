package org.handspan.cetp

import android.content.ContentProvider
import android.content.ContentValues
import android.database.Cursor
import android.net.Uri
import android.os.Bundle
import android.util.Log
import org.handspan.json.JsonError
import org.handspan.json.parseObject
import org.handspan.json.problemsOf
import org.handspan.json.putSome
import org.json.JSONArray
import org.json.JSONObject

/** A call of a provider's tool: its arguments, the app that calls, and the id that both sides log. */
class ProviderCall(val args: JSONObject, val consumer: Consumer, val requestId: String)

/**
 * An app's data as tools that only read, for every CETP consumer on the phone (cetp.md). A subclass names itself and
 * declares its tools; the manifest names the subclass.
 *
 *     class NotesProvider : ToolProvider("Notes", "The notes of this app") {
 *         override fun declareTools() {
 *             tool("count_notes", "Count the notes") { notes.size }
 *         }
 *     }
 *
 * Tools run on threads of Android's, several at once: what they share must be safe for that.
 */
abstract class ToolProvider(
    private val providerName: String,
    private val description: String = "",
    private val scopes: Map<String, String> = emptyMap(),
    private val access: Access = Access(),
    callsPerMinute: Int = 300,
) : ContentProvider() {
    private class DeclaredTool(val entry: JSONObject, val schema: JSONObject, val run: (ProviderCall) -> Any?)

    private val tools: Map<String, DeclaredTool> by lazy {
        declared.clear()
        declareTools()
        declared
    }
    private val declared = LinkedHashMap<String, DeclaredTool>()
    private val limits = CallLimits(callsPerMinute, System::currentTimeMillis)

    /** Calls [tool] once for each tool. It runs before the first request, not when the app starts. */
    protected abstract fun declareTools()

    /**
     * Declares a tool. [parameters]: a JSON Schema of an object. [run] returns what has a JSON form: a Map, a List, a text, a
     * number, a `JSONObject`; it throws [ProviderError] to fail with a code. It must not write, send or delete anything.
     */
    protected fun tool(name: String, description: String, parameters: String = """{"type":"object"}""", run: (ProviderCall) -> Any?) {
        val schema = parseObject(parameters)
        require(name !in declared) { "The tool '$name' is declared twice" }
        declared[name] = DeclaredTool(JSONObject().put("name", name).put("description", description).put("parameters", schema), schema, run)
    }

    final override fun call(method: String, arg: String?, extras: Bundle?): Bundle {
        val response = try {
            respond(method, extras)
        } catch (error: ProviderError) {
            error.answer
        } catch (error: Exception) { // the app's own code
            Log.w(TAG, "$providerName: $method failed", error)
            CetpError(CetpCode.INTERNAL_ERROR, error.message ?: error.javaClass.simpleName)
        }
        return Bundle().apply { for ((key, text) in response.fields()) putString(key, text) }
    }

    private fun respond(method: String, extras: Bundle?): CetpResponse = when (method) {
        Cetp.LIST_TOOLS -> success(JSONObject().put("tools", JSONArray(tools.values.map { it.entry })))
        Cetp.GET_PROVIDER_INFO -> success(info())
        Cetp.EXECUTE_TOOL -> execute(readExtras { extras?.getString(it) })
        else -> throw ProviderError(CetpCode.TOOL_NOT_FOUND, "unknown method '$method'") // cetp.md 1.5
    }

    private fun info(): JSONObject {
        val listed = scopes.map { (name, text) -> JSONObject().put("name", name).put("description", text) }
        return JSONObject().put("provider_name", providerName).putSome("description", description).put("scopes", JSONArray(listed))
    }

    private fun execute(request: ToolRequest): CetpResponse {
        val consumer = Consumer.ofThisCall(checkNotNull(context) { "Android has not created this provider" })
        val tool = tools[request.toolName] ?: throw ProviderError(CetpCode.TOOL_NOT_FOUND, "there is no tool '${request.toolName}'")
        access.check(context!!, consumer)
        limits.answer(consumer, request.requestId)?.let { return it }
        limits.count(consumer)
        val problems = problemsOf(tool.schema, request.arguments)
        if (problems.isNotEmpty()) throw ProviderError(CetpCode.INVALID_ARGS, problems)
        val answer = try {
            success(tool.run(ProviderCall(request.arguments, consumer, request.requestId)))
        } catch (error: JsonError) {
            throw ProviderError(CetpCode.INTERNAL_ERROR, "the tool's result can't be sent: ${error.message}")
        }
        Log.i(TAG, "$providerName: ${request.toolName} for ${consumer.name} (${request.requestId})")
        limits.keep(consumer, request.requestId, answer)
        return answer
    }

    override fun onCreate(): Boolean = true

    // A provider of tools has no rows.

    override fun query(uri: Uri, columns: Array<String>?, where: String?, args: Array<String>?, order: String?): Cursor? = null

    override fun getType(uri: Uri): String? = null

    override fun insert(uri: Uri, values: ContentValues?): Uri? = throw UnsupportedOperationException("tools only read")

    override fun update(uri: Uri, values: ContentValues?, where: String?, args: Array<String>?): Int =
        throw UnsupportedOperationException("tools only read")

    override fun delete(uri: Uri, where: String?, args: Array<String>?): Int = throw UnsupportedOperationException("tools only read")

    private companion object {
        const val TAG = "cetp"
    }
}
