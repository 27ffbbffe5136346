package org.handspan.test

import java.io.InputStream
import java.io.OutputStream
import java.net.ServerSocket
import java.net.Socket
import java.security.MessageDigest
import java.util.Base64
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.Semaphore
import kotlin.concurrent.thread

/** A gateway that upgrades, introduces itself, and does what a test wants of the ends of a link. */
class RawServer : AutoCloseable {
    private val listening = ServerSocket(0)
    private val open = CopyOnWriteArrayList<Socket>()
    val port: Int get() = listening.localPort
    val url: String get() = "http://127.0.0.1:$port"
    val closes = LinkedBlockingQueue<Int>()
    val bodies = LinkedBlockingQueue<String>()
    val begins = Semaphore(0)
    val ends = Semaphore(0)
    @Volatile var status = "101 Switching Protocols"
    @Volatile var answer = "{}"
    @Volatile var answersUpgrades = true
    @Volatile var answersCloses = true

    init {
        thread(isDaemon = true) {
            while (!listening.isClosed) {
                val socket = runCatching { listening.accept() }.getOrNull() ?: break
                thread(isDaemon = true) { serve(socket) }
            }
        }
    }

    fun cut() = open.forEach { it.close() }

    private fun serve(socket: Socket) {
        open += socket
        try {
            socket.use { serve(it.getInputStream(), it.getOutputStream()) }
        } catch (cut: Exception) {
            // the client went
        } finally {
            open -= socket
            ends.release()
        }
    }

    private fun serve(input: InputStream, output: OutputStream) {
        val head = StringBuilder()
        while (!head.endsWith("\r\n\r\n")) head.append(input.read().also { if (it < 0) return }.toChar())
        begins.release()
        if (head.startsWith("POST")) return answerPost(head.toString(), input, output)
        if (!answersUpgrades) {
            input.read() // until the client gives up
            return
        }
        if (!status.startsWith("101")) return output.write("HTTP/1.1 $status\r\nContent-Length: 0\r\n\r\n".toByteArray())
        val key = Regex("Sec-WebSocket-Key: (\\S+)").find(head)!!.groupValues[1]
        output.write("HTTP/1.1 $status\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${acceptOf(key)}\r\n\r\n".toByteArray())
        output.write(frame(1, """{"type":"connected","v":1,"label":"phone","capabilities":["unregister","about"]}""".toByteArray()))
        while (true) {
            val (opcode, payload) = read(input) ?: return
            if (opcode != 8) continue
            closes.put(((payload[0].toInt() and 0xFF) shl 8) or (payload[1].toInt() and 0xFF))
            if (answersCloses) return output.write(frame(8, payload.copyOf(2)))
        }
    }

    private fun answerPost(head: String, input: InputStream, output: OutputStream) {
        val length = Regex("Content-Length: (\\d+)").find(head)!!.groupValues[1].toInt()
        bodies.put(String(input.readNBytes(length)))
        output.write("HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n$answer".toByteArray())
    }

    private fun read(input: InputStream): Pair<Int, ByteArray>? {
        val first = input.read().also { if (it < 0) return null }
        val short = input.read() and 0x7F
        val length = if (short == 126) (input.read() shl 8) or input.read() else short
        val mask = input.readNBytes(4)
        val payload = input.readNBytes(length)
        return (first and 0x0F) to ByteArray(length) { (payload[it].toInt() xor mask[it and 3].toInt()).toByte() }
    }

    override fun close() {
        listening.close()
        cut()
    }
}

private fun frame(opcode: Int, payload: ByteArray): ByteArray = byteArrayOf((0x80 or opcode).toByte(), payload.size.toByte()) + payload

private fun acceptOf(key: String): String {
    val digest = MessageDigest.getInstance("SHA-1").digest((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").toByteArray())
    return Base64.getEncoder().encodeToString(digest)
}
