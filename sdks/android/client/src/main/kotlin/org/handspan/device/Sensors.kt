package org.handspan.device

import android.content.Context
import android.hardware.Sensor
import android.hardware.SensorEvent
import android.hardware.SensorEventListener
import android.hardware.SensorManager
import android.os.Handler
import android.os.HandlerThread
import org.handspan.client.ToolError
import java.util.concurrent.ArrayBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.math.atan2
import kotlin.math.roundToInt

/** One value of a sensor, when it is asked for. */
internal class Sensors(private val context: Context) {

    /** `accelerometer` or `gyroscope`: the next value. */
    fun read(type: String): Map<String, Any> {
        val (x, y, z) = next(type) ?: throw ToolError("timeout", "The $type gave no value")
        return mapOf("type" to type, "x" to x, "y" to y, "z" to z)
    }

    /** How the phone is held, in degrees clockwise from upright; null when it lies flat or can't tell. */
    fun held(): Int? {
        val (x, y, z) = try {
            next("accelerometer") ?: return null
        } catch (missing: ToolError) {
            return null
        }
        return degreesHeld(x, y, z)
    }

    private fun next(type: String): FloatArray? {
        val manager = context.getSystemService(Context.SENSOR_SERVICE) as SensorManager
        val kind = if (type == "gyroscope") Sensor.TYPE_GYROSCOPE else Sensor.TYPE_ACCELEROMETER
        val sensor = manager.getDefaultSensor(kind) ?: throw ToolError("execution_failed", "This phone has no $type")
        val values = ArrayBlockingQueue<FloatArray>(1)
        val listener = object : SensorEventListener {
            override fun onSensorChanged(event: SensorEvent) {
                values.offer(event.values.clone())
            }

            override fun onAccuracyChanged(sensor: Sensor, accuracy: Int) = Unit
        }
        return onThread { handler ->
            manager.registerListener(listener, sensor, SensorManager.SENSOR_DELAY_NORMAL, handler)
            try {
                values.poll(SENSOR_SECONDS, TimeUnit.SECONDS)
            } finally {
                manager.unregisterListener(listener)
            }
        }
    }

    private companion object {
        const val SENSOR_SECONDS = 5L
    }
}

/** The angle of gravity in the plane of the screen; null where it is mostly across it. */
internal fun degreesHeld(x: Float, y: Float, z: Float): Int? {
    if (4 * (x * x + y * y) < z * z) return null
    val angle = 90 - Math.toDegrees(atan2(y.toDouble(), -x.toDouble())).roundToInt()
    return Math.floorMod(angle, 360)
}

/** Runs the work with a handler of a thread of its own, which ends with it. */
internal fun <T> onThread(work: (Handler) -> T): T {
    val thread = HandlerThread("handspan-sensors").apply { start() }
    try {
        return work(Handler(thread.looper))
    } finally {
        thread.quitSafely()
    }
}
