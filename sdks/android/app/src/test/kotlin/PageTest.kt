package org.handspan.test

import android.net.Uri
import android.webkit.WebView
import org.handspan.app.R
import org.handspan.app.screens.ChatActivity
import org.handspan.app.screens.Page
import org.handspan.client.PairedGateway
import org.handspan.client.Trust
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
import java.io.File

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class PageTest {
    @Test
    fun `only the gateway's own addresses are opened in the chat`() {
        val page = Page(PairedGateway("https://10.0.0.7:42617", "t", Trust.System))
        assertTrue(page.isOwn(Uri.parse("https://10.0.0.7:42617/x")))
        for (other in listOf("http://10.0.0.7:42617/", "https://10.0.0.7/", "https://10.0.0.8:42617/", "https://10.0.0.7:42617@evil.test/")) {
            assertFalse(other, page.isOwn(Uri.parse(other)))
        }
        assertTrue(Page.isSignIn("https://10.0.0.7:42617/signin?code=a"))
        assertFalse(Page.isSignIn("https://10.0.0.7:42617/device#code=a") || Page.isSignIn("javascript:x//signin?code=a"))
    }

    @Test
    fun `the chat loads the page of the paired gateway, and no sign-in link of another one`() {
        pairWith("http://127.0.0.1:1/x")
        val screen = Robolectric.buildActivity(ChatActivity::class.java).setup().get()
        assertEquals("http://127.0.0.1:1/x/", shadowOf(screen.findViewById<WebView>(R.id.web)!!).lastLoadedUrl)
        val link = android.content.Intent(app, ChatActivity::class.java).putExtra(ChatActivity.LINK, "http://evil.test/signin?code=a")
        val other = Robolectric.buildActivity(ChatActivity::class.java, link).setup().get()
        assertNull(shadowOf(other.findViewById<WebView>(R.id.web)!!).lastLoadedUrl)
        assertTrue("another gateway" in other.text(R.id.problem))
    }

    @Test
    fun `a pairing is kept sealed, and lost with its key`() {
        pairWith()
        val file = File(app.noBackupFilesDir, "pairing.json")
        assertFalse(file.readText(), "\"secret\"" in file.readText())
        assertEquals("secret", parts.pairings.load()!!.token)
        file.writeText(file.readText().replace("sealed:", "other:"))
        assertNull(parts.pairings.load())
        file.writeText("{")
        assertNull(parts.pairings.load())
    }
}
