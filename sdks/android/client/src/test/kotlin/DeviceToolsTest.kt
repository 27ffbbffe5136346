package org.handspan.test

import android.Manifest
import android.content.ContentProvider
import android.content.ContentValues
import android.database.Cursor
import android.database.MatrixCursor
import android.hardware.Sensor
import android.hardware.SensorManager
import android.hardware.camera2.CaptureResult
import android.location.Location
import android.location.LocationManager
import android.net.Uri
import android.os.Looper
import android.util.Size
import org.handspan.client.Client
import org.handspan.client.Decision
import org.handspan.client.PermissionAnswer
import org.handspan.client.ToolError
import org.handspan.device.DeviceTools
import org.handspan.device.Places
import org.handspan.device.Quality
import org.handspan.device.Sensors
import org.handspan.device.choose
import org.handspan.device.degreesHeld
import org.handspan.device.findContacts
import org.handspan.device.isSettled
import org.handspan.device.jpegOrientation
import org.handspan.device.upright
import org.junit.Assert.assertArrayEquals
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowContentResolver
import org.robolectric.shadows.ShadowSensor
import org.robolectric.shadows.ShadowSensorManager
import java.util.concurrent.FutureTask
import kotlin.concurrent.thread

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class DeviceToolsTest {
    private val context = RuntimeEnvironment.getApplication()

    /** Runs this on another thread, while the main one does what the phone does. */
    private fun <T> aside(meanwhile: () -> Unit, work: () -> T): T {
        val task = FutureTask(work).also { thread(isDaemon = true) { it.run() } }
        while (!task.isDone) {
            shadowOf(Looper.getMainLooper()).idle()
            meanwhile()
            Thread.sleep(2)
        }
        return try {
            task.get()
        } catch (failed: java.util.concurrent.ExecutionException) {
            throw failed.cause!!
        }
    }

    @Test
    fun `the four tools have the seed's names and only read`() {
        val specs = DeviceTools(context) { PermissionAnswer(Decision.ALLOW) }.all().keys.toList()
        assertEquals(listOf("device_info", "camera", "contacts", "sensors"), specs.map { it.name })
        assertTrue(specs.all { it.annotations?.readOnly == true })
        DeviceTools(context) { PermissionAnswer(Decision.ALLOW) }.addTo(Client.builder("http://127.0.0.1:1")).build()
    }

    @Test
    fun `sensors give a value, or say what is missing`() {
        val manager = shadowOf(context.getSystemService(SensorManager::class.java))
        manager.addSensor(ShadowSensor.newInstance(Sensor.TYPE_ACCELEROMETER))
        val event = ShadowSensorManager.createSensorEvent(3, Sensor.TYPE_ACCELEROMETER).apply { values[1] = 9.5f }
        val sensors = Sensors(context)
        assertEquals(9.5f, aside({ manager.sendSensorEventToListeners(event) }) { sensors.read("accelerometer") }["y"])
        assertEquals(0, aside({ manager.sendSensorEventToListeners(event) }) { sensors.held() })
        assertTrue("no gyroscope" in assertThrows(ToolError::class.java) { sensors.read("gyroscope") }.message!!)
        assertTrue("no listener is left", manager.listeners.isEmpty())
    }

    private fun locations() = shadowOf(context.getSystemService(LocationManager::class.java))

    private fun place(provider: String, meters: Float) = Location(provider).apply {
        latitude = 52.5
        longitude = 13.4
        accuracy = meters
        time = 1_700_000_000_000
        elapsedRealtimeNanos = 1
    }

    @Test
    fun `the exact place comes from satellites when they are allowed`() {
        shadowOf(context).grantPermissions(Manifest.permission.ACCESS_FINE_LOCATION, Manifest.permission.ACCESS_COARSE_LOCATION)
        locations().setProviderEnabled(LocationManager.GPS_PROVIDER, true)
        val found = aside({ locations().simulateLocation(place(LocationManager.GPS_PROVIDER, 5f)) }) { Places(context).read() }
        assertEquals(listOf(52.5, true, false), listOf(found["latitude"], found["is_fresh"], found["is_approximate"]))
    }

    @Test
    fun `the approximate place never asks the satellites`() {
        shadowOf(context).grantPermissions(Manifest.permission.ACCESS_COARSE_LOCATION)
        locations().setProviderEnabled(LocationManager.GPS_PROVIDER, true)
        locations().setProviderEnabled(LocationManager.NETWORK_PROVIDER, true)
        val found = aside({ locations().simulateLocation(place(LocationManager.NETWORK_PROVIDER, 40f)) }) { Places(context).read() }
        assertEquals(true, found["is_approximate"])
        assertTrue(locations().getLocationUpdateListeners(LocationManager.GPS_PROVIDER).isEmpty())
    }

    @Test
    fun `a place that is switched off says so`() {
        for (one in context.getSystemService(LocationManager::class.java)!!.allProviders) locations().setProviderEnabled(one, false)
        assertTrue("switched off" in assertThrows(ToolError::class.java) { Places(context).read() }.message!!)
    }

    @Test
    fun `contacts are grouped by name`() {
        ShadowContentResolver.registerProviderInternal("com.android.contacts", Contacts())
        val resolver = context.contentResolver
        assertEquals(listOf(mapOf("name" to "Ann", "numbers" to listOf("1", "2"))), findContacts(resolver, "Ann"))
        assertEquals(2, findContacts(resolver, "").size)
    }

    // The orientation of a photo: CaptureRequest.JPEG_ORIENTATION of AOSP says how it is computed.

    @Test
    fun `a photo is turned by how the phone is held`() {
        assertEquals(listOf(90, 180, 270, 0), listOf(0, 90, 180, 270).map { jpegOrientation(90, it, isFront = false) })
        assertEquals(listOf(270, 180, 90, 0), listOf(0, 90, 180, 270).map { jpegOrientation(270, it, isFront = true) })
        assertEquals("a phone that lies is held upright", 90, jpegOrientation(90, null, isFront = false))
        assertEquals("about upright", 90, jpegOrientation(90, 350, isFront = false))
    }

    @Test
    fun `gravity tells how the phone is held`() {
        assertEquals(listOf(0, 90, 180, 270), listOf(0f to 9.8f, -9.8f to 0f, 0f to -9.8f, 9.8f to 0f).map { (x, y) -> degreesHeld(x, y, 0f) })
        assertNull(degreesHeld(0.1f, 0.1f, 9.8f))
    }

    @Test
    fun `a photo is taken once the exposure has settled, or after some pictures of a camera that does not say`() {
        assertTrue(isSettled(CaptureResult.CONTROL_AE_STATE_CONVERGED, 1))
        assertTrue(isSettled(CaptureResult.CONTROL_AE_STATE_FLASH_REQUIRED, 1))
        assertFalse(isSettled(CaptureResult.CONTROL_AE_STATE_SEARCHING, 100))
        assertFalse(isSettled(null, 3))
        assertTrue(isSettled(null, 10))
    }

    @Test
    fun `a phone without a camera says so`() {
        val tools = DeviceTools(context) { PermissionAnswer(Decision.ALLOW) }
        val camera = tools.all().entries.first { it.key.name == "camera" }.value
        val request = org.handspan.client.ToolCallRequest("c", "camera", org.json.JSONObject(), object : org.handspan.client.CallContext {
            override val isCancelled = false
            override fun progress(value: Any?) = Unit
        })
        assertTrue("no camera" in assertThrows(ToolError::class.java) { camera.handleToolCall(request) }.message!!)
    }

    @Test
    fun `what is no photo stays as it is`() {
        assertArrayEquals(byteArrayOf(1, 2, 3), upright(byteArrayOf(1, 2, 3)))
        val sizes = listOf(Size(320, 240), Size(1280, 960), Size(4000, 3000))
        assertEquals(listOf(320, 1280, 1280), Quality.values().map { choose(sizes, it.width).width })
        assertEquals(Quality.MEDIUM, Quality.of(""))
    }

    private class Contacts : ContentProvider() {
        override fun query(uri: Uri, columns: Array<String>?, where: String?, args: Array<String>?, order: String?): Cursor =
            MatrixCursor(arrayOf("name", "number")).apply {
                for ((name, number) in listOf("Ann" to "1", "Ann" to "2", "Bo" to "3")) {
                    if (name in uri.toString() || "filter" !in uri.toString()) addRow(arrayOf(name, number))
                }
            }

        override fun onCreate() = true

        override fun getType(uri: Uri): String? = null

        override fun insert(uri: Uri, values: ContentValues?): Uri? = null

        override fun update(uri: Uri, values: ContentValues?, where: String?, args: Array<String>?) = 0

        override fun delete(uri: Uri, where: String?, args: Array<String>?) = 0
    }
}
