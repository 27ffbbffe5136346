package org.handspan.bridge

import org.handspan.cetp.Cetp
import org.handspan.cetp.CetpCode
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpResponse
import org.handspan.cetp.CetpSuccess
import org.handspan.client.Annotations
import org.handspan.client.Client
import org.handspan.client.LoginRequired
import org.handspan.client.ToolCallRequest
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import org.handspan.json.JsonError
import org.handspan.json.canonical
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicBoolean

/** One app at the gateway: a device connection with its tools, whose calls go to the app (cetp.md 8). */
internal class BridgedApp(
    app: ProviderApp,
    val label: String,
    private val transport: Transport,
    private val connect: (BridgedApp, String) -> Client,
    /** Called when [state] may have changed. */
    private val onChange: () -> Unit,
) {
    @Volatile var app: ProviderApp = app
        private set

    /** How it is, for a person; empty when its tools are offered. */
    @Volatile var state = "it is being looked at"
        private set

    // A thread of its own: an app that never answers holds up no other.
    private val thread = Executors.newSingleThreadExecutor { Thread(it, "handspan-app").apply { isDaemon = true } }
    private val isRefreshWanted = AtomicBoolean()
    private var isClosed = false
    private var client: Client? = null

    /** Those that are offered, by their names at the gateway, as texts to compare. */
    private var offered = emptyMap<String, String>()
    private var listed = ""

    /** Looks at the app again, soon. Calls that run go on. */
    fun refresh(found: ProviderApp) {
        app = found
        if (isRefreshWanted.compareAndSet(false, true)) runCatching { thread.execute(::refreshNow) }
    }

    @Synchronized
    fun close() {
        isClosed = true
        thread.shutdownNow()
        disconnect()
    }

    private fun refreshNow() {
        isRefreshWanted.set(false)
        state = try {
            offer(listTools(), infoOf())
        } catch (problem: ToolError) {
            if (offered.isEmpty()) problem.message.orEmpty() else ""
        }
        onChange()
    }

    private fun disconnect() {
        client?.close()
        client = null
        offered = emptyMap()
    }

    fun authorize(intent: String) = transport.authorize(app, if (intent == AUTHORIZE) "" else intent)

    // The tools.

    /** A sleeping app is woken, silently: a scan shows no screen (cetp.md 8.5). */
    private fun listTools(): ToolListing {
        var response = transport.call(app, Cetp.LIST_TOOLS, null)
        if (isUnanswered(response) && listed != app.fingerprint) {
            transport.wake(app, showsScreen = false)
            response = transport.call(app, Cetp.LIST_TOOLS, null)
        }
        return when (response) {
            is CetpError -> throw ToolError(response.code.code, response.text)
            is CetpSuccess -> try {
                readTools(response)
            } catch (error: JsonError) {
                throw ToolError("internal_error", error.message.orEmpty())
            }
        }
    }

    /** Most apps say nothing of themselves, and that is no failure (cetp.md 1.5). */
    private fun infoOf(): ProviderInfo = try {
        (transport.call(app, Cetp.GET_PROVIDER_INFO, null) as? CetpSuccess)?.let { readInfo(it) } ?: ProviderInfo()
    } catch (error: JsonError) {
        ProviderInfo()
    }

    /** Exchanges the tools that are offered for these; returns why there are none. */
    @Synchronized
    private fun offer(found: ToolListing, info: ProviderInfo): String {
        if (isClosed) return "it is bridged no more"
        if (client?.end?.isNotEmpty() == true) disconnect() // the gateway has ended it for good
        val notes = found.leftOut.map { (name, reason) -> "The tool '$name' is not offered: $reason." } +
            found.tools.filterNot { it.onlyReads }.map { "The tool '${it.name}' is not offered: it says that it writes." }
        val tools = found.tools.filter { it.onlyReads }.associateBy { prefixed(label, it.name) }
        if (tools.isEmpty()) {
            disconnect()
            return notes.joinToString("; ").ifEmpty { "it offers no tools" }
        }
        val isNew = client == null
        val device = client ?: connect(this, info.name.ifEmpty { app.name }).also { client = it }
        exchange(device, tools)
        device.describe(info.description, info.scopes.toMap(), notes)
        if (isNew) device.start()
        listed = app.fingerprint
        return ""
    }

    private fun exchange(device: Client, tools: Map<String, ListedTool>) {
        val texts = tools.mapValues { (_, tool) -> tool.description + canonical(tool.parameters) }
        (offered.keys - tools.keys).forEach { device.unregisterTool(it) }
        for ((name, tool) in tools) {
            if (offered[name] != texts[name]) device.registerTool(spec(name, tool)) { forward(tool.name, it) }
        }
        offered = texts
    }

    private fun spec(name: String, tool: ListedTool): ToolSpec {
        if (!tool.parameters.has("type")) tool.parameters.put("type", "object")
        return ToolSpec(name, tool.description, tool.parameters.toString(), annotations = Annotations(readOnly = true))
    }

    // The calls.

    /** The app's answer. Tried three times at most, with one `request_id` (cetp.md 8.4). */
    private fun forward(tool: String, request: ToolCallRequest): ToolCallResult {
        val extras = mapOf("tool_name" to tool, "args" to request.args.toString(), "request_id" to request.id)
        var response = transport.call(app, Cetp.EXECUTE_TOOL, extras)
        for (showsScreen in listOf(false, true)) {
            if (!isUnanswered(response) || request.context.isCancelled) break
            transport.wake(app, showsScreen)
            response = transport.call(app, Cetp.EXECUTE_TOOL, extras)
        }
        return when (response) {
            is CetpSuccess -> ToolCallResult.Success(response.value)
            is CetpError -> throw toolErrorOf(response)
        }
    }

    private fun toolErrorOf(error: CetpError): ToolError {
        if (error.code != CetpCode.AUTH_REQUIRED) return ToolError(error.code.code, error.text)
        return LoginRequired("[AUTH_REQUIRED] ${error.message}", error.hint, error.intent.ifEmpty { AUTHORIZE })
    }

    private fun isUnanswered(response: CetpResponse) = response is CetpError && response.isUnanswered

    private companion object {
        /** The intent of an app that names none: its own screen is shown. */
        const val AUTHORIZE = "authorize"
    }
}
