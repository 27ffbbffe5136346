package org.handspan.test

import android.app.Activity
import android.content.BroadcastReceiver
import android.content.ContentProvider
import android.content.ContentProviderClient
import android.content.ContentResolver
import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.content.SharedPreferences
import android.content.pm.ApplicationInfo
import android.content.pm.PackageInfo
import android.content.pm.PackageManager
import android.content.pm.ResolveInfo
import android.content.pm.ServiceInfo
import android.database.Cursor
import android.hardware.Sensor
import android.hardware.SensorEvent
import android.hardware.SensorEventListener
import android.hardware.SensorManager
import android.location.Location
import android.location.LocationListener
import android.location.LocationManager
import android.net.Uri
import android.os.Binder
import android.os.Bundle
import android.os.Handler
import android.os.Looper
import org.handspan.device.PermissionActivity
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList

const val CONSUMER = "org.handspan.consumer"

/** An app on the phone. [sleeps]: how many calls find it asleep. */
class InstalledApp(val name: String, val provider: ContentProvider?, val authority: String?, val version: Any?, val updated: Long) {
    @Volatile var sleeps = 0
    @Volatile var problem: RuntimeException? = null
}

/** A phone with apps, as far as the kit sees one. */
class FakePhone : Context() {
    val apps = ConcurrentHashMap<String, InstalledApp>()
    val started = CopyOnWriteArrayList<Intent>()
    val granted: MutableSet<String> = ConcurrentHashMap.newKeySet()
    private val receivers = ConcurrentHashMap<BroadcastReceiver, IntentFilter>()
    var cameras = FakeCameras(byteArrayOf(1, 2, 3))
    private val memories = ConcurrentHashMap<String, SharedPreferences>()
    private var installations = 0L

    fun install(name: String, provider: ContentProvider?, authority: String? = "$name.clawseed.tools", version: Any? = 1): InstalledApp {
        provider?.attach(this)
        return InstalledApp(name, provider, authority, version, ++installations).also { apps[name] = it }
    }

    /** Tells of a change of a package, as Android does: to those whose filter has the action and the scheme. */
    fun broadcast(action: String) = receivers.filterValues { action in it.actions && "package" in it.schemes }
        .keys.forEach { it.onReceive(this, Intent(action)) }

    override fun getPackageName() = CONSUMER

    override fun getApplicationInfo() = ApplicationInfo().apply { packageName = CONSUMER }

    override fun getSharedPreferences(name: String, mode: Int): SharedPreferences = memories.computeIfAbsent(name) { MapPreferences() }

    override fun startActivity(intent: Intent) {
        started += intent
        apps[intent.getPackage() ?: ""]?.sleeps = 0
        if (intent.action == PermissionActivity::class.java.name) showPermission(intent)
    }

    private fun showPermission(intent: Intent) {
        Activity.use(this)
        PermissionActivity().apply {
            open(intent)
            destroy()
        }
    }

    override fun checkSelfPermission(permission: String) =
        if (permission in granted) PackageManager.PERMISSION_GRANTED else PackageManager.PERMISSION_DENIED

    override fun registerReceiver(receiver: BroadcastReceiver, filter: IntentFilter): Intent? = null.also { receivers[receiver] = filter }

    override fun unregisterReceiver(receiver: BroadcastReceiver) {
        receivers.remove(receiver)
    }

    override fun getSystemService(name: String): Any = when (name) {
        SENSOR_SERVICE -> FakeSensors()
        CAMERA_SERVICE -> cameras
        else -> FakeLocations()
    }

    override fun getPackageManager(): PackageManager = object : PackageManager() {
        override fun queryIntentServices(intent: Intent, flags: Int) = apps.values.map { app ->
            ResolveInfo().apply {
                serviceInfo = ServiceInfo().apply {
                    packageName = app.name
                    metaData = Bundle().apply {
                        app.authority?.let { putString("com.clawseed.tools.authority", it) }
                        if (app.version is Int) putInt("com.clawseed.tools.version", app.version)
                        if (app.version is String) putString("com.clawseed.tools.version", app.version)
                    }
                }
            }
        }

        override fun getPackagesForUid(uid: Int): Array<String>? = if (uid == 10001) arrayOf(CONSUMER) else null

        override fun getPackageInfo(name: String, flags: Int) = PackageInfo().apply { lastUpdateTime = apps[name]?.updated ?: 0 }

        override fun getLaunchIntentForPackage(name: String) = Intent("MAIN").setPackage(name)
    }

    override fun getContentResolver(): ContentResolver = object : ContentResolver() {
        override fun call(uri: Uri, method: String, arg: String?, extras: Bundle?): Bundle? {
            val app = apps.values.find { it.authority == uri.authority } ?: return super.call(uri, method, arg, extras)
            app.problem?.let { throw it }
            if (app.sleeps > 0 && extras != null) throw IllegalStateException("it sleeps")
            Binder.callingUid = 10001
            return app.provider?.call(method, arg, extras)
        }

        override fun acquireContentProviderClient(authority: String): ContentProviderClient? {
            val app = apps.values.find { it.authority == authority } ?: return null
            app.sleeps -= 1
            return if (app.sleeps > 0) null else ContentProviderClient()
        }

        override fun query(uri: Uri, columns: Array<String>?, where: String?, args: Array<String>?, order: String?): Cursor {
            val rows = listOf("Ann" to "1", "Ann" to "2", "Bo" to "3").filter { uri.toString().contains(it.first) || "filter" !in uri.toString() }
            return Rows(rows)
        }
    }
}

private class Rows(private val rows: List<Pair<String, String>>) : Cursor {
    private var at = -1

    override fun moveToNext() = ++at < rows.size

    override fun getString(column: Int) = if (column == 0) rows[at].first else rows[at].second

    override fun close() = Unit
}

private class FakeSensors : SensorManager() {
    override fun getDefaultSensor(type: Int): Sensor? = if (type == Sensor.TYPE_ACCELEROMETER) Sensor() else null

    override fun registerListener(listener: SensorEventListener, sensor: Sensor, delay: Int, handler: Handler): Boolean {
        listener.onSensorChanged(SensorEvent(0f, 0f, 9.5f))
        return true
    }

    override fun unregisterListener(listener: SensorEventListener) = Unit
}

private class FakeLocations : LocationManager() {
    override fun isProviderEnabled(provider: String) = true

    override fun requestLocationUpdates(provider: String, ms: Long, meters: Float, listener: LocationListener, looper: Looper) =
        listener.onLocationChanged(Location(52.5, 13.4))

    override fun getLastKnownLocation(provider: String): Location? = null

    override fun removeUpdates(listener: LocationListener) = Unit
}

private class MapPreferences : SharedPreferences {
    private val map = ConcurrentHashMap<String, Any>()

    override fun getAll(): Map<String, *> = map.toMap()

    override fun getLong(key: String, other: Long) = map[key] as? Long ?: other

    override fun getBoolean(key: String, other: Boolean) = map[key] as? Boolean ?: other

    override fun edit() = object : SharedPreferences.Editor {
        override fun putLong(key: String, value: Long) = apply { map[key] = value }

        override fun putBoolean(key: String, value: Boolean) = apply { map[key] = value }

        override fun remove(key: String) = apply { map.remove(key) }

        override fun apply() = Unit
    }
}
