package org.handspan.app

import android.Manifest
import android.app.Service
import android.content.Context
import android.content.Intent
import android.content.pm.PackageManager
import android.content.pm.ServiceInfo
import android.os.Build
import android.os.IBinder
import android.util.Log

/**
 * Keeps the phone connected while no screen of the app is there.
 *
 * Its type is `connectedDevice`: Android 15 ends a service of the type `dataSync` after six hours a day, and does not let one
 * begin after a boot. `camera` and `location` are added once the app has been on the screen with these permissions: Android
 * lets no service begin to use them from the background.
 */
class DeviceService : Service() {
    private lateinit var watch: ConnectivityWatch
    private var listening: AutoCloseable? = null

    override fun onCreate() {
        super.onCreate()
        watch = ConnectivityWatch(this) { parts.device.retryNow() }
    }

    override fun onStartCommand(intent: Intent?, flags: Int, startId: Int): Int {
        val paired = parts.pairings.load()
        if (intent?.action == STOP) parts.settings.isWanted = false
        // Android wants every start answered by startForeground, also one that only stops.
        val isShown = show(intent?.getBooleanExtra(WITH_SCREEN, false) ?: false)
        if (!parts.settings.isWanted || paired == null || !isShown) {
            stopSelf()
            return START_NOT_STICKY
        }
        RestartJob.schedule(this)
        watch.start()
        parts.device.open(paired)
        if (listening == null) listening = parts.device.listen { parts.notices.updateState(it) }
        return START_STICKY
    }

    override fun onDestroy() {
        super.onDestroy()
        listening?.close()
        watch.stop()
        parts.device.close()
        if (!parts.settings.isWanted) RestartJob.cancel(this)
    }

    override fun onBind(intent: Intent?): IBinder? = null

    /** Android ends a service whose type has a limit: then the person is told. */
    override fun onTimeout(startId: Int, type: Int) {
        parts.notices.showStopped()
        stopSelf()
    }

    private fun show(withScreen: Boolean): Boolean {
        for (types in listOf(if (withScreen) typesWithScreen() else BASE, BASE)) {
            try {
                begin(types)
                return true
            } catch (refused: SecurityException) {
                Log.w(TAG, "the types $types are refused", refused)
            } catch (refused: IllegalStateException) { // ForegroundServiceStartNotAllowedException
                Log.w(TAG, "Android lets the service not begin", refused)
                parts.notices.showStopped()
                return false
            }
        }
        return false
    }

    private fun begin(types: Int) {
        val notification = parts.notices.ofState(parts.device.state)
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) {
            startForeground(Notices.STATE, notification, types)
        } else {
            startForeground(Notices.STATE, notification)
        }
    }

    private fun typesWithScreen(): Int {
        var types = BASE
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R && has(Manifest.permission.CAMERA)) {
            types = types or ServiceInfo.FOREGROUND_SERVICE_TYPE_CAMERA
        }
        if (has(Manifest.permission.ACCESS_FINE_LOCATION) || has(Manifest.permission.ACCESS_COARSE_LOCATION)) {
            types = types or ServiceInfo.FOREGROUND_SERVICE_TYPE_LOCATION
        }
        return types
    }

    private fun has(permission: String) = checkSelfPermission(permission) == PackageManager.PERMISSION_GRANTED

    companion object {
        private const val TAG = "handspan"
        private const val STOP = "org.handspan.app.STOP"
        private const val WITH_SCREEN = "with_screen"
        private const val BASE = ServiceInfo.FOREGROUND_SERVICE_TYPE_CONNECTED_DEVICE

        /** Starts the service if the person wants it; false when Android does not let it begin now. [withScreen]: the app is in front. */
        fun start(context: Context, withScreen: Boolean = false): Boolean {
            if (!context.parts.settings.isWanted) return true
            return try {
                context.startForegroundService(Intent(context, DeviceService::class.java).putExtra(WITH_SCREEN, withScreen))
                true
            } catch (refused: IllegalStateException) { // since Android 12, from the background
                context.parts.notices.showStopped()
                false
            }
        }

        /** Stops it, and keeps it stopped. */
        fun stop(context: Context) {
            context.parts.settings.isWanted = false
            RestartJob.cancel(context)
            context.stopService(Intent(context, DeviceService::class.java))
        }

        /** What the switch in the notification does. */
        fun stopIntent(context: Context): Intent = Intent(context, DeviceService::class.java).setAction(STOP)
    }
}
