package org.handspan.test

import android.Manifest
import android.app.NotificationManager
import android.view.View
import org.handspan.app.R
import org.handspan.app.screens.QuestionActivity
import org.handspan.app.system
import org.handspan.client.Decision
import org.handspan.client.PermissionQuestion
import org.handspan.device.PermissionActivity
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class ConsentsTest {
    private fun question(tool: String, permission: String, ms: Long = 60_000) =
        PermissionQuestion(permission, tool, "c1", JSONObject().put("query", "Ann"), "General", ms)

    private fun ask(question: PermissionQuestion) = aside { parts.consents.ask(question) }

    private fun notices() = shadowOf(app.system<NotificationManager>()).allNotifications
        .map { shadowOf(it).contentTitle.toString() }.filter { it.startsWith("May an agent") }

    private fun screen(): ActivityController<QuestionActivity> {
        until("the question") { parts.board.first() != null }
        return Robolectric.buildActivity(QuestionActivity::class.java).setup()
    }

    /** The system's dialog, and what the person says there. */
    private fun answerAndroid(isAllowed: Boolean) {
        var intent = nextStarted()
        until("the dialog of Android") {
            if (intent?.component?.className != PermissionActivity::class.java.name) intent = nextStarted()
            intent?.component?.className == PermissionActivity::class.java.name
        }
        val dialog = Robolectric.buildActivity(PermissionActivity::class.java, intent).setup()
        val asked = shadowOf(dialog.get()).lastRequestedPermission
        if (isAllowed) shadowOf(app).grantPermissions(*asked.requestedPermissions)
        dialog.get().onRequestPermissionsResult(asked.requestCode, asked.requestedPermissions, IntArray(asked.requestedPermissions.size) { if (isAllowed) 0 else -1 })
        dialog.pause().stop().destroy()
    }

    @Test
    fun `in the background a notification leads to the question, which says who asks and with what`() {
        val asking = ask(question("notifications", "notifications"))
        val screen = screen()
        assertEquals(listOf("May an agent use “notifications”?"), notices())
        val words = screen.get().text(R.id.words)
        assertTrue(words, "General" in words && "Ann" in words && "private messages" in words)
        assertFalse(asking.isDone)
        screen.get().press(R.id.once)
        assertEquals(Decision.ALLOW, asking.answer()!!.decision)
        until("the end of the screen") { screen.get().isFinishing }
        assertTrue(notices().isEmpty())
        assertFalse("once is once", parts.settings.isAlwaysAllowed("notifications"))
    }

    @Test
    fun `always is remembered, and taken back with the switch`() {
        val asking = ask(question("notifications", "notifications"))
        screen().get().press(R.id.always)
        asking.answer()
        assertEquals(Decision.ALLOW, ask(question("notifications", "notifications", 1)).answer()!!.decision)
        parts.settings.allowAlways("notifications", false)
        assertNull("asked again, and not answered in time", ask(question("notifications", "notifications", 50)).answer())
    }

    @Test
    fun `no is no, and nothing is remembered`() {
        val asking = ask(question("clipboard", "clipboard"))
        screen().get().press(R.id.no)
        assertEquals(Decision.DENY, asking.answer()!!.decision)
    }

    @Test
    fun `a tool that writes to others in one's name is asked about each time`() {
        assumeTrue("the variant for stores has none", parts.tools.find("send_sms") != null)
        parts.settings.allowAlways("send_sms", true)
        val asking = ask(question("send_sms", "sms"))
        val screen = screen()
        assertEquals(View.GONE, screen.get().findViewById<View>(R.id.always)!!.visibility)
        screen.get().press(R.id.once)
        assertEquals(Decision.ALLOW, asking.answer()!!.decision)
    }

    @Test
    fun `one of Android's is asked for by the system after ours, on the same screen`() {
        val asking = ask(question("contacts", Manifest.permission.READ_CONTACTS))
        val screen = screen()
        screen.get().press(R.id.once)
        assertEquals("Android asks you next …", screen.get().text(R.id.words))
        assertFalse(screen.get().isFinishing)
        answerAndroid(isAllowed = true)
        assertEquals(Decision.ALLOW, asking.answer()!!.decision)
        until("the end of the screen") { screen.get().isFinishing }
    }

    @Test
    fun `a remembered always is no leave of Android's`() {
        parts.settings.allowAlways("contacts", true)
        val asking = ask(question("contacts", Manifest.permission.READ_CONTACTS))
        screen()
        answerAndroid(isAllowed = false)
        assertEquals(Decision.DENY, asking.answer()!!.decision)
    }

    @Test
    fun `the exact and the approximate place are asked for together, and about is an answer`() {
        parts.settings.allowAlways("sensors", true)
        val asking = ask(question("sensors", Manifest.permission.ACCESS_FINE_LOCATION))
        screen()
        var intent = nextStarted()
        until("the dialog") { (intent?.component?.className == PermissionActivity::class.java.name).also { if (!it) intent = nextStarted() } }
        val dialog = Robolectric.buildActivity(PermissionActivity::class.java, intent).setup()
        val asked = shadowOf(dialog.get()).lastRequestedPermission.requestedPermissions
        assertEquals(listOf(Manifest.permission.ACCESS_FINE_LOCATION, Manifest.permission.ACCESS_COARSE_LOCATION), asked.toList())
        shadowOf(app).grantPermissions(Manifest.permission.ACCESS_COARSE_LOCATION)
        dialog.get().onRequestPermissionsResult(1, asked, intArrayOf(-1, 0))
        dialog.pause().stop().destroy()
        assertEquals(Decision.ALLOW, asking.answer()!!.decision)
    }

    @Test
    fun `a dialog without an answer ends with the question`() {
        parts.settings.allowAlways("contacts", true)
        val asking = ask(question("contacts", Manifest.permission.READ_CONTACTS, 300))
        screen()
        assertNull(asking.answer())
    }
}
