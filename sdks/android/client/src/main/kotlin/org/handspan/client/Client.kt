package org.handspan.client

import org.handspan.json.putSome
import org.json.JSONArray
import org.json.JSONObject
import java.util.concurrent.ExecutorService
import javax.net.SocketFactory

/** The state of a client: `WAITING` is the time between two attempts, `CLOSED` is final. */
enum class ClientStatus { CONNECTING, ONLINE, WAITING, CLOSED }

/** Gets what happens to a client, on threads of the client. */
interface ClientListener {
    /** [text]: online the device's label in its final form; else why it waits, or why it was closed. */
    fun onState(status: ClientStatus, text: String) {}

    /** Tools that the gateway did not take, and why. */
    fun onRejected(tools: Map<String, String>) {}
}

internal class ClientOptions(
    val address: Address,
    val token: String,
    val label: String,
    val hasPrefix: Boolean,
    val deviceName: String,
    val state: StateStore?,
    val concurrency: Int,
    val backoff: Backoff,
    val trust: Trust,
    val sockets: SocketFactory?,
    val askPermission: AskPermission?,
    val startLogin: StartLogin?,
    val showMessage: ShowMessage?,
    val listener: ClientListener,
    val threads: ExecutorService,
)

/**
 * An Android device, or any program on a JVM, whose tools are for every session of its owner (ws.md 7).
 *
 *     val client = Client.builder("https://192.168.1.7:42617")
 *         .authToken(token)
 *         .registerTool(ToolSpec("device_info", "Get device information"))
 *         .toolCallHandler { request -> ToolCallResult.Success(queryDeviceInfo()) }
 *         .build()
 *     client.start()
 */
class Client internal constructor(options: ClientOptions, private val tools: ClientTools) {
    private val connection = Connection(options, tools)
    private var thread: Thread? = null

    /** Why the client has ended; empty while it runs. */
    @Volatile var end = ""
        private set

    /** Connects, and stays connected until [close], on a thread of its own. */
    @Synchronized
    fun start() {
        if (thread != null) return
        thread = Thread({ end = connection.serve() }, "handspan-link").apply {
            isDaemon = true
            start()
        }
    }

    /** Ends the connection. A closed client is not started again: build another one. */
    fun close() = connection.close()

    /** Waits until the client has ended; false when it has not after this time. */
    fun join(ms: Long): Boolean {
        thread?.join(ms)
        return thread?.isAlive != true
    }

    /** Tries to connect at once, in place of waiting: call it when the network is back. */
    fun retryNow() = connection.retryNow()

    /** Offers a tool, or replaces the one of its name. Without a handler of its own, the client's runs it. */
    fun registerTool(spec: ToolSpec, handler: ToolCallHandler? = null) {
        tools.register(spec, handler)
        connection.changeTool(spec.name)
    }

    /** Takes a tool back. */
    fun unregisterTool(name: String) {
        tools.unregister(name)
        connection.changeTool(name)
    }

    /** Tells people what this device is, and what else they should know; [scopes]: names of its data with descriptions. */
    fun describe(description: String, scopes: Map<String, String> = emptyMap(), notes: List<String> = emptyList()) {
        val about = JSONObject().put("type", "about").putSome("description", description)
        about.put("scopes", JSONArray(scopes.map { (name, text) -> JSONObject().put("name", name).put("description", text) }))
        connection.describe(about.put("notes", JSONArray(notes)))
    }

    companion object {
        /** The seed's form: a client made step by step. */
        @JvmStatic
        fun builder(url: String) = ClientBuilder(url)
    }
}
