package org.handspan.device

import android.content.Context
import android.hardware.Sensor
import android.hardware.SensorEvent
import android.hardware.SensorEventListener
import android.hardware.SensorManager
import android.location.Location
import android.location.LocationListener
import android.location.LocationManager
import android.os.Bundle
import android.os.Handler
import android.os.HandlerThread
import org.handspan.client.ToolError
import java.util.concurrent.ArrayBlockingQueue
import java.util.concurrent.TimeUnit

/** One value of a sensor or of the position, when it is asked for. */
internal class Sensors(private val context: Context) {

    /** `accelerometer` or `gyroscope`: the next value. */
    fun read(type: String): Map<String, Any> {
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
                val (x, y, z) = values.poll(SENSOR_SECONDS, TimeUnit.SECONDS) ?: throw ToolError("timeout", "The $type gave no value")
                mapOf("type" to type, "x" to x, "y" to y, "z" to z)
            } finally {
                manager.unregisterListener(listener)
            }
        }
    }

    /** Where the phone is; the last known place when it sees no satellites. Needs the permission. */
    fun readPosition(): Map<String, Any> {
        val manager = context.getSystemService(Context.LOCATION_SERVICE) as LocationManager
        if (!manager.isProviderEnabled(LocationManager.GPS_PROVIDER)) {
            throw ToolError("execution_failed", "The phone's location is switched off: switch it on in the quick settings")
        }
        val places = ArrayBlockingQueue<Location>(1)
        val listener = PlaceListener(places)
        return onThread { handler ->
            manager.requestLocationUpdates(LocationManager.GPS_PROVIDER, 0L, 0f, listener, handler.looper)
            try {
                val fresh = places.poll(POSITION_SECONDS, TimeUnit.SECONDS)
                val place = fresh ?: manager.getLastKnownLocation(LocationManager.GPS_PROVIDER)
                    ?: throw ToolError("timeout", "The phone sees no satellites")
                describe(place, isFresh = fresh != null)
            } finally {
                manager.removeUpdates(listener)
            }
        }
    }

    /** Older phones call methods that newer ones have dropped, so all of them are here. */
    private class PlaceListener(private val places: ArrayBlockingQueue<Location>) : LocationListener {
        override fun onLocationChanged(location: Location) {
            places.offer(location)
        }

        override fun onProviderEnabled(provider: String) = Unit

        override fun onProviderDisabled(provider: String) = Unit

        @Suppress("OVERRIDE_DEPRECATION")
        override fun onStatusChanged(provider: String?, status: Int, extras: Bundle?) = Unit
    }

    private fun describe(place: Location, isFresh: Boolean): Map<String, Any> = mapOf(
        "type" to "gps",
        "latitude" to place.latitude,
        "longitude" to place.longitude,
        "accuracy" to place.accuracy,
        "time" to place.time,
        "is_fresh" to isFresh,
    )

    private fun <T> onThread(work: (Handler) -> T): T {
        val thread = HandlerThread("handspan-sensors").apply { start() }
        try {
            return work(Handler(thread.looper))
        } finally {
            thread.quitSafely()
        }
    }

    private companion object {
        const val SENSOR_SECONDS = 5L
        const val POSITION_SECONDS = 20L
    }
}
