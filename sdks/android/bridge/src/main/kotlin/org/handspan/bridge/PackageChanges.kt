package org.handspan.bridge

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import android.content.IntentFilter

/** Tells a bridge when an app was added, replaced or removed, while this app's process lives. */
class PackageChanges(private val context: Context, private val bridge: Bridge) : BroadcastReceiver() {

    /** Begins to listen. Android sends these broadcasts only to receivers that a running app registers. */
    fun start() {
        val filter = IntentFilter()
        for (action in listOf(Intent.ACTION_PACKAGE_ADDED, Intent.ACTION_PACKAGE_REPLACED, Intent.ACTION_PACKAGE_REMOVED)) {
            filter.addAction(action)
        }
        filter.addDataScheme("package")
        context.registerReceiver(this, filter)
    }

    fun stop() = context.unregisterReceiver(this)

    override fun onReceive(context: Context, intent: Intent) = bridge.scan()
}
