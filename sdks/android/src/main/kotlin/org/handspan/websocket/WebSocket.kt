package org.handspan.websocket

import java.io.ByteArrayOutputStream
import java.io.IOException
import java.io.InputStream
import java.net.InetSocketAddress
import java.net.Socket
import java.net.SocketTimeoutException
import java.net.URI
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction
import javax.net.ssl.SSLSocket
import javax.net.ssl.SSLSocketFactory

/** How a link ended. */
internal class LinkEnd(val code: Int, val reason: String)

/**
 * One WebSocket (RFC 6455) on a `Socket` or `SSLSocket`: text messages, pings, closes. No extensions.
 * [read] belongs to one thread; [send] and [close] to any.
 */
internal class WebSocket private constructor(private val socket: Socket, input: InputStream, maxBytes: Int) {
    private val reader = FrameReader(input, maxBytes)
    private val writer = FrameWriter(socket.getOutputStream())
    private val maxBytes = maxBytes
    @Volatile private var isClosing = false

    /** The next text message; null when the link has ended, and [end] says how. */
    fun read(): String? {
        val message = ByteArrayOutputStream()
        var kind = 0
        var isQuiet = false
        while (true) {
            val frame = try {
                reader.read().also { isQuiet = false }
            } catch (error: SocketTimeoutException) {
                // A ping of ours wakes a server that lives; a second silence is the end.
                if (isQuiet) return finish(1006, "the gateway is silent")
                isQuiet = true
                trySend(Frame.PING)
                continue
            } catch (error: ProtocolError) {
                return fail(error.code, error.message.orEmpty())
            } catch (error: IOException) {
                return finish(1006, error.message ?: "the link was cut")
            }
            when (frame.opcode) {
                Frame.PING -> trySend(Frame.PONG, frame.payload)
                Frame.PONG -> Unit
                Frame.CLOSE -> return closed(frame.payload)
                Frame.TEXT, Frame.BINARY -> {
                    if (kind != 0) return fail(1002, "a message begins inside another")
                    kind = frame.opcode
                }
                Frame.CONTINUATION -> if (kind == 0) return fail(1002, "a part of no message came")
                else -> return fail(1002, "the kind ${frame.opcode} is unknown")
            }
            if (frame.isControl) continue
            message.write(frame.payload)
            if (message.size() > maxBytes) return fail(1009, "a message has more than $maxBytes bytes")
            if (!frame.isFinal) continue
            if (kind == Frame.TEXT) return decode(message.toByteArray()) ?: fail(1007, "a message is no UTF-8")
            message.reset() // ws.md 2.3: binary messages are skipped
            kind = 0
        }
    }

    /** How the link ended, once [read] has returned null. */
    var end = LinkEnd(1006, "")
        private set

    /** Sends a text. Throws `IOException` when the link is gone. */
    fun send(text: String) = writer.write(Frame.TEXT, text.toByteArray())

    /** Says goodbye; the other end closes the connection. */
    fun close(code: Int = 1000) {
        if (isClosing) return
        isClosing = true
        trySend(Frame.CLOSE, closePayload(code, ""))
        runCatching { socket.soTimeout = SECONDS_TO_CLOSE * 1000 }
    }

    /** Cuts the connection. */
    fun abort() {
        runCatching { socket.close() }
    }

    private fun closed(payload: ByteArray): String? {
        val code = if (payload.size < 2) 1005 else ((payload[0].toInt() and 0xFF) shl 8) or (payload[1].toInt() and 0xFF)
        val reason = if (payload.size < 3) "" else String(payload, 2, payload.size - 2, Charsets.UTF_8)
        if (!isClosing) trySend(Frame.CLOSE, payload.copyOf(minOf(payload.size, 2)))
        return finish(code, reason)
    }

    private fun fail(code: Int, reason: String): String? {
        trySend(Frame.CLOSE, closePayload(code, reason))
        return finish(code, reason)
    }

    private fun finish(code: Int, reason: String): String? {
        end = LinkEnd(if (isClosing) 1000 else code, reason)
        abort()
        return null
    }

    private fun trySend(opcode: Int, payload: ByteArray = ByteArray(0)) {
        runCatching { writer.write(opcode, payload) }
    }

    companion object {
        private const val SECONDS_TO_CLOSE = 2
        private const val CONNECT_MS = 15_000
        private const val QUIET_MS = 25_000 // ws.md 8.2: the gateway pings every 20 s
        private const val MAX_BYTES = 16 * 1024 * 1024

        /** Opens a WebSocket. Throws `IOException`, and [UpgradeRefused] where the gateway says no. [tls]: whom to trust. */
        fun open(uri: URI, headers: Map<String, String>, tls: SSLSocketFactory?, maxBytes: Int = MAX_BYTES): WebSocket {
            val socket = connect(uri, tls)
            try {
                socket.soTimeout = CONNECT_MS
                val handshake = Handshake(uri, headers)
                socket.getOutputStream().run {
                    write(handshake.request())
                    flush()
                }
                val input = socket.getInputStream().buffered()
                handshake.check(input)
                socket.soTimeout = QUIET_MS
                return WebSocket(socket, input, maxBytes)
            } catch (error: Throwable) {
                socket.close()
                throw error
            }
        }

        private fun connect(uri: URI, tls: SSLSocketFactory?): Socket {
            val isSecure = uri.scheme == "wss"
            val port = if (uri.port >= 0) uri.port else if (isSecure) 443 else 80
            val plain = Socket()
            try {
                plain.tcpNoDelay = true
                plain.connect(InetSocketAddress(uri.host.trim('[', ']'), port), CONNECT_MS)
                if (!isSecure) return plain
                val factory = tls ?: SSLSocketFactory.getDefault() as SSLSocketFactory
                val secure = factory.createSocket(plain, uri.host.trim('[', ']'), port, true) as SSLSocket
                // Without this a valid certificate of any other host would do.
                secure.sslParameters = secure.sslParameters.apply { endpointIdentificationAlgorithm = "HTTPS" }
                secure.soTimeout = CONNECT_MS
                secure.startHandshake()
                return secure
            } catch (error: Throwable) {
                plain.close()
                throw error
            }
        }

        private fun closePayload(code: Int, reason: String): ByteArray =
            byteArrayOf((code shr 8).toByte(), code.toByte()) + reason.take(40).toByteArray()

        private fun decode(bytes: ByteArray): String? = try {
            val decoder = Charsets.UTF_8.newDecoder()
            decoder.onMalformedInput(CodingErrorAction.REPORT).onUnmappableCharacter(CodingErrorAction.REPORT)
            decoder.decode(ByteBuffer.wrap(bytes)).toString()
        } catch (error: CharacterCodingException) {
            null
        }
    }
}
