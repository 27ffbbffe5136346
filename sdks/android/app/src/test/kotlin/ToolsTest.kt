package org.handspan.test

import android.app.ActivityManager
import android.app.Notification
import android.app.NotificationManager
import android.app.PendingIntent
import android.app.RemoteInput
import android.content.ClipData
import android.content.ClipboardManager
import android.content.Intent
import android.os.Process
import android.service.notification.StatusBarNotification
import android.view.ViewGroup
import android.widget.Switch
import org.handspan.app.R
import org.handspan.app.screens.ToolsActivity
import org.handspan.app.system
import org.handspan.app.tools.NoticeListener
import org.handspan.app.tools.momentOf
import org.handspan.client.CallContext
import org.handspan.client.ToolCallRequest
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolError
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import java.time.Instant
import java.time.ZoneId

private val NAMES = listOf(
    "device_info", "camera", "contacts", "sensors", "notifications", "reply_to_notification", "dismiss_notification", "calendar",
    "add_event", "clipboard", "set_clipboard", "open_link",
)

/** What only the variant that is not for stores has. */
private val MESSAGES = listOf("search_sms", "send_sms")

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class ToolsTest {
    private fun call(tool: String, vararg args: Pair<String, Any>): Any? {
        val context = object : CallContext {
            override val isCancelled = false
            override fun progress(value: Any?) = Unit
        }
        val given = JSONObject().apply { args.forEach { (key, value) -> put(key, value) } }
        return when (val result = parts.tools.find(tool)!!.handler.handleToolCall(ToolCallRequest("c1", tool, given, context))) {
            is ToolCallResult.Success -> result.output
            is ToolCallResult.Failure -> throw AssertionError(result.error)
        }
    }

    private fun refused(tool: String, vararg args: Pair<String, Any>) = assertThrows(ToolError::class.java) { call(tool, *args) }

    @Test
    fun `all tools are there, each with words for the person, and none is on`() {
        val names = parts.tools.all().map { it.spec.name }
        assertTrue(names.toString(), names == NAMES || names == NAMES + MESSAGES)
        assertFalse(names.any { parts.settings.isToolOn(it) })
        val writers = parts.tools.all().filter { it.spec.annotations?.readOnly != true }.map { it.spec.name } - "send_sms"
        assertEquals(listOf("reply_to_notification", "dismiss_notification", "add_event", "set_clipboard", "open_link"), writers)
        assertEquals(names.filter { it == "send_sms" }, parts.tools.all().filter { it.asksAlways }.map { it.spec.name })
    }

    @Test
    fun `the list switches a tool on and off, and forgets what was always allowed`() {
        val screen = Robolectric.buildActivity(ToolsActivity::class.java).setup().get()
        val rows = screen.findViewById<ViewGroup>(R.id.rows)!!
        val switches = (0 until rows.childCount).mapNotNull { rows.getChildAt(it).findViewById<Switch>(R.id.toggle) }
        assertEquals(parts.tools.all().size, switches.size)
        assertEquals("TalkBack says which", "This phone", switches[0].contentDescription)
        switches[0].performClick()
        assertTrue(parts.settings.isToolOn("device_info"))
        parts.settings.allowAlways("device_info", true)
        switches[0].performClick()
        assertFalse(parts.settings.isToolOn("device_info") || parts.settings.isAlwaysAllowed("device_info"))
    }

    @Test
    fun `a link is opened in front, shown as a notification in the background, and refused for other hosts`() {
        parts.settings.linkHosts = ToolsActivity.hostsIn("Example.org, https://docs.test/x *.other.test nonsense")
        assertEquals(setOf("example.org", "docs.test", "other.test"), parts.settings.linkHosts)
        for (url in listOf("https://evil.test/", "https://notexample.org/", "https://example.org.evil.test/", "https://example.org@evil.test/")) {
            assertEquals(url, "permission_denied", refused("open_link", "url" to url).code)
        }
        for (url in listOf("http://example.org/", "intent://example.org#Intent;end", "file:///etc/hosts", "javascript:alert(1)")) {
            assertEquals(url, "invalid_arguments", refused("open_link", "url" to url).code)
        }
        importance(ActivityManager.RunningAppProcessInfo.IMPORTANCE_FOREGROUND)
        assertEquals("Opened", call("open_link", "url" to "https://www.example.org/a"))
        assertEquals("https://www.example.org/a", nextStarted()!!.dataString)
        importance(ActivityManager.RunningAppProcessInfo.IMPORTANCE_FOREGROUND_SERVICE)
        call("open_link", "url" to "https://docs.test/x")
        assertEquals(null, nextStarted())
        assertTrue(shadowOf(app.system<NotificationManager>()).allNotifications.any { shadowOf(it).contentText == "https://docs.test/x" })
    }

    private fun importance(value: Int) {
        val own = ActivityManager.RunningAppProcessInfo("org.handspan.app", Process.myPid(), null).apply { importance = value }
        shadowOf(app.system<ActivityManager>()).setProcesses(listOf(own))
    }

    @Test
    fun `notifications are listed, answered and removed, once the person lets the app read them`() {
        assertEquals("permission_denied_forever", refused("notifications").code)
        val listener = Robolectric.buildService(NoticeListener::class.java).create().get()
        listener.onListenerConnected()
        val input = RemoteInput.Builder("answer").setAllowFreeFormInput(true).build()
        val reply = PendingIntent.getBroadcast(app, 0, Intent("com.example.chat.REPLY").setPackage(app.packageName), PendingIntent.FLAG_MUTABLE)
        val message = Notification.Builder(app, "x").setContentTitle("Ann").setContentText("Lunch?")
            .addAction(Notification.Action.Builder(null, "Reply", reply).addRemoteInput(input).build()).build()
        val plain = Notification.Builder(app, "x").setContentTitle("Rain").setOngoing(true).build()
        val shown = listOf(message to "com.example.chat", plain to "com.example.weather").mapIndexed { id, (notice, from) ->
            StatusBarNotification(from, from, id, null, 10_000 + id, 1, 0, notice, Process.myUserHandle(), 1000L + id)
        }
        shown.forEach { shadowOf(listener).addActiveNotification(it) }
        val listed = call("notifications") as List<*>
        assertEquals(listOf("Rain", "Ann"), listed.map { (it as Map<*, *>)["title"] })
        assertEquals(listOf(false, true), listed.map { (it as Map<*, *>)["can_reply"] })
        assertEquals(listOf("Lunch?"), (call("notifications", "app" to "CHAT") as List<*>).map { (it as Map<*, *>)["text"] })
        assertEquals("Handed to the app", call("reply_to_notification", "key" to shown[0].key, "text" to "Yes"))
        idle()
        val sent = shadowOf(app).broadcastIntents.last()
        assertEquals("Yes", RemoteInput.getResultsFromIntent(sent)!!.getCharSequence("answer").toString())
        assertTrue("takes no answer" in refused("reply_to_notification", "key" to shown[1].key, "text" to "x").message!!)
        call("dismiss_notification", "key" to shown[0].key)
        assertTrue("no notification" in refused("dismiss_notification", "key" to shown[0].key).message!!)
        assertTrue("lets no app" in refused("dismiss_notification", "key" to shown[1].key).message!!)
        listener.onListenerDisconnected()
        assertEquals("permission_denied_forever", refused("notifications").code)
    }

    @Test
    fun `times are days, times of this phone, or times with an offset`() {
        val zone = ZoneId.of("Europe/Berlin")
        assertEquals(Instant.parse("2026-01-30T23:00:00Z") to true, momentOf("2026-01-31", zone).run { instant to isDay })
        assertEquals(Instant.parse("2026-01-31T08:30:00Z"), momentOf("2026-01-31T09:30", zone).instant)
        assertEquals(Instant.parse("2026-01-31T10:30:00Z"), momentOf("2026-01-31T09:30-01:00", zone).instant)
        assertEquals("invalid_arguments", assertThrows(ToolError::class.java) { momentOf("tomorrow", zone) }.code)
    }

    @Test
    fun `a calendar that is not there says so`() {
        shadowOf(app).grantPermissions("android.permission.WRITE_CALENDAR")
        assertTrue("no calendar" in refused("add_event", "title" to "Lunch", "start" to "2026-01-31").message!!)
        assertEquals("invalid_arguments", refused("add_event", "title" to "x", "start" to "2026-02-01", "end" to "2026-01-01").code)
    }

    @Test
    fun `the clipboard is read and written`() {
        assertTrue("not on the screen" in refused("clipboard").message!!)
        call("set_clipboard", "text" to "hello")
        assertEquals("hello", call("clipboard"))
        app.system<ClipboardManager>().setPrimaryClip(ClipData.newPlainText("x", "other"))
        assertEquals("other", call("clipboard"))
    }
}
