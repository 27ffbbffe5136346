package org.handspan.device

import android.app.Activity
import android.app.Application
import android.content.Context
import android.content.Intent
import android.content.pm.PackageManager
import android.net.Uri
import android.os.Bundle
import android.provider.Settings
import org.handspan.client.PermissionQuestion
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/** Asks the person to come back to the app, by a notification for example; what it returns is closed when they have. */
fun interface Invitation {
    fun show(question: PermissionQuestion): AutoCloseable
}

/** Android's permissions for [PermissionFlow]. Make it in `Application.onCreate`, so that it sees every screen. */
class AndroidPermissions(
    private val application: Application,
    private val invitation: Invitation = Invitation { AutoCloseable {} },
) : PermissionPlatform, Application.ActivityLifecycleCallbacks {
    private val lock = ReentrantLock()
    private val isShown = lock.newCondition()
    private var screen: Activity? = null

    init {
        application.registerActivityLifecycleCallbacks(this)
    }

    override fun isGranted(permission: String): Boolean =
        application.checkSelfPermission(permission) == PackageManager.PERMISSION_GRANTED

    override fun showsRationale(permission: String): Boolean =
        lock.withLock { screen }?.shouldShowRequestPermissionRationale(permission) ?: false

    override fun awaitForeground(question: PermissionQuestion): Boolean {
        if (lock.withLock { screen } != null) return true
        return invitation.show(question).use { awaitScreen(question.expiresMs) }
    }

    private fun awaitScreen(ms: Long): Boolean = lock.withLock {
        var left = TimeUnit.MILLISECONDS.toNanos(ms)
        while (screen == null && left > 0) left = isShown.awaitNanos(left)
        screen != null
    }

    override fun request(permissions: List<String>, ms: Long): Boolean {
        val activity = lock.withLock { screen } ?: return false
        val done = CountDownLatch(1)
        val number = PermissionActivity.expect(done)
        try {
            activity.startActivity(PermissionActivity.intent(activity, permissions, number))
            return done.await(ms, TimeUnit.MILLISECONDS)
        } finally {
            PermissionActivity.forget(number)
        }
    }

    override fun wasRefused(permission: String): Boolean = memory().getBoolean(permission, false)

    override fun rememberRefused(permission: String) = memory().edit().putBoolean(permission, true).apply()

    override fun explainForever(permission: String) {
        val activity = lock.withLock { screen } ?: return
        activity.startActivity(PermissionActivity.explanation(activity, howToEnable(permission)))
    }

    override fun howToEnable(permission: String): String {
        val app = application.applicationInfo.loadLabel(application.packageManager)
        return "Open Settings, Apps, $app, Permissions, and allow ${permission.substringAfterLast('.')}"
    }

    private fun memory() = application.getSharedPreferences("handspan_permissions", Context.MODE_PRIVATE)

    override fun onActivityResumed(activity: Activity) = lock.withLock {
        if (activity !is PermissionActivity) {
            screen = activity
            isShown.signalAll()
        }
    }

    override fun onActivityStopped(activity: Activity) = lock.withLock {
        if (screen === activity) screen = null
    }

    /** Some activities end without a stop that is told. */
    override fun onActivityDestroyed(activity: Activity) = onActivityStopped(activity)

    override fun onActivityCreated(activity: Activity, state: Bundle?) = Unit

    override fun onActivityStarted(activity: Activity) = Unit

    override fun onActivityPaused(activity: Activity) = Unit

    override fun onActivitySaveInstanceState(activity: Activity, state: Bundle) = Unit

    companion object {
        /** The screen of the system's settings where this app's permissions can be changed. */
        fun settingsIntent(context: Context): Intent =
            Intent(Settings.ACTION_APPLICATION_DETAILS_SETTINGS, Uri.fromParts("package", context.packageName, null))
    }
}
