package org.handspan.cetp

import android.app.Service
import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import android.os.IBinder

/**
 * The service that the manifest declares so that consumers find the provider. It does nothing: its intent filter and its
 * meta-data are all that is read.
 */
open class ToolProviderService : Service() {
    override fun onBind(intent: Intent?): IBinder? = null
}

/**
 * Starts the app's process after a boot, and with it its content provider: some systems do not start one on demand
 * (cetp.md 7.6).
 */
open class BootReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) = Unit
}
