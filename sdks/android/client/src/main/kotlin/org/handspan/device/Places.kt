package org.handspan.device

import android.Manifest
import android.annotation.SuppressLint
import android.content.Context
import android.content.pm.PackageManager
import android.location.Location
import android.location.LocationListener
import android.location.LocationManager
import android.os.Build
import android.os.Bundle
import org.handspan.client.ToolError
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit

/** Where the phone is, by what the person allows: exactly, or about. */
internal class Places(private val context: Context) {
    private val manager = context.getSystemService(Context.LOCATION_SERVICE) as LocationManager

    /** A fresh place; the last known one where the phone finds none. Needs the exact or the approximate place's permission. */
    @SuppressLint("MissingPermission") // DeviceTools asks for it before
    fun read(): Map<String, Any> {
        val providers = providers()
        if (providers.isEmpty()) {
            throw ToolError("execution_failed", "The phone's location is switched off: switch it on in the quick settings")
        }
        val found = LinkedBlockingQueue<Location>()
        val listener = PlaceListener(found)
        return onThread { handler ->
            try {
                for (one in providers) manager.requestLocationUpdates(one, 0L, 0f, listener, handler.looper)
                val fresh = best(found)
                val place = fresh ?: lastKnown(providers) ?: throw ToolError("timeout", "The phone does not find out where it is")
                describe(place, isFresh = fresh != null)
            } catch (refused: SecurityException) {
                throw ToolError("permission_denied", "Android refuses the place: ${refused.message}")
            } finally {
                manager.removeUpdates(listener)
            }
        }
    }

    /** Those that are switched on. Satellites are only for the exact place: before Android 12 others get a SecurityException. */
    private fun providers(): List<String> {
        val wanted = mutableListOf(LocationManager.NETWORK_PROVIDER)
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.S) wanted += LocationManager.FUSED_PROVIDER
        if (isExact()) wanted += LocationManager.GPS_PROVIDER
        return wanted.filter { it in manager.allProviders && manager.isProviderEnabled(it) }
    }

    private fun isExact() =
        context.checkSelfPermission(Manifest.permission.ACCESS_FINE_LOCATION) == PackageManager.PERMISSION_GRANTED

    /** A good place as soon as there is one; else the best that comes in time. */
    private fun best(found: LinkedBlockingQueue<Location>): Location? {
        val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS)
        var best: Location? = null
        while (true) {
            // The first place is often the network's: a better one may follow soon.
            val left = if (best == null) end - System.nanoTime() else minOf(end - System.nanoTime(), TimeUnit.SECONDS.toNanos(SECONDS_FOR_BETTER))
            val place = found.poll(left, TimeUnit.NANOSECONDS) ?: return best
            if (best == null || place.accuracy < best.accuracy) best = place
            if (best.accuracy <= GOOD_METERS) return best
        }
    }

    @SuppressLint("MissingPermission")
    private fun lastKnown(providers: List<String>): Location? = providers.mapNotNull { manager.getLastKnownLocation(it) }.maxByOrNull { it.time }

    private fun describe(place: Location, isFresh: Boolean): Map<String, Any> = mapOf(
        "type" to "gps",
        "latitude" to place.latitude,
        "longitude" to place.longitude,
        "accuracy" to place.accuracy,
        "time" to place.time,
        "is_fresh" to isFresh,
        "is_approximate" to !isExact(),
    )

    /** Older phones call methods that newer ones have dropped, so all of them are here. */
    private class PlaceListener(private val found: LinkedBlockingQueue<Location>) : LocationListener {
        override fun onLocationChanged(location: Location) {
            found.offer(location)
        }

        override fun onProviderEnabled(provider: String) = Unit

        override fun onProviderDisabled(provider: String) = Unit

        @Suppress("OVERRIDE_DEPRECATION")
        override fun onStatusChanged(provider: String?, status: Int, extras: Bundle?) = Unit
    }

    private companion object {
        const val SECONDS = 20L
        const val SECONDS_FOR_BETTER = 5L
        const val GOOD_METERS = 50f
    }
}
