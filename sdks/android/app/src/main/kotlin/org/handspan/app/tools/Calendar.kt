package org.handspan.app.tools

import android.Manifest
import android.content.ContentUris
import android.content.ContentValues
import android.content.Context
import android.database.Cursor
import android.provider.CalendarContract.Calendars
import android.provider.CalendarContract.Events
import android.provider.CalendarContract.Instances
import org.handspan.app.R
import org.handspan.client.Annotations
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import org.json.JSONObject
import java.time.DateTimeException
import java.time.Duration
import java.time.Instant
import java.time.LocalDate
import java.time.LocalDateTime
import java.time.OffsetDateTime
import java.time.ZoneId
import java.time.ZoneOffset

private const val MAX_EVENTS = 100
private const val WHEN = "as 2026-01-31, 2026-01-31T09:30 (this phone's time) or with an offset"

internal fun calendarTools(context: Context, granted: Granted): List<ToolEntry> = listOf(
    ToolEntry(
        ToolSpec(
            "calendar",
            "Read the events of this phone's calendars between two times, 100 at most",
            """{"type":"object","properties":{"from":{"type":"string","description":"$WHEN; now without it"},
                "to":{"type":"string","description":"a week later without it"},"query":{"type":"string"}}}""",
            permissions = listOf(Manifest.permission.READ_CALENDAR),
            annotations = Annotations(readOnly = true),
        ),
        R.string.tool_calendar,
        R.string.gives_calendar,
        handler = granted.call(Manifest.permission.READ_CALENDAR) { readEvents(context, it.args) },
    ),
    ToolEntry(
        ToolSpec(
            "add_event",
            "Add an event to this phone's first calendar that takes one",
            """{"type":"object","properties":{"title":{"type":"string"},"start":{"type":"string","description":"$WHEN"},
                "end":{"type":"string","description":"an hour later without it; a day for a date"},
                "place":{"type":"string"},"notes":{"type":"string"}},"required":["title","start"]}""",
            permissions = listOf(Manifest.permission.WRITE_CALENDAR),
            annotations = Annotations(destructive = false),
        ),
        R.string.tool_add_event,
        R.string.gives_add_event,
        handler = granted.call(Manifest.permission.WRITE_CALENDAR) { addEvent(context, it.args) },
    ),
)

/** A day, or a time of one. */
internal class Moment(val instant: Instant, val isDay: Boolean)

/** The time in this text. Throws [ToolError]. */
internal fun momentOf(text: String, zone: ZoneId): Moment = try {
    when {
        text.length == 10 -> Moment(LocalDate.parse(text).atStartOfDay(zone).toInstant(), isDay = true)
        text.endsWith("Z") || text.lastIndexOfAny(charArrayOf('+', '-')) > 10 -> Moment(OffsetDateTime.parse(text).toInstant(), isDay = false)
        else -> Moment(LocalDateTime.parse(text).atZone(zone).toInstant(), isDay = false)
    }
} catch (unreadable: DateTimeException) {
    throw ToolError("invalid_arguments", "'$text' is no time: write it $WHEN")
}

private fun readEvents(context: Context, args: JSONObject): List<Map<String, Any>> {
    val zone = ZoneId.systemDefault()
    val from = args.optString("from").ifEmpty { null }?.let { momentOf(it, zone).instant } ?: Instant.now()
    val to = args.optString("to").ifEmpty { null }?.let { momentOf(it, zone).instant } ?: from.plus(Duration.ofDays(7))
    if (to < from) throw ToolError("invalid_arguments", "'to' is before 'from'")
    val uri = Instances.CONTENT_URI.buildUpon().also {
        ContentUris.appendId(it, from.toEpochMilli())
        ContentUris.appendId(it, to.toEpochMilli())
    }.build()
    val columns = arrayOf(Instances.TITLE, Instances.BEGIN, Instances.END, Instances.ALL_DAY, Instances.EVENT_LOCATION, Instances.CALENDAR_DISPLAY_NAME)
    val query = args.optString("query").lowercase()
    val rows = context.contentResolver.query(uri, columns, null, null, "${Instances.BEGIN} ASC")
        ?: throw ToolError("execution_failed", "This phone has no calendar")
    return rows.use { found ->
        generateSequence { if (found.moveToNext()) event(found, zone) else null }
            .filter { query.isEmpty() || query in it.getValue("title").toString().lowercase() }
            .take(MAX_EVENTS).toList()
    }
}

private fun event(row: Cursor, zone: ZoneId): Map<String, Any> {
    val isDay = row.getInt(3) == 1
    return mapOf(
        "title" to row.getString(0).orEmpty(),
        "start" to text(row.getLong(1), isDay, zone),
        "end" to text(row.getLong(2), isDay, zone),
        "place" to row.getString(4).orEmpty(),
        "calendar" to row.getString(5).orEmpty(),
    )
}

/** Days are kept at midnight UTC, whatever the phone's zone (CalendarContract.Events.ALL_DAY). */
private fun text(ms: Long, isDay: Boolean, zone: ZoneId): String {
    val instant = Instant.ofEpochMilli(ms)
    return if (isDay) instant.atZone(ZoneOffset.UTC).toLocalDate().toString() else instant.atZone(zone).toOffsetDateTime().toString()
}

private fun addEvent(context: Context, args: JSONObject): Map<String, Any> {
    val zone = ZoneId.systemDefault()
    val start = momentOf(args.getString("start"), zone)
    val end = args.optString("end").ifEmpty { null }?.let { momentOf(it, zone).instant }
        ?: start.instant.plus(if (start.isDay) Duration.ofDays(1) else Duration.ofHours(1))
    if (end < start.instant) throw ToolError("invalid_arguments", "The event ends before it starts")
    val (id, name) = writableCalendar(context)
    val values = ContentValues().apply {
        put(Events.CALENDAR_ID, id)
        put(Events.TITLE, args.getString("title"))
        put(Events.EVENT_LOCATION, args.optString("place"))
        put(Events.DESCRIPTION, args.optString("notes"))
        put(Events.DTSTART, stored(start.instant, start.isDay, zone))
        put(Events.DTEND, stored(end, start.isDay, zone))
        put(Events.ALL_DAY, if (start.isDay) 1 else 0)
        put(Events.EVENT_TIMEZONE, if (start.isDay) "UTC" else zone.id)
    }
    val made = context.contentResolver.insert(Events.CONTENT_URI, values)
        ?: throw ToolError("execution_failed", "The calendar '$name' did not take the event")
    return mapOf("calendar" to name, "id" to ContentUris.parseId(made))
}

private fun stored(instant: Instant, isDay: Boolean, zone: ZoneId): Long =
    if (!isDay) instant.toEpochMilli() else instant.atZone(zone).toLocalDate().atStartOfDay(ZoneOffset.UTC).toInstant().toEpochMilli()

private fun writableCalendar(context: Context): Pair<Long, String> {
    val columns = arrayOf(Calendars._ID, Calendars.CALENDAR_DISPLAY_NAME)
    val where = "${Calendars.CALENDAR_ACCESS_LEVEL} >= ${Calendars.CAL_ACCESS_CONTRIBUTOR}"
    val rows = context.contentResolver.query(Calendars.CONTENT_URI, columns, where, null, "${Calendars.IS_PRIMARY} DESC")
    rows?.use { if (it.moveToNext()) return it.getLong(0) to it.getString(1).orEmpty() }
    throw ToolError("execution_failed", "This phone has no calendar that takes events: add an account in its calendar app")
}
