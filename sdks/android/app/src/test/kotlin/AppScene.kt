package org.handspan.test

import android.app.Activity
import android.content.Intent
import android.os.Looper
import android.view.View
import android.widget.Button
import android.widget.TextView
import com.sun.net.httpserver.HttpServer
import org.handspan.app.AppParts
import org.handspan.app.HandspanApp
import org.handspan.app.Vault
import org.handspan.client.PairedGateway
import org.handspan.client.Trust
import org.junit.Assert.assertTrue
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import java.net.InetSocketAddress
import java.security.GeneralSecurityException
import java.util.concurrent.FutureTask
import java.util.concurrent.LinkedBlockingQueue
import kotlin.concurrent.thread

/** Seals by turning the text round: a JVM has no Android Keystore. */
class TurningVault : Vault {
    override fun seal(text: String) = "sealed:${text.reversed()}"

    override fun open(sealed: String): String {
        if (!sealed.startsWith("sealed:")) throw GeneralSecurityException("the key is gone")
        return sealed.removePrefix("sealed:").reversed()
    }
}

/** The app as it is, but for the Keystore. */
class SceneApp : HandspanApp() {
    override fun vault(): Vault = TurningVault()
}

val app: HandspanApp get() = RuntimeEnvironment.getApplication() as HandspanApp
val parts: AppParts get() = app.parts

fun pairWith(url: String = "http://127.0.0.1:1") = parts.pairings.save(PairedGateway(url, "secret", Trust.System))

fun idle() = shadowOf(Looper.getMainLooper()).idle()

/** Lets the main thread work until this holds; a minute at most. */
fun until(what: String, holds: () -> Boolean) {
    val end = System.nanoTime() + 60_000_000_000
    while (!holds()) {
        assertTrue("$what: it did not come", System.nanoTime() < end)
        idle()
        Thread.sleep(2)
    }
}

/** Runs this beside the main thread, which works meanwhile. */
fun <T> aside(work: () -> T): FutureTask<T> = FutureTask(work).also { thread(isDaemon = true) { it.run() } }

fun <T> FutureTask<T>.answer(): T {
    until("an answer") { isDone }
    return get()
}

/** The next screen or service that was started. */
fun nextStarted(): Intent? = shadowOf(app).nextStartedActivity

fun Activity.text(id: Int): String = findViewById<TextView>(id)!!.text.toString()

fun Activity.press(id: Int) {
    val button = findViewById<Button>(id)!!
    assertTrue("the button is there", button.visibility == View.VISIBLE && button.isEnabled)
    button.performClick()
}

/** A gateway that pairs. */
class PairingGateway(private val status: Int = 200) : AutoCloseable {
    private val server = HttpServer.create(InetSocketAddress("127.0.0.1", 0), 0)
    val url: String get() = "http://127.0.0.1:${server.address.port}"
    val bodies = LinkedBlockingQueue<String>()

    init {
        server.createContext("/pair") { exchange ->
            bodies.put(String(exchange.requestBody.readAllBytes()))
            val answer = (if (status == 200) """{"token":"secret"}""" else "This pairing code is wrong").toByteArray()
            exchange.sendResponseHeaders(status, answer.size.toLong())
            exchange.responseBody.use { it.write(answer) }
        }
        server.start()
    }

    override fun close() = server.stop(0)
}
