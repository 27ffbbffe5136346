package org.handspan.device

import android.content.ContentResolver
import android.net.Uri
import android.provider.ContactsContract.CommonDataKinds.Phone
import org.handspan.client.ToolError

private const val MAX_CONTACTS = 50

/** The contacts whose name or number has this text in it: 50 at most, each with its numbers. */
internal fun findContacts(resolver: ContentResolver, query: String): List<Map<String, Any>> {
    val uri = if (query.isBlank()) Phone.CONTENT_URI else Uri.withAppendedPath(Phone.CONTENT_FILTER_URI, Uri.encode(query))
    val columns = arrayOf(Phone.DISPLAY_NAME, Phone.NUMBER)
    val found = LinkedHashMap<String, LinkedHashSet<String>>()
    val rows = resolver.query(uri, columns, null, null, Phone.DISPLAY_NAME)
        ?: throw ToolError("execution_failed", "This phone has no contacts")
    rows.use {
        while (it.moveToNext() && found.size < MAX_CONTACTS) {
            found.getOrPut(it.getString(0) ?: "") { LinkedHashSet() } += it.getString(1) ?: ""
        }
    }
    return found.map { (name, numbers) -> mapOf("name" to name, "numbers" to numbers.toList()) }
}
