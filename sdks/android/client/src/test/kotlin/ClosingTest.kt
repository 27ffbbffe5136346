package org.handspan.test

import android.os.NetworkOnMainThreadException
import org.handspan.client.Annotations
import org.handspan.client.Backoff
import org.handspan.client.Client
import org.handspan.client.ClientListener
import org.handspan.client.ClientStatus
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolSpec
import org.handspan.client.pair
import org.json.JSONObject
import org.junit.After
import org.junit.Assert.assertEquals
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** Every public function of a client, on a thread that Android forbids the network. */
@RunWith(RobolectricTestRunner::class) // for org.json: Gradle gives a plain JVM stubs that throw
@Config(sdk = [35])
class ClosingTest {
    private val main = Thread.currentThread()
    private val server = RawServer()
    private val told = LinkedBlockingQueue<Pair<ClientStatus, String>>()

    @After
    fun end() = server.close()

    private fun client(): Client = Client.builder(server.url).authToken("t").device("phone")
        .sockets(GuardedSockets(main))
        .reconnectPolicy(Backoff(10, 20))
        .registerTool(ToolSpec("wait", "Wait", annotations = Annotations(readOnly = true))) { ToolCallResult.Success("done") }
        .listener(object : ClientListener {
            override fun onState(status: ClientStatus, text: String) {
                told.put(status to text)
            }
        })
        .build()

    private fun await(status: ClientStatus): String {
        while (true) {
            val (found, text) = told.poll(60, TimeUnit.SECONDS) ?: throw AssertionError("$status did not come")
            if (found == status) return text
        }
    }

    @Test
    fun `the guard throws on this thread, as Android does`() {
        assertThrows(NetworkOnMainThreadException::class.java) { GuardedSockets(main).createSocket("127.0.0.1", server.port) }
    }

    @Test
    fun `a client is made, started, changed, described and closed on the main thread, and says goodbye`() {
        val client = client()
        client.start()
        assertEquals("phone", await(ClientStatus.ONLINE))
        client.registerTool(ToolSpec("later", "Later")) { ToolCallResult.Success() }
        client.unregisterTool("later")
        client.describe("A phone")
        client.retryNow()
        client.close()
        await(ClientStatus.CLOSED)
        assertTrue("the thread of the link has ended", client.join(60_000))
        assertEquals("the gateway was told", 1000, server.closes.poll(60, TimeUnit.SECONDS))
    }

    @Test
    fun `a gateway that does not answer a goodbye is cut off`() {
        server.answersCloses = false
        val client = client()
        client.start()
        await(ClientStatus.ONLINE)
        client.close()
        await(ClientStatus.CLOSED)
        assertTrue(client.join(60_000))
        assertTrue("the connection has ended", server.ends.tryAcquire(60, TimeUnit.SECONDS))
    }

    @Test
    fun `a client that is still connecting is closed at once`() {
        server.answersUpgrades = false
        val client = client()
        client.start()
        assertTrue(server.begins.tryAcquire(60, TimeUnit.SECONDS))
        client.close()
        await(ClientStatus.CLOSED)
        assertTrue("the connection has ended", server.ends.tryAcquire(60, TimeUnit.SECONDS))
    }

    @Test
    fun `a client that was closed before its start ends at once`() {
        val client = client()
        client.close()
        client.start()
        assertTrue(client.join(60_000))
    }

    @Test
    fun `a refused token ends the client with the reason, another status is tried again`() {
        server.status = "503 Service Unavailable"
        val client = client()
        client.start()
        assertTrue("503" in await(ClientStatus.WAITING))
        server.status = "401 Unauthorized"
        assertTrue("pair this device anew" in await(ClientStatus.CLOSED))
        assertTrue(client.join(60_000))
    }

    @Test
    fun `nothing that comes from a link is heard after its end`() {
        val client = client()
        client.start()
        await(ClientStatus.ONLINE)
        server.cut()
        await(ClientStatus.WAITING)
        await(ClientStatus.ONLINE)
        client.close()
        await(ClientStatus.CLOSED)
    }

    @Test
    fun `a link pairs, also on the main thread, whose network is not used`() {
        server.answer = JSONObject().put("token", "secret").toString()
        val paired = pair("${server.url}/device#code=1234-5678-9012", "phone")
        assertEquals(server.url to "secret", paired.url to paired.token)
        assertEquals("1234-5678-9012", JSONObject(server.bodies.poll(60, TimeUnit.SECONDS)!!).getString("code"))
    }
}
