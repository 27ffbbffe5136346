package org.handspan.app.tools

import android.content.ClipData
import android.content.ClipboardManager
import android.content.Context
import org.handspan.app.R
import org.handspan.app.system
import org.handspan.client.Annotations
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec

private const val PERMISSION = "clipboard"

internal fun clipboardTools(context: Context): List<ToolEntry> = listOf(
    ToolEntry(
        ToolSpec(
            "clipboard",
            "Read the text in this phone's clipboard; Android allows it only while Handspan is on the screen",
            permissions = listOf(PERMISSION),
            annotations = Annotations(readOnly = true),
        ),
        R.string.tool_clipboard,
        R.string.gives_clipboard,
        handler = handler { read(context) },
    ),
    ToolEntry(
        ToolSpec(
            "set_clipboard",
            "Put a text into this phone's clipboard",
            """{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}""",
            annotations = Annotations(idempotent = true, destructive = false),
        ),
        R.string.tool_set_clipboard,
        R.string.gives_set_clipboard,
        handler = handler { write(context, it.args.getString("text")) },
    ),
)

/** Since Android 10 an app that has not the focus gets nothing, which looks like an empty clipboard. */
private fun read(context: Context): String {
    val clip = context.system<ClipboardManager>().primaryClip
    if (clip == null || clip.itemCount == 0) {
        throw ToolError("execution_failed", "The clipboard is empty, or Handspan is not on the screen: Android lets only the app in front read it")
    }
    return clip.getItemAt(0).coerceToText(context).toString()
}

private fun write(context: Context, text: String): String {
    context.system<ClipboardManager>().setPrimaryClip(ClipData.newPlainText("Handspan", text))
    return "Copied ${text.length} characters"
}
