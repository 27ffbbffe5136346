package org.handspan.app.tools

import android.app.Notification
import android.app.PendingIntent
import android.app.RemoteInput
import android.content.Context
import android.content.Intent
import android.os.Bundle
import android.service.notification.NotificationListenerService
import android.service.notification.StatusBarNotification
import org.handspan.app.R
import org.handspan.client.Annotations
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec

/** Android connects this service while the person allows the app to read notifications. */
class NoticeListener : NotificationListenerService() {
    override fun onListenerConnected() {
        current = this
    }

    override fun onListenerDisconnected() {
        current = null
    }

    override fun onDestroy() {
        current = null
        super.onDestroy()
    }

    companion object {
        /** The service that is connected now; null without the person's leave. */
        @Volatile internal var current: NoticeListener? = null
    }
}

private const val PERMISSION = "notifications"
private const val MAX_NOTICES = 50
private const val KEY = """"key":{"type":"string","description":"as `notifications` gave it"}"""

internal fun noticeTools(context: Context): List<ToolEntry> = listOf(
    ToolEntry(
        ToolSpec(
            "notifications",
            "List the notifications that are shown on this phone now, the newest first: key, app, title, text, time in milliseconds",
            """{"type":"object","properties":{"app":{"type":"string","description":"only of apps whose name has this in it"}}}""",
            permissions = listOf(PERMISSION),
            annotations = Annotations(readOnly = true),
        ),
        R.string.tool_notifications,
        R.string.gives_notifications,
        handler = handler { listNotices(context, it.args.optString("app")) },
    ),
    ToolEntry(
        ToolSpec(
            "reply_to_notification",
            "Answer a message by its notification, as the person would from the notification itself",
            """{"type":"object","properties":{$KEY,"text":{"type":"string"}},"required":["key","text"]}""",
            permissions = listOf(PERMISSION),
            annotations = Annotations(openWorld = true),
        ),
        R.string.tool_reply,
        R.string.gives_reply,
        handler = handler { reply(context, it.args.getString("key"), it.args.getString("text")) },
    ),
    ToolEntry(
        ToolSpec(
            "dismiss_notification",
            "Remove a notification from this phone's screen",
            """{"type":"object","properties":{$KEY},"required":["key"]}""",
            permissions = listOf(PERMISSION),
            annotations = Annotations(idempotent = true),
        ),
        R.string.tool_dismiss,
        R.string.gives_dismiss,
        handler = handler { dismiss(it.args.getString("key")) },
    ),
)

private fun listener(): NoticeListener = NoticeListener.current ?: throw ToolError(
    "permission_denied_forever",
    "This phone does not let the app read notifications: open Settings, Notifications, Device and app notifications, and allow Handspan",
)

private fun listNotices(context: Context, app: String): List<Map<String, Any>> =
    listener().activeNotifications.orEmpty()
        .filter { it.packageName != context.packageName }
        .sortedByDescending { it.postTime }
        .map { describe(context, it) }
        .filter { app.isEmpty() || app.lowercase() in it.getValue("app").toString().lowercase() }
        .take(MAX_NOTICES)

private fun describe(context: Context, notice: StatusBarNotification): Map<String, Any> {
    val extras = notice.notification.extras
    return mapOf(
        "key" to notice.key,
        "app" to nameOf(context, notice.packageName),
        "title" to extras.getCharSequence(Notification.EXTRA_TITLE, "").toString(),
        "text" to (extras.getCharSequence(Notification.EXTRA_BIG_TEXT) ?: extras.getCharSequence(Notification.EXTRA_TEXT, "")).toString(),
        "time" to notice.postTime,
        "can_reply" to (replyOf(notice) != null),
    )
}

/** The app's name; its package where this app may not see it (package visibility, since Android 11). */
private fun nameOf(context: Context, app: String): String = try {
    context.packageManager.getApplicationInfo(app, 0).loadLabel(context.packageManager).toString()
} catch (hidden: android.content.pm.PackageManager.NameNotFoundException) {
    app
}

private fun find(key: String): StatusBarNotification = listener().activeNotifications.orEmpty().find { it.key == key }
    ?: throw ToolError("execution_failed", "There is no notification '$key' any more: list them again")

private fun replyOf(notice: StatusBarNotification): Notification.Action? =
    notice.notification.actions?.find { action -> action.remoteInputs?.any { it.allowFreeFormInput } == true }

private fun reply(context: Context, key: String, text: String): String {
    val action = replyOf(find(key)) ?: throw ToolError("execution_failed", "The notification '$key' takes no answer")
    val inputs = action.remoteInputs
    val answers = Bundle().apply { inputs.filter { it.allowFreeFormInput }.forEach { putCharSequence(it.resultKey, text) } }
    val filled = Intent().also { RemoteInput.addResultsToIntent(inputs, it, answers) }
    try {
        action.actionIntent.send(context, 0, filled)
    } catch (gone: PendingIntent.CanceledException) {
        throw ToolError("execution_failed", "The app takes the answer no more: its notification is outdated")
    }
    return "Handed to the app"
}

private fun dismiss(key: String): String {
    val notice = find(key)
    if (!notice.isClearable) throw ToolError("execution_failed", "Android lets no app remove this notification")
    listener().cancelNotification(key)
    return "Removed"
}
