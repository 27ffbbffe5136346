package org.handspan.app.tools

import android.app.ActivityManager
import android.content.Context
import android.content.Intent
import android.net.Uri
import org.handspan.app.AppSettings
import org.handspan.app.Notices
import org.handspan.app.R
import org.handspan.client.Annotations
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec

internal fun linkTool(context: Context, settings: AppSettings, notices: Notices) = ToolEntry(
    ToolSpec(
        "open_link",
        "Open a web page on this phone, of a host that its owner allows",
        """{"type":"object","properties":{"url":{"type":"string"}},"required":["url"]}""",
        permissions = listOf("links"),
        annotations = Annotations(openWorld = true, destructive = false),
    ),
    R.string.tool_open_link,
    R.string.gives_open_link,
    handler = handler { open(context, settings, notices, it.args.getString("url")) },
)

private fun open(context: Context, settings: AppSettings, notices: Notices, url: String): String {
    val link = Uri.parse(url)
    val host = link.host?.lowercase().orEmpty()
    if (link.scheme?.lowercase() != "https" || host.isEmpty()) throw ToolError("invalid_arguments", "Only links that begin with https:// are opened")
    if (!settings.allowsLink(host)) {
        throw ToolError("permission_denied", "Links to '$host' are not allowed here: its owner adds hosts on the phone, in Handspan, Tools, Open links")
    }
    if (isInFront()) {
        context.startActivity(Intent(Intent.ACTION_VIEW, link).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        return "Opened"
    }
    notices.showLink(link)
    return "The phone is in use otherwise: the link is a notification that the person can tap"
}

/** Since Android 10 an app in the background can start no screen, and is not told so. */
private fun isInFront(): Boolean {
    val state = ActivityManager.RunningAppProcessInfo().also { ActivityManager.getMyMemoryState(it) }
    return state.importance == ActivityManager.RunningAppProcessInfo.IMPORTANCE_FOREGROUND
}
