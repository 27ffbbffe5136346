package org.handspan.websocket

import java.io.IOException
import java.io.InputStream
import java.net.URI
import java.security.MessageDigest
import java.security.SecureRandom
import java.util.Base64

/** The gateway answered the upgrade with another status than 101; [status] says which. */
class UpgradeRefused(val status: Int, message: String) : IOException(message)

private const val MAX_HEAD = 16 * 1024
private const val MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/** The HTTP request that makes a connection a WebSocket (RFC 6455, 4). */
internal class Handshake(private val uri: URI, private val headers: Map<String, String>) {
    private val key: String = Base64.getEncoder().encodeToString(ByteArray(16).also { SecureRandom().nextBytes(it) })

    fun request(): ByteArray {
        val path = (uri.rawPath?.ifEmpty { "/" } ?: "/") + (uri.rawQuery?.let { "?$it" } ?: "")
        val port = if (uri.port < 0) "" else ":${uri.port}"
        val lines = mutableListOf("GET $path HTTP/1.1", "Host: ${uri.host}$port", "Upgrade: websocket", "Connection: Upgrade")
        lines += listOf("Sec-WebSocket-Key: $key", "Sec-WebSocket-Version: 13")
        for ((name, value) in headers) {
            require('\r' !in value && '\n' !in value) { "The header $name holds a line break: a token has none" }
            lines += "$name: $value"
        }
        return lines.joinToString("\r\n", postfix = "\r\n\r\n").toByteArray()
    }

    /** Reads the response. Throws [UpgradeRefused], and `IOException` for what is no WebSocket. */
    fun check(input: InputStream) {
        val lines = readHead(input).split("\r\n")
        val status = lines[0].split(' ').getOrNull(1)?.toIntOrNull() ?: throw IOException("the answer is no HTTP: ${lines[0].take(80)}")
        if (status != 101) throw UpgradeRefused(status, "the gateway answered the upgrade with ${lines[0].take(80)}")
        val found = lines.drop(1).associate { it.substringBefore(':').trim().lowercase() to it.substringAfter(':').trim() }
        if (found["sec-websocket-accept"] != accept()) throw IOException("the answer is that of no WebSocket server")
        if ("sec-websocket-extensions" in found) throw IOException("the server uses an extension that was not offered")
    }

    private fun accept(): String =
        Base64.getEncoder().encodeToString(MessageDigest.getInstance("SHA-1").digest((key + MAGIC).toByteArray()))

    private fun readHead(input: InputStream): String {
        val head = StringBuilder()
        while (!head.endsWith("\r\n\r\n")) {
            val one = input.read()
            if (one < 0) throw IOException("the connection was closed before the answer")
            if (head.length >= MAX_HEAD) throw IOException("the head of the answer has more than $MAX_HEAD bytes")
            head.append(one.toChar())
        }
        return head.toString()
    }
}
