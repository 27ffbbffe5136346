package org.handspan.client

import okhttp3.Request
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import java.io.IOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.random.Random

/** How long to wait before the next attempt, in milliseconds: twice as long each time, plus a random part. */
class Backoff(val firstMs: Long = 1000, val longestMs: Long = 30_000, val spread: Double = 0.5) {
    internal fun delay(attempt: Int): Long {
        val whole = minOf(longestMs, firstMs shl minOf(attempt, 20))
        return (whole * (1 + spread * Random.nextDouble())).toLong()
    }
}

/** How a link ended. */
internal class LinkEnd(val code: Int, val reason: String)

/** Gets what happens to a link. */
internal interface LinkListener {
    fun onOpening()
    fun onOpen()
    fun onMessage(text: String)

    /** Called once for every link. [isFinal]: no other attempt follows. */
    fun onDrop(end: LinkEnd, isFinal: Boolean)
}

/** A link to the gateway that opens again after a drop. It does not read the messages. */
internal class Link(
    private val request: Request,
    private val http: Http,
    private val backoff: Backoff,
    private val listener: LinkListener,
) {
    @Volatile private var current: OpenLink? = null
    @Volatile private var isClosed = false
    @Volatile private var attempt = 0
    @Volatile private var waking = CountDownLatch(1)

    /** Keeps the link open until [close], or until it is closed for good. Blocks. */
    fun serve() {
        while (!isClosed) {
            listener.onOpening()
            val end = runLink()
            val isFinal = isClosed || end.code in ENDS_FOR_GOOD
            listener.onDrop(end, isFinal)
            if (isFinal) return
            pause(backoff.delay(attempt++))
        }
    }

    /** The gateway has answered: the next drop begins with the shortest delay. */
    fun markConnected() {
        attempt = 0
    }

    /** Tries at once, in place of waiting: the network is back. */
    fun retryNow() = waking.countDown()

    /** Sends a text, without waiting; without a link it is dropped, and the next link sends what is needed. */
    fun send(text: String) {
        current?.send(text)
    }

    /** Closes the link within two seconds, or stops trying to open one. Does not wait, and touches no socket. */
    fun close() {
        isClosed = true
        current?.close()
        retryNow()
    }

    private fun runLink(): LinkEnd {
        val link = OpenLink(listener)
        current = link
        if (isClosed) link.close()
        try {
            return link.run(http, request)
        } finally {
            current = null
        }
    }

    private fun pause(ms: Long) {
        waking = CountDownLatch(1)
        if (!isClosed) waking.await(ms, TimeUnit.MILLISECONDS)
    }

    private companion object {
        val ENDS_FOR_GOOD = setOf(1000, 1008) // ws.md 9.2
    }
}

/**
 * One WebSocket. OkHttp writes and reads on threads of its own: Android forbids the main thread the network. It has no limit
 * for the size of a message that comes in (WebSocketReader reads it whole).
 */
private class OpenLink(private val listener: LinkListener) : WebSocketListener() {
    private val ends = LinkedBlockingQueue<LinkEnd>()
    @Volatile private var socket: WebSocket? = null
    @Volatile private var isOpen = false
    @Volatile private var isClosing = false
    private var isOver = false

    /** Opens the link; returns how it ended. After [close] that is within two seconds, whatever the gateway does. */
    fun run(http: Http, request: Request): LinkEnd {
        if (isClosing) return CLOSED
        val opened = http.open(request, this)
        try {
            val end = ends.take()
            if (end !== CLOSED) return end
            if (isOpen) {
                opened.close(1000, null)
                ends.poll(SECONDS_TO_CLOSE, TimeUnit.SECONDS)
            }
            return CLOSED
        } finally {
            opened.cancel()
            deliver { isOver = true }
        }
    }

    fun send(text: String) {
        val open = socket ?: return
        if (!open.send(text) && !isClosing) ends.put(LinkEnd(1006, "more is to be sent than the link can hold"))
    }

    fun close() {
        isClosing = true
        ends.put(CLOSED)
    }

    override fun onOpen(webSocket: WebSocket, response: Response) {
        socket = webSocket
        isOpen = true
        deliver { listener.onOpen() }
    }

    override fun onMessage(webSocket: WebSocket, text: String) {
        deliver { if (!isClosing) listener.onMessage(text) } // binary messages are skipped: ws.md 2.3
    }

    override fun onClosing(webSocket: WebSocket, code: Int, reason: String) {
        webSocket.close(1000, null)
        ends.put(LinkEnd(code, reason))
    }

    override fun onFailure(webSocket: WebSocket, t: Throwable, response: Response?) {
        val end = when {
            response != null && response.code != 101 -> refusal(response.code)
            t is IOException -> LinkEnd(1006, t.message ?: "the link was cut")
            else -> LinkEnd(1008, t.message ?: t.javaClass.simpleName)
        }
        ends.put(end)
    }

    /** Nothing of a link comes after its end. */
    @Synchronized
    private fun deliver(work: () -> Unit) {
        if (!isOver) work()
    }

    /** What no later attempt will change is final (ws.md 1.2). */
    private fun refusal(status: Int): LinkEnd = when (status) {
        401 -> LinkEnd(1008, "The gateway does not know this token (401): pair this device anew.")
        403 -> LinkEnd(1008, "The gateway does not take connections for this address (403): add it to gateway.hosts.")
        else -> LinkEnd(1006, "the gateway answered the upgrade with $status")
    }

    private companion object {
        const val SECONDS_TO_CLOSE = 2L
        val CLOSED = LinkEnd(1000, "")
    }
}
