package org.handspan.client

import org.handspan.websocket.LinkEnd
import org.handspan.websocket.UpgradeRefused
import org.handspan.websocket.WebSocket
import java.io.IOException
import java.net.URI
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import javax.net.ssl.SSLSocketFactory
import kotlin.random.Random

/** How long to wait before the next attempt, in milliseconds: twice as long each time, plus a random part. */
class Backoff(val firstMs: Long = 1000, val longestMs: Long = 30_000, val spread: Double = 0.5) {
    internal fun delay(attempt: Int): Long {
        val whole = minOf(longestMs, firstMs shl minOf(attempt, 20))
        return (whole * (1 + spread * Random.nextDouble())).toLong()
    }
}

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
    private val uri: URI,
    private val headers: Map<String, String>,
    private val tls: SSLSocketFactory?,
    private val backoff: Backoff,
    private val listener: LinkListener,
) {
    @Volatile private var socket: WebSocket? = null
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

    /** Sends a text; without a link it is dropped, and the next link sends what is needed. */
    fun send(text: String) {
        try {
            socket?.send(text)
        } catch (error: IOException) {
            socket?.abort()
        }
    }

    /** Closes the link, or stops trying to open one. */
    fun close() {
        isClosed = true
        socket?.close()
        retryNow()
    }

    private fun runLink(): LinkEnd {
        val opened = try {
            WebSocket.open(uri, headers, tls)
        } catch (refused: UpgradeRefused) {
            return refusal(refused)
        } catch (error: IOException) {
            return LinkEnd(1006, error.message ?: "no gateway answers there")
        } catch (error: RuntimeException) { // no such port; on Android also: the app may not use the network
            return LinkEnd(1008, error.message ?: error.javaClass.simpleName)
        }
        socket = opened
        if (isClosed) opened.close()
        listener.onOpen()
        while (true) listener.onMessage(opened.read() ?: break)
        socket = null
        return opened.end
    }

    /** What no later attempt will change is final (ws.md 1.2). */
    private fun refusal(refused: UpgradeRefused): LinkEnd = when (refused.status) {
        401 -> LinkEnd(1008, "The gateway does not know this token (401): pair this device anew.")
        403 -> LinkEnd(1008, "The gateway does not take connections for this address (403): add it to gateway.hosts.")
        else -> LinkEnd(1006, refused.message.orEmpty())
    }

    private fun pause(ms: Long) {
        waking = CountDownLatch(1)
        if (!isClosed) waking.await(ms, TimeUnit.MILLISECONDS)
    }

    private companion object {
        val ENDS_FOR_GOOD = setOf(1000, 1008) // ws.md 9.2
    }
}
