package org.handspan.device

import android.Manifest
import android.content.Context
import android.os.Build
import org.handspan.client.Annotations
import org.handspan.client.AskPermission
import org.handspan.client.ClientBuilder
import org.handspan.client.Decision
import org.handspan.client.PermissionQuestion
import org.handspan.client.ToolCallHandler
import org.handspan.client.ToolCallRequest
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolError
import org.handspan.client.ToolSpec
import org.handspan.client.deniedError
import org.handspan.json.text

/**
 * The tools of a phone (SPEC W11): `device_info`, `camera`, `contacts`, `sensors`.
 *
 *     val builder = Client.builder(url).authToken(token).device("phone").askPermission(flow)
 *     DeviceTools(context, flow).addTo(builder)
 */
class DeviceTools(private val context: Context, private val permissions: AskPermission) {
    private val sensors = Sensors(context)

    /** Offers the tools, and runs them. */
    fun addTo(builder: ClientBuilder): ClientBuilder = builder
        .apply { for ((spec, handler) in all()) registerTool(spec, handler) }

    /** Each tool with what runs it, for an app that offers some of them. */
    fun all(): Map<ToolSpec, ToolCallHandler> = mapOf(
        DEVICE_INFO to ToolCallHandler { ToolCallResult.Success(deviceInfo()) },
        CAMERA to ToolCallHandler {
            whenGranted(it, Manifest.permission.CAMERA) { Camera(context, sensors::held).takePhoto(it.args.text("quality")) }
        },
        CONTACTS to ToolCallHandler {
            whenGranted(it, Manifest.permission.READ_CONTACTS) { findContacts(context.contentResolver, it.args.text("query")) }
        },
        SENSORS to ToolCallHandler { readSensor(it) },
    )

    private fun deviceInfo(): Map<String, Any> = mapOf(
        "model" to Build.MODEL,
        "manufacturer" to Build.MANUFACTURER,
        "android_version" to Build.VERSION.RELEASE,
        "api_level" to Build.VERSION.SDK_INT,
    )

    private fun readSensor(request: ToolCallRequest): ToolCallResult = when (val type = request.args.text("type")) {
        // Only this one needs a permission, so the tool's spec names none.
        "gps" -> whenGranted(request, Manifest.permission.ACCESS_FINE_LOCATION) { Places(context).read() }
        else -> ToolCallResult.Success(sensors.read(type))
    }

    /** Android is asked before every call, also where the gateway asked the person a moment ago. */
    private fun whenGranted(request: ToolCallRequest, permission: String, run: () -> Any): ToolCallResult {
        val question = PermissionQuestion(permission, request.name, request.id, request.args, "", ASK_MS)
        val answer = permissions.ask(question) ?: throw ToolError("permission_denied", "Permission '$permission' was not answered in time")
        if (answer.decision != Decision.ALLOW) throw deniedError(permission, answer)
        return ToolCallResult.Success(run())
    }

    companion object {
        private const val ASK_MS = 60_000L
        private val READS = Annotations(readOnly = true)

        val DEVICE_INFO = ToolSpec(
            "device_info",
            "Get Android device information including model, manufacturer, Android version",
            """{"type":"object","properties":{},"required":[]}""",
            annotations = READS,
        )
        val CAMERA = ToolSpec(
            "camera",
            "Take a photo with this phone's camera",
            """{"type":"object","properties":{"quality":{"type":"string","enum":["low","medium","high"]}},"required":[]}""",
            permissions = listOf(Manifest.permission.CAMERA),
            timeout = 60.0,
            annotations = Annotations(readOnly = true, serial = true),
        )
        val CONTACTS = ToolSpec(
            "contacts",
            "Query phone contacts by a part of a name or a number",
            """{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}""",
            permissions = listOf(Manifest.permission.READ_CONTACTS),
            annotations = READS,
        )
        val SENSORS = ToolSpec(
            "sensors",
            "Read sensor data: accelerometer in m/s², gyroscope in rad/s, gps in degrees",
            """{"type":"object","properties":{"type":{"type":"string","enum":["accelerometer","gyroscope","gps"]}},"required":["type"]}""",
            timeout = 60.0,
            annotations = READS,
        )
    }
}
