package org.handspan.client

import okhttp3.Request
import org.handspan.json.JsonError
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONArray
import org.json.JSONObject
import java.io.IOException
import java.util.concurrent.ScheduledThreadPoolExecutor

/** The connection of one client: [ClientState] decides, [Link] carries frames, [CallRunner] runs handlers. */
internal class Connection(private val options: ClientOptions, private val tools: ClientTools) : LinkListener {
    private val memory = CallMemory(options.state?.load())
    private val owner = ScheduledThreadPoolExecutor(1) { Thread(it, "handspan-state").apply { isDaemon = true } }
    private val state = ClientState(introduction(), tools, memory, options.concurrency)
    private val http = Http(options.trust, options.sockets)
    private val link = Link(request(), http, options.backoff, this)
    private val runner: CallRunner
    private var saved = ""
    private var end = ""

    init {
        owner.removeOnCancelPolicy = true
        val encoder = ResultEncoder { upload(http, options.address, options.token, it) }
        runner = CallRunner(state, tools, encoder, options.askPermission, options.startLogin, owner, options.threads, ::carryOut)
    }

    /** Stays connected until [close], or until the gateway ends it for good; returns the reason. Blocks. */
    fun serve(): String {
        try {
            link.serve()
        } finally {
            runner.close()
            owner.shutdown()
            http.close()
        }
        return end
    }

    fun close() {
        link.close()
    }

    fun retryNow() = link.retryNow()

    fun changeTool(name: String) = onOwner { carryOut(state.changeTool(name)) }

    fun describe(about: JSONObject) = onOwner { carryOut(state.describe(about)) }

    // Called by the link, on its thread.

    override fun onOpening() = notify(ClientStatus.CONNECTING, "")

    override fun onOpen() = onOwner { carryOut(state.openLink()) }

    override fun onMessage(text: String) = onOwner {
        val frame = try {
            parseObject(text)
        } catch (error: JsonError) {
            return@onOwner // ws.md 2.2
        }
        carryOut(state.receive(frame))
        when (frame.text("type")) {
            "connected" -> {
                link.markConnected()
                notify(ClientStatus.ONLINE, state.label)
            }
            "tools_registered" -> if (state.rejected.isNotEmpty()) runCatching { options.listener.onRejected(state.rejected.toMap()) }
        }
    }

    override fun onDrop(end: LinkEnd, isFinal: Boolean) {
        if (isFinal) this.end = end.reason.ifEmpty { "The connection was closed (${end.code})." }
        onOwner { state.dropLink() }
        val status = if (isFinal) ClientStatus.CLOSED else ClientStatus.WAITING
        notify(status, end.reason.ifEmpty { "The link dropped (${end.code})" })
    }

    /** A listener that throws changes nothing here. */
    private fun notify(status: ClientStatus, text: String) {
        runCatching { options.listener.onState(status, text) }
    }

    // Actions are carried out in order, on the thread that owns the state.

    private fun carryOut(actions: List<Action>) {
        for (action in actions) {
            when (action) {
                is Action.Send -> link.send(action.frame.toString())
                is Action.Save -> save()
                is Action.Run -> run(action)
                is Action.Shrink -> runner.shrink(action.answer)
                is Action.SetTimeout -> runner.setTimeout(action.id, action.ms)
                is Action.Stop -> runner.stop(action.id)
                is Action.Ask -> runner.ask(action.id, action.question)
                is Action.Login -> runner.beginLogin(action.request)
                is Action.Show -> runCatching { options.showMessage?.show(action.message) }
            }
        }
    }

    private fun run(action: Action.Run) {
        val problem = if (action.isRecorded) save() else null
        if (problem == null) return runner.start(action)
        val id = action.request.text("id")
        val text = "Nothing was run: this device can't write its state ($problem)."
        carryOut(state.finishCall(id, toolError(id, text, "execution_failed")))
    }

    /** Writes the call memory; returns what went wrong. */
    private fun save(): String? {
        val store = options.state ?: return null
        val text = memory.encode()
        if (text == saved) return null
        try {
            store.save(text)
            saved = text
            return null
        } catch (error: IOException) {
            return error.message ?: "unknown"
        }
    }

    private fun onOwner(work: () -> Unit) {
        if (!owner.isShutdown) runCatching { owner.execute(work) }
    }

    private fun request(): Request {
        val request = Request.Builder().url(options.address.socket().toString()).header("Sec-WebSocket-Protocol", "handspan.v1")
        if (options.token.isNotEmpty()) request.header("Authorization", "Bearer ${options.token}")
        return request.build()
    }

    private fun introduction(): JSONObject {
        val own = listOfNotNull(options.startLogin?.let { "login" }, options.showMessage?.let { "messages" })
        val hello = JSONObject().put("type", "connect").put("v", 1).put("role", "device").put("device_name", options.deviceName)
        if (options.label.isNotEmpty()) hello.put("label", options.label)
        if (!options.hasPrefix) hello.put("prefix", false)
        return hello.put("capabilities", JSONArray(CAPABILITIES + own))
    }

    private companion object {
        /** The capabilities of every client (ws.md 1.9). */
        val CAPABILITIES =
            listOf("resume", "progress", "cancel", "deadline", "parts", "permissions", "unregister", "ack_batch", "about")
    }
}
