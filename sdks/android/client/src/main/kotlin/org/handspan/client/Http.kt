package org.handspan.client

import okhttp3.Call
import okhttp3.Callback
import okhttp3.Dispatcher
import okhttp3.MediaType.Companion.toMediaTypeOrNull
import okhttp3.OkHttpClient
import okhttp3.Request
import okhttp3.RequestBody
import okhttp3.RequestBody.Companion.toRequestBody
import okhttp3.Response
import okhttp3.WebSocket
import okhttp3.WebSocketListener
import java.io.IOException
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import javax.net.SocketFactory

/** What a gateway answered to a request: the status, and the first bytes of the body. */
internal class HttpAnswer(val status: Int, val body: ByteArray) {
    val text: String get() = body.toString(Charsets.UTF_8)
}

/** The way to a gateway. Everything runs on threads of its own: a caller waits for them and never touches the network itself. */
internal class Http(trust: Trust = Trust.System, sockets: SocketFactory? = null) : AutoCloseable {
    private val threads = Executors.newCachedThreadPool { work ->
        Thread(work, "handspan-net").apply {
            isDaemon = true
            // OkHttp tells its listener of a RuntimeException, and throws it again on this thread: on Android the app would end.
            setUncaughtExceptionHandler { _, _ -> }
        }
    }
    private val client = OkHttpClient.Builder()
        .dispatcher(Dispatcher(threads))
        .connectTimeout(CONNECT_SECONDS, TimeUnit.SECONDS)
        .readTimeout(ANSWER_SECONDS, TimeUnit.SECONDS)
        .writeTimeout(ANSWER_SECONDS, TimeUnit.SECONDS)
        .pingInterval(PING_SECONDS, TimeUnit.SECONDS)
        .followRedirects(false)
        .followSslRedirects(false)
        .apply {
            trust.apply(this)
            sockets?.let { socketFactory(it) }
        }
        .build()

    /** Begins to open a WebSocket; the listener gets all else. */
    fun open(request: Request, listener: WebSocketListener): WebSocket = client.newWebSocket(request, listener)

    fun get(url: String): HttpAnswer = exchange(Request.Builder().url(url).build())

    fun post(url: String, type: String, data: ByteArray, token: String): HttpAnswer {
        val body: RequestBody = data.toRequestBody(type.toMediaTypeOrNull())
        val request = Request.Builder().url(url).post(body)
        if (token.isNotEmpty()) request.header("Authorization", "Bearer $token")
        return exchange(request.build())
    }

    /** Ends the threads; what runs is cut off. */
    override fun close() {
        threads.execute { // closing a secure connection writes to it
            client.dispatcher.cancelAll()
            client.connectionPool.evictAll()
        }
        threads.shutdown()
    }

    /** Waits for the answer. Throws `IOException`; when this thread is interrupted, the request is cut off. */
    private fun exchange(request: Request): HttpAnswer {
        val answer = CompletableFuture<HttpAnswer>()
        val call = client.newCall(request)
        call.enqueue(object : Callback {
            override fun onFailure(call: Call, e: IOException) {
                answer.completeExceptionally(e)
            }

            override fun onResponse(call: Call, response: Response) {
                try {
                    answer.complete(response.use { HttpAnswer(it.code, readSome(it)) })
                } catch (error: IOException) {
                    answer.completeExceptionally(error)
                }
            }
        })
        try {
            return answer.get()
        } catch (failed: ExecutionException) {
            throw failed.cause as? IOException ?: IOException(failed.cause)
        } catch (stopped: InterruptedException) {
            call.cancel()
            throw stopped
        }
    }

    private fun readSome(response: Response): ByteArray {
        val source = response.body?.source() ?: return ByteArray(0)
        source.request(MAX_ANSWER)
        return source.buffer.readByteArray(minOf(source.buffer.size, MAX_ANSWER))
    }

    private companion object {
        const val CONNECT_SECONDS = 15L
        const val ANSWER_SECONDS = 60L
        const val PING_SECONDS = 25L // ws.md 8.2: the gateway pings every 20 s; a ping of ours finds out when it does not
        const val MAX_ANSWER = 64L * 1024
    }
}
