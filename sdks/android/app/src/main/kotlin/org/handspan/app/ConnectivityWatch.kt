package org.handspan.app

import android.content.BroadcastReceiver
import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.net.ConnectivityManager
import android.net.Network
import android.os.PowerManager

/** Tells when a new try is worth while: a network is there, or the phone has woken from Doze, in which there is none. */
class ConnectivityWatch(private val context: Context, private val onBack: () -> Unit) {
    private val networks = context.system<ConnectivityManager>()
    private var isOn = false

    private val callback = object : ConnectivityManager.NetworkCallback() {
        override fun onAvailable(network: Network) = onBack()
    }

    private val woken = object : BroadcastReceiver() {
        override fun onReceive(context: Context, intent: Intent) {
            if (!context.system<PowerManager>().isDeviceIdleMode) onBack()
        }
    }

    fun start() {
        if (isOn) return
        isOn = true
        networks.registerDefaultNetworkCallback(callback)
        context.registerReceiver(woken, IntentFilter(PowerManager.ACTION_DEVICE_IDLE_MODE_CHANGED))
    }

    fun stop() {
        if (!isOn) return
        isOn = false
        networks.unregisterNetworkCallback(callback)
        context.unregisterReceiver(woken)
    }
}
