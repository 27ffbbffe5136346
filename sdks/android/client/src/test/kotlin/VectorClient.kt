package org.handspan.test

import org.handspan.client.Annotations
import org.handspan.client.Backoff
import org.handspan.client.Client
import org.handspan.client.Decision
import org.handspan.client.FileState
import org.handspan.client.LoginRequired
import org.handspan.client.MediaFile
import org.handspan.client.PermissionAnswer
import org.handspan.client.ToolCallRequest
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import org.handspan.json.child
import org.handspan.json.flag
import org.handspan.json.items
import org.handspan.json.number
import org.handspan.json.parseObject
import org.handspan.json.text
import org.handspan.json.texts
import org.json.JSONObject
import java.io.File
import java.util.Base64
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.SynchronousQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/** A client that does what lines on standard input say, for the vectors of `protocol/`; it tells what happens, a line each. */
fun main() {
    val player = VectorClient()
    for (line in generateSequence(::readlnOrNull)) player.obey(parseObject(line))
}

@Synchronized
private fun tell(event: String, fields: JSONObject = JSONObject()) = println(fields.put("event", event).toString())

private class VectorClient {
    private var client: Client? = null
    private var threads = WatchedThreads()
    private val orders = ConcurrentHashMap<String, LinkedBlockingQueue<JSONObject>>()
    private val decisions = ConcurrentHashMap<String, LinkedBlockingQueue<PermissionAnswer>>()

    fun obey(order: JSONObject) {
        when (order.text("do")) {
            "begin" -> begin(order)
            "end" -> client?.close()
            "order" -> queue(orders, order.text("id")).put(order)
            "decide" -> {
                val decision = Decision.valueOf(order.text("says").uppercase())
                queue(decisions, order.text("permission")).put(PermissionAnswer(decision, order.text("how_to_enable")))
            }
            "unregister" -> client?.unregisterTool(order.text("name"))
            "sync" -> {
                threads.awaitBegun()
                tell("synced")
            }
        }
    }

    private fun begin(given: JSONObject) {
        threads = WatchedThreads()
        orders.clear()
        decisions.clear()
        val mine = threads
        val builder = Client.builder(given.text("url")).authToken("token").device(given.text("label"))
            .concurrency(given.number("concurrency")?.toInt() ?: 1)
            .reconnectPolicy(Backoff(1, 10))
            .threads(mine)
            .askPermission { question ->
                mine.markBegun()
                queue(decisions, question.permission).take()
            }
            .startLogin { tell("login", JSONObject().put("call_id", it.callId).put("intent", it.intent)) }
        if (given.flag("messages")) builder.onChannelMessage {
            tell("shown", JSONObject().put("channel", it.channel).put("chat_id", it.chatId).put("content", it.content))
        }
        if (given.text("state").isNotEmpty()) builder.state(FileState(File(given.text("state"))))
        for (tool in given.items("tools").filterIsInstance<JSONObject>()) {
            val code = if (tool.opt("code") == false) null else { request: ToolCallRequest -> run(request, mine) }
            builder.registerTool(spec(tool), code?.let { own -> org.handspan.client.ToolCallHandler { own(it) } })
        }
        client = builder.build().also { it.start() }
    }

    private fun spec(tool: JSONObject) = ToolSpec(
        tool.text("name"),
        tool.text("description"),
        tool.child("parameters").toString(),
        tool.texts("permissions"),
        tool.number("timeout")?.toDouble(),
        tool.text("version"),
        tool.child("annotations")?.let { read ->
            Annotations(read.flag("read_only"), read.flag("destructive"), read.flag("idempotent"), read.flag("open_world"), read.flag("serial"))
        },
    )

    /** The code of every tool: does what the case says, when it says so. */
    private fun run(request: ToolCallRequest, threads: WatchedThreads): ToolCallResult {
        tell("begun", JSONObject().put("id", request.id).put("tool", request.name))
        threads.markBegun()
        while (true) {
            val order = try {
                queue(orders, request.id).take()
            } catch (stopped: InterruptedException) {
                tell("stopped", JSONObject().put("id", request.id))
                throw stopped
            }
            when {
                order.has("returns") -> return ToolCallResult.Success(valueOf(order.get("returns")))
                order.text("code") == "auth_required" -> throw LoginRequired(order.text("raises"), order.text("hint"), order.text("intent"))
                order.has("code") -> throw ToolError(order.text("code"), order.text("raises"))
                order.has("raises") -> throw IllegalStateException(order.text("raises"))
                order.has("progress") -> request.context.progress(order.get("progress"))
            }
        }
    }

    private fun valueOf(returned: Any): Any {
        val image = (returned as? JSONObject)?.text("\$image") ?: ""
        if (image.isEmpty()) return returned
        return MediaFile(Base64.getDecoder().decode(image), (returned as JSONObject).text("media_type"))
    }

    private fun <T> queue(all: ConcurrentHashMap<String, LinkedBlockingQueue<T>>, key: String) = all.computeIfAbsent(key) { LinkedBlockingQueue() }
}

/** Threads of which it is known whether all work that was handed over has come as far as the code of the case. */
private class WatchedThreads : ThreadPoolExecutor(0, Int.MAX_VALUE, 1, TimeUnit.SECONDS, SynchronousQueue()) {
    private val submitted = AtomicInteger()
    private val begun = AtomicInteger()
    private val isBegun = ThreadLocal<Boolean>()

    init {
        setThreadFactory { Thread(it).apply { isDaemon = true } }
    }

    override fun execute(work: Runnable) {
        submitted.incrementAndGet()
        super.execute(work)
    }

    override fun beforeExecute(thread: Thread, work: Runnable) = isBegun.set(false)

    override fun afterExecute(work: Runnable, thrown: Throwable?) = markBegun()

    fun markBegun() {
        if (isBegun.get() == true) return
        isBegun.set(true)
        begun.incrementAndGet()
    }

    fun awaitBegun() {
        while (begun.get() < submitted.get()) Thread.sleep(1)
    }
}
