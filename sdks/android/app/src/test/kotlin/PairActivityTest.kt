package org.handspan.test

import android.content.Intent
import android.net.Uri
import org.handspan.app.R
import org.handspan.app.screens.ChatActivity
import org.handspan.app.screens.MainActivity
import org.handspan.app.screens.PairActivity
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import java.net.URLEncoder

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class PairActivityTest {
    private fun open(intent: Intent) = Robolectric.buildActivity(PairActivity::class.java, intent).setup().get()

    private fun view(link: String) = open(Intent(Intent.ACTION_VIEW, Uri.parse(link)))

    @Test
    fun `a link names the gateway first, and is exchanged when the person agrees`() {
        PairingGateway().use { gateway ->
            val screen = view("handspan://pair?url=${URLEncoder.encode(gateway.url, "UTF-8")}&code=1234-5678-9012")
            assertTrue(screen.text(R.id.words), gateway.url in screen.text(R.id.words))
            assertTrue("without a certificate it says so", "no certificate" in screen.text(R.id.words))
            assertTrue("nothing was sent", gateway.bodies.isEmpty())
            screen.press(R.id.pair)
            until("the pairing") { parts.pairings.load() != null }
            assertEquals("1234-5678-9012", JSONObject(gateway.bodies.take()).getString("code"))
            assertEquals("secret", parts.pairings.load()!!.token)
            until("the first screen") { screen.isFinishing }
            assertEquals(MainActivity::class.java.name, nextStarted()!!.component!!.className)
            assertEquals("org.handspan.app.DeviceService", shadowOf(app).nextStartedService.component!!.className)
            assertTrue(parts.settings.isWanted)
        }
    }

    @Test
    fun `the link of the QR code, opened or shared, does the same`() {
        val shared = Intent(Intent.ACTION_SEND).putExtra(Intent.EXTRA_TEXT, "https://10.0.0.7:42617/device#code=1")
        for (screen in listOf(view("https://10.0.0.7:42617/device#code=1"), open(shared))) {
            assertEquals("Pair this phone with https://10.0.0.7:42617?", screen.text(R.id.words))
        }
    }

    @Test
    fun `a refused code is shown with the gateway's words, and can be tried again`() {
        PairingGateway(403).use { gateway ->
            val screen = view("${gateway.url}/device#code=1")
            screen.press(R.id.pair)
            until("the refusal") { "This pairing code is wrong" in screen.text(R.id.words) }
            screen.press(R.id.pair)
            assertNull(parts.pairings.load())
            assertFalse(parts.settings.isWanted)
        }
    }

    @Test
    fun `another text is no link`() {
        assertTrue("This is no pairing link" in open(Intent(Intent.ACTION_SEND).putExtra(Intent.EXTRA_TEXT, "hello")).text(R.id.words))
    }

    @Test
    fun `a sign-in link leads to the chat`() {
        val screen = view("https://10.0.0.7:42617/signin?code=abc")
        assertTrue(screen.isFinishing)
        val started = nextStarted()!!
        assertEquals(ChatActivity::class.java.name, started.component!!.className)
        assertEquals("https://10.0.0.7:42617/signin?code=abc", started.getStringExtra(ChatActivity.LINK))
    }
}
