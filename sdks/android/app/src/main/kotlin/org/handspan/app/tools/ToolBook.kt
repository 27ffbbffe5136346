package org.handspan.app.tools

import android.content.Context
import org.handspan.app.AppSettings
import org.handspan.app.Notices
import org.handspan.app.R
import org.handspan.client.AskPermission
import org.handspan.client.Decision
import org.handspan.client.PermissionQuestion
import org.handspan.client.ToolCallHandler
import org.handspan.client.ToolCallRequest
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import org.handspan.device.DeviceTools

/** A tool of this phone, as the person sees it in the list: what it is called, and what it gives to agents. */
class ToolEntry(
    val spec: ToolSpec,
    val title: Int,
    val gives: Int,
    /** Whether the person is asked before every call: there is no "always". */
    val asksAlways: Boolean = false,
    val handler: ToolCallHandler,
)

/** Every tool that this phone can offer. Each is off until the person switches it on. */
class ToolBook(context: Context, androids: AskPermission, settings: AppSettings, notices: Notices) {
    private val entries: Map<String, ToolEntry> = listOf(
        deviceTools(context, androids),
        noticeTools(context),
        calendarTools(context, Granted(androids)),
        clipboardTools(context),
        listOf(linkTool(context, settings, notices)),
        flavorTools(context, Granted(androids)),
    ).flatten().associateBy { it.spec.name }

    fun all(): Collection<ToolEntry> = entries.values

    fun find(name: String): ToolEntry? = entries[name]

    private fun deviceTools(context: Context, androids: AskPermission): List<ToolEntry> {
        val words = mapOf(
            "device_info" to (R.string.tool_device_info to R.string.gives_device_info),
            "camera" to (R.string.tool_camera to R.string.gives_camera),
            "contacts" to (R.string.tool_contacts to R.string.gives_contacts),
            "sensors" to (R.string.tool_sensors to R.string.gives_sensors),
        )
        return DeviceTools(context, androids).all().map { (spec, handler) ->
            val (title, gives) = words.getValue(spec.name)
            ToolEntry(spec, title, gives, handler = handler)
        }
    }
}

/** Asks Android itself before a call; the gateway may have asked the person a moment ago. */
class Granted(private val androids: AskPermission) {
    fun call(permission: String, work: (ToolCallRequest) -> Any?) = ToolCallHandler { request ->
        val question = PermissionQuestion(permission, request.name, request.id, request.args, "", ASK_MS)
        val answer = androids.ask(question) ?: throw ToolError("permission_denied", "Permission '$permission' was not answered in time")
        if (answer.decision != Decision.ALLOW) {
            val how = if (answer.howToEnable.isEmpty()) "" else ": ${answer.howToEnable}"
            val code = if (answer.decision == Decision.DENY) "permission_denied" else "permission_denied_forever"
            throw ToolError(code, "Permission '$permission' was denied by the user$how")
        }
        ToolCallResult.Success(work(request))
    }

    private companion object {
        const val ASK_MS = 60_000L
    }
}

/** A handler that returns what this work gives. */
internal fun handler(work: (ToolCallRequest) -> Any?) = ToolCallHandler { ToolCallResult.Success(work(it)) }
