package org.handspan.websocket

import java.io.DataInputStream
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream
import java.net.SocketTimeoutException
import java.security.SecureRandom

/** Frames of RFC 6455, on any two streams. No socket, no thread. */
internal class Frame(val opcode: Int, val isFinal: Boolean, val payload: ByteArray) {
    val isControl get() = opcode and 0x8 != 0

    companion object {
        const val CONTINUATION = 0x0
        const val TEXT = 0x1
        const val BINARY = 0x2
        const val CLOSE = 0x8
        const val PING = 0x9
        const val PONG = 0xA
    }
}

/** The other end does not speak the protocol; [code] is what the link is closed with (RFC 6455, 7.4.1). */
internal class ProtocolError(val code: Int, message: String) : IOException(message)

/** Reads frames of a server, which are not masked (5.1). */
internal class FrameReader(input: InputStream, private val maxBytes: Int) {
    private val input = DataInputStream(input)

    /** The next frame. Throws `SocketTimeoutException` when none begins in time, `EOFException` at the end, [ProtocolError]. */
    fun read(): Frame {
        val first = input.readUnsignedByte() // between two frames a silence may be endured
        return try {
            readAfter(first)
        } catch (error: SocketTimeoutException) {
            throw IOException("the gateway fell silent in the middle of a frame")
        }
    }

    private fun readAfter(first: Int): Frame {
        val second = input.readUnsignedByte()
        if (first and 0x70 != 0) throw ProtocolError(1002, "a reserved bit is set, and no extension was agreed on")
        if (second and 0x80 != 0) throw ProtocolError(1002, "a server's frame is masked")
        val frame = Frame(first and 0x0F, first and 0x80 != 0, readPayload(second and 0x7F, first and 0x0F))
        if (frame.isControl && (!frame.isFinal || frame.payload.size > 125)) throw ProtocolError(1002, "a control frame is too long")
        return frame
    }

    private fun readPayload(announced: Int, opcode: Int): ByteArray {
        val length = when (announced) {
            126 -> input.readUnsignedShort().toLong()
            127 -> input.readLong()
            else -> announced.toLong()
        }
        if (length < 0 || length > maxBytes) {
            throw ProtocolError(1009, "a frame of the kind $opcode has $length bytes, and $maxBytes are taken")
        }
        val payload = ByteArray(length.toInt())
        input.readFully(payload)
        return payload
    }
}

/** Writes frames of a client, each masked with a random key (5.3). */
internal class FrameWriter(private val output: OutputStream, private val random: SecureRandom = SecureRandom()) {
    /** Writes one whole message. Several threads may call it. */
    @Synchronized
    fun write(opcode: Int, payload: ByteArray) {
        val mask = ByteArray(4).also { random.nextBytes(it) }
        val head = head(opcode, payload.size)
        val bytes = ByteArray(head.size + 4 + payload.size)
        head.copyInto(bytes)
        mask.copyInto(bytes, head.size)
        for (i in payload.indices) bytes[head.size + 4 + i] = (payload[i].toInt() xor mask[i and 3].toInt()).toByte()
        output.write(bytes)
        output.flush()
    }

    private fun head(opcode: Int, length: Int): ByteArray {
        val first = (0x80 or opcode).toByte()
        return when {
            length < 126 -> byteArrayOf(first, (0x80 or length).toByte())
            length < 65536 -> byteArrayOf(first, (0x80 or 126).toByte(), (length shr 8).toByte(), length.toByte())
            else -> byteArrayOf(first, (0x80 or 127).toByte(), 0, 0, 0, 0) +
                byteArrayOf((length shr 24).toByte(), (length shr 16).toByte(), (length shr 8).toByte(), length.toByte())
        }
    }
}
