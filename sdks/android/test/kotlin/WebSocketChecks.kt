package org.handspan.test

import org.handspan.websocket.UpgradeRefused
import org.handspan.websocket.WebSocket
import java.io.IOException
import java.net.ServerSocket
import java.net.Socket
import java.net.URI
import java.security.MessageDigest
import java.util.Base64
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** A server that sends these bytes after the upgrade, and keeps what the client sends. */
private class RawServer(private val status: String, private val accept: (String) -> String, private val bytes: ByteArray) : AutoCloseable {
    private val listening = ServerSocket(0)
    val frames = LinkedBlockingQueue<Pair<Int, ByteArray>>()
    val uri = URI("ws://127.0.0.1:${listening.localPort}/ws/chat?x=1")

    init {
        thread(isDaemon = true) { runCatching { listening.accept().use { serve(it) } } }
    }

    private fun serve(socket: Socket) {
        val input = socket.getInputStream()
        val head = StringBuilder()
        while (!head.endsWith("\r\n\r\n")) head.append(input.read().toChar())
        val key = Regex("Sec-WebSocket-Key: (\\S+)").find(head)!!.groupValues[1]
        val lines = listOf("HTTP/1.1 $status", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: ${accept(key)}")
        socket.getOutputStream().write(lines.joinToString("\r\n", postfix = "\r\n\r\n").toByteArray() + bytes)
        while (true) {
            val opcode = input.read().also { if (it < 0) return } and 0x0F
            val length = input.read() and 0x7F
            val mask = input.readNBytes(4)
            val payload = input.readNBytes(length)
            frames.put(opcode to ByteArray(length) { (payload[it].toInt() xor mask[it and 3].toInt()).toByte() })
        }
    }

    override fun close() = listening.close()
}

private fun acceptOf(key: String): String {
    val digest = MessageDigest.getInstance("SHA-1").digest((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").toByteArray())
    return Base64.getEncoder().encodeToString(digest)
}

private fun frame(opcode: Int, payload: ByteArray, isFinal: Boolean = true): ByteArray =
    byteArrayOf(((if (isFinal) 0x80 else 0) or opcode).toByte(), payload.size.toByte()) + payload

private fun frame(opcode: Int, text: String, isFinal: Boolean = true) = frame(opcode, text.toByteArray(), isFinal)

private fun serve(vararg frames: ByteArray) = RawServer("101 Switching Protocols", ::acceptOf, frames.fold(ByteArray(0)) { all, one -> all + one })

private fun open(server: RawServer) = WebSocket.open(server.uri, mapOf("Authorization" to "Bearer t"), null, 1000)

fun Checks.webSockets() {
    check("messages come whole, also in parts with a ping between, and binary ones are skipped") {
        val bytes = arrayOf(
            frame(1, "one"), frame(1, "t", false), frame(9, "hi"), frame(0, "wo"), frame(2, "x"), frame(1, "three é"), frame(8, byteArrayOf(3, -24)),
        )
        serve(*bytes).use { server ->
            val socket = open(server)
            expect(listOf("one", "two", "three é", null), List(4) { socket.read() })
            expect(1000, socket.end.code)
            val (opcode, payload) = server.frames.poll(30, TimeUnit.SECONDS)!!
            expect(0xA to "hi", opcode to String(payload))
        }
    }
    val broken = mapOf(
        "a masked frame" to (byteArrayOf(0x81.toByte(), 0x81.toByte(), 0, 0, 0, 0, 65) to 1002),
        "a reserved bit" to (byteArrayOf(0xC1.toByte(), 1, 65) to 1002),
        "an unknown kind" to (frame(3, "x") to 1002),
        "a part of no message" to (frame(0, "x") to 1002),
        "a message inside another" to (frame(1, "a", false) + frame(1, "b") to 1002),
        "a ping in parts" to (frame(9, "a", false) to 1002),
        "text that is no UTF-8" to (frame(1, byteArrayOf(-1, -2)) to 1007),
        "a frame that is too large" to (byteArrayOf(0x81.toByte(), 127, 0, 0, 0, 1, 0, 0, 0, 0) to 1009),
        "a frame of less than no bytes" to (byteArrayOf(0x81.toByte(), 127, -1, 0, 0, 0, 0, 0, 0, 0) to 1009),
        "a message of too many parts" to ((1..20).fold(frame(1, "", false)) { all, _ -> all + frame(0, "x".repeat(100), false) } to 1009),
    )
    for ((what, sent) in broken) {
        check("$what ends the link") {
            serve(sent.first).use { server ->
                val socket = open(server)
                expect(null, socket.read())
                expect(sent.second, socket.end.code)
            }
        }
    }
    check("a refusal has its status") {
        RawServer("401 Unauthorized", ::acceptOf, ByteArray(0)).use { expect(401, expectThrown<UpgradeRefused> { open(it) }.status) }
    }
    check("a server that is none is refused") {
        RawServer("101 Switching Protocols", { "x" }, ByteArray(0)).use { expectThrown<IOException> { open(it) } }
    }
    check("a token with a line break is refused") {
        serve().use { expectThrown<IllegalArgumentException> { WebSocket.open(it.uri, mapOf("Authorization" to "a\r\nb"), null, 100) } }
    }
}
