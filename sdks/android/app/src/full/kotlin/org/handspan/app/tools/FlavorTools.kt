package org.handspan.app.tools

import android.Manifest
import android.app.Activity
import android.app.PendingIntent
import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.os.Build
import android.provider.Telephony.Sms
import android.telephony.SmsManager
import org.handspan.app.R
import org.handspan.app.system
import org.handspan.client.Annotations
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

private const val MAX_MESSAGES = 50
private const val SENT = "org.handspan.app.SMS_SENT"
private const val SECONDS = 60L
private val numbers = AtomicInteger()

/** The tools for SMS, which are only in the variant that is not for stores. */
internal fun flavorTools(context: Context, granted: Granted): List<ToolEntry> = listOf(
    ToolEntry(
        ToolSpec(
            "search_sms",
            "Search this phone's text messages, the newest first, 50 at most",
            """{"type":"object","properties":{"query":{"type":"string","description":"in the text"},
                "number":{"type":"string","description":"of whom or to whom"}}}""",
            permissions = listOf(Manifest.permission.READ_SMS),
            annotations = Annotations(readOnly = true),
        ),
        R.string.tool_search_sms,
        R.string.gives_search_sms,
        handler = granted.call(Manifest.permission.READ_SMS) { searchSms(context, it.args.optString("query"), it.args.optString("number")) },
    ),
    ToolEntry(
        ToolSpec(
            "send_sms",
            "Send a text message from this phone; its owner is asked before each one",
            """{"type":"object","properties":{"number":{"type":"string","pattern":"^\\+?[0-9 ()/-]{3,20}${'$'}"},
                "text":{"type":"string","minLength":1,"maxLength":1000}},"required":["number","text"]}""",
            permissions = listOf(Manifest.permission.SEND_SMS),
            timeout = 120.0,
            annotations = Annotations(openWorld = true),
        ),
        R.string.tool_send_sms,
        R.string.gives_send_sms,
        asksAlways = true,
        handler = granted.call(Manifest.permission.SEND_SMS) { sendSms(context, it.args.getString("number"), it.args.getString("text")) },
    ),
)

private fun searchSms(context: Context, query: String, number: String): List<Map<String, Any>> {
    val columns = arrayOf(Sms.ADDRESS, Sms.BODY, Sms.DATE, Sms.TYPE)
    val where = "${Sms.BODY} LIKE ? ESCAPE '\\' AND ${Sms.ADDRESS} LIKE ? ESCAPE '\\'"
    val rows = context.contentResolver.query(Sms.CONTENT_URI, columns, where, arrayOf(like(query), like(number)), "${Sms.DATE} DESC")
        ?: throw ToolError("execution_failed", "This phone has no text messages")
    return rows.use { found ->
        generateSequence {
            if (!found.moveToNext()) return@generateSequence null
            mapOf(
                "number" to found.getString(0).orEmpty(),
                "text" to found.getString(1).orEmpty(),
                "time" to found.getLong(2),
                "is_sent" to (found.getInt(3) == Sms.MESSAGE_TYPE_SENT),
            )
        }.take(MAX_MESSAGES).toList()
    }
}

private fun like(text: String) = "%" + text.replace(Regex("[\\\\%_]")) { "\\" + it.value } + "%"

/** Waits until the phone has sent every part. */
private fun sendSms(context: Context, number: String, text: String): String {
    val results = LinkedBlockingQueue<Int>()
    val receiver = object : BroadcastReceiver() {
        override fun onReceive(context: Context, intent: Intent) {
            results.offer(resultCode)
        }
    }
    val action = "$SENT.${numbers.incrementAndGet()}"
    register(context, receiver, IntentFilter(action))
    try {
        val messages = messages(context)
        val parts = messages.divideMessage(text)
        val told = parts.indices.map { part ->
            val intent = Intent(action).setPackage(context.packageName)
            PendingIntent.getBroadcast(context, part, intent, PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_ONE_SHOT)
        }
        messages.sendMultipartTextMessage(number, null, parts, ArrayList(told), null)
        for (part in parts) {
            val result = results.poll(SECONDS, TimeUnit.SECONDS) ?: throw ToolError("unknown_outcome", "The phone did not say within $SECONDS s whether it sent the message")
            if (result != Activity.RESULT_OK) throw ToolError("execution_failed", "The phone could not send the message (code $result): is there a network and credit?")
        }
        return "Sent to $number in ${parts.size} part(s)"
    } finally {
        context.unregisterReceiver(receiver)
    }
}

private fun register(context: Context, receiver: BroadcastReceiver, filter: IntentFilter) {
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) {
        context.registerReceiver(receiver, filter, Context.RECEIVER_NOT_EXPORTED)
    } else {
        context.registerReceiver(receiver, filter)
    }
}

@Suppress("DEPRECATION") // its follower is there since Android 12
private fun messages(context: Context): SmsManager =
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) context.system() else SmsManager.getDefault()
