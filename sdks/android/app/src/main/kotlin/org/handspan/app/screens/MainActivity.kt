package org.handspan.app.screens

import android.Manifest
import android.app.Activity
import android.app.AlertDialog
import android.content.ActivityNotFoundException
import android.content.Intent
import android.content.pm.PackageManager
import android.os.Build
import android.os.Bundle
import android.os.PowerManager
import android.provider.Settings
import android.view.View
import android.widget.Button
import android.widget.Switch
import android.widget.TextView
import org.handspan.app.DeviceService
import org.handspan.app.DeviceState
import org.handspan.app.Notices
import org.handspan.app.R
import org.handspan.app.parts
import org.handspan.app.system
import org.handspan.app.view
import org.handspan.client.ClientStatus

/** The first screen: the state, the switch, and the ways to all else. */
class MainActivity : Activity() {
    private var listening: AutoCloseable? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.main)
        leadTo(R.id.pair, PairActivity::class.java)
        leadTo(R.id.chat, ChatActivity::class.java)
        leadTo(R.id.tools, ToolsActivity::class.java)
        leadTo(R.id.apps, AppsActivity::class.java)
        view<Button>(R.id.battery).setOnClickListener { openBatterySettings() }
        view<Button>(R.id.forget).setOnClickListener { confirmForget() }
        view<Switch>(R.id.connected).setOnCheckedChangeListener { _, isOn -> switch(isOn) }
    }

    override fun onStart() {
        super.onStart()
        // With a screen the service may also get the types of camera and place.
        DeviceService.start(this, withScreen = true)
        showPairing()
        listening = parts.device.listen { state -> runOnUiThread { show(state) } }
    }

    override fun onStop() {
        super.onStop()
        listening?.close()
        listening = null
    }

    private fun showPairing() {
        val paired = parts.pairings.load()
        view<TextView>(R.id.gateway).text = paired?.url ?: getString(R.string.not_paired)
        view<Switch>(R.id.connected).apply {
            isEnabled = paired != null
            isChecked = paired != null && parts.settings.isWanted
        }
        for (id in listOf(R.id.chat, R.id.tools, R.id.apps, R.id.forget)) view<View>(id).isEnabled = paired != null
        val isSaving = !system<PowerManager>().isIgnoringBatteryOptimizations(packageName)
        view<View>(R.id.battery).visibility = if (paired != null && isSaving) View.VISIBLE else View.GONE
    }

    private fun show(state: DeviceState) {
        val words = if (state.status == ClientStatus.ONLINE) getString(R.string.state_label, state.text) else state.text
        val refused = state.rejected.map { (tool, why) -> getString(R.string.rejected, tool, why) }
        val lines = listOf(getString(Notices.titleOf(state.status)), words) + refused
        view<TextView>(R.id.state).text = lines.filter { it.isNotEmpty() }.joinToString("\n")
    }

    private fun switch(isOn: Boolean) {
        if (isOn == parts.settings.isWanted) return
        if (!isOn) return DeviceService.stop(this)
        parts.settings.isWanted = true
        askForNotifications()
        DeviceService.start(this, withScreen = true)
    }

    /** Without it the service runs, but its notification and its questions are not seen. */
    private fun askForNotifications() {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.TIRAMISU) return
        if (checkSelfPermission(Manifest.permission.POST_NOTIFICATIONS) == PackageManager.PERMISSION_GRANTED) return
        requestPermissions(arrayOf(Manifest.permission.POST_NOTIFICATIONS), 1)
    }

    private fun openBatterySettings() {
        try {
            startActivity(Intent(Settings.ACTION_IGNORE_BATTERY_OPTIMIZATION_SETTINGS))
        } catch (missing: ActivityNotFoundException) {
            startActivity(Intent(Settings.ACTION_SETTINGS))
        }
    }

    private fun confirmForget() {
        AlertDialog.Builder(this)
            .setMessage(R.string.forget_question)
            .setPositiveButton(R.string.forget) { _, _ -> forget() }
            .setNegativeButton(android.R.string.cancel, null)
            .show()
    }

    private fun forget() {
        DeviceService.stop(this)
        parts.pairings.forget()
        Page.forgetSignIn()
        showPairing()
    }

    private fun leadTo(id: Int, screen: Class<*>) = view<Button>(id).setOnClickListener { startActivity(Intent(this, screen)) }
}
