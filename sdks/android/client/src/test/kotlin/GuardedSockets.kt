package org.handspan.test

import android.os.NetworkOnMainThreadException
import java.io.InputStream
import java.io.OutputStream
import java.net.InetAddress
import java.net.InetSocketAddress
import java.net.Socket
import java.net.SocketAddress
import javax.net.SocketFactory

/**
 * Sockets that throw on one thread as Android's do on the main thread: for a connection, a read and a write, and for a close
 * that lingers (libcore, `libcore/io/BlockGuardOs.java`; the policy is `StrictMode.AndroidBlockGuardPolicy.onNetwork`).
 */
class GuardedSockets(private val main: Thread) : SocketFactory() {
    override fun createSocket(): Socket = GuardedSocket()

    override fun createSocket(host: String, port: Int): Socket = createSocket().apply { connect(InetSocketAddress(host, port)) }

    override fun createSocket(host: String, port: Int, own: InetAddress, ownPort: Int): Socket = createSocket(host, port)

    override fun createSocket(host: InetAddress, port: Int): Socket = createSocket().apply { connect(InetSocketAddress(host, port)) }

    override fun createSocket(host: InetAddress, port: Int, own: InetAddress, ownPort: Int): Socket = createSocket(host, port)

    private fun guard() {
        if (Thread.currentThread() === main) throw NetworkOnMainThreadException()
    }

    private inner class GuardedSocket : Socket() {
        override fun connect(address: SocketAddress?, ms: Int) {
            guard()
            super.connect(address, ms)
        }

        override fun getInputStream(): InputStream {
            val real = super.getInputStream()
            return object : InputStream() {
                override fun read(): Int = guard().let { real.read() }

                override fun read(bytes: ByteArray, at: Int, length: Int): Int = guard().let { real.read(bytes, at, length) }

                override fun available(): Int = real.available()

                override fun close() = real.close()
            }
        }

        override fun getOutputStream(): OutputStream {
            val real = super.getOutputStream()
            return object : OutputStream() {
                override fun write(byte: Int) = guard().let { real.write(byte) }

                override fun write(bytes: ByteArray, at: Int, length: Int) = guard().let { real.write(bytes, at, length) }

                override fun close() = real.close()
            }
        }

        override fun close() {
            if (soLinger > 0) guard()
            super.close()
        }
    }
}
