package org.handspan.app.screens

import android.app.Activity
import android.os.Bundle
import android.view.ViewGroup
import android.widget.Switch
import org.handspan.app.R
import org.handspan.app.parts
import org.handspan.app.view
import org.handspan.bridge.AndroidTransport
import org.handspan.bridge.ProviderApp
import kotlin.concurrent.thread

/** The apps on this phone that offer tools (CETP), each with how it is and a switch. */
class AppsActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.list)
    }

    override fun onStart() {
        super.onStart()
        thread(name = "handspan-apps") { // names and icons of apps come from the disk
            val found = AndroidTransport(applicationContext).apps().sortedBy { it.name.lowercase() }
            runOnUiThread { if (!isDestroyed) show(found) }
        }
    }

    private fun show(found: List<ProviderApp>) {
        val list = view<ViewGroup>(R.id.rows)
        list.removeAllViews()
        addText(list, getString(if (found.isEmpty()) R.string.no_apps else R.string.apps_words))
        val states = parts.device.appStates()
        for (app in found) {
            val state = app.problem.ifEmpty { states[app.id].orEmpty() }
            val words = if (state.isEmpty()) app.id else "${app.id}\n$state"
            val row = addSwitch(list, app.name, words, parts.settings.isAppOn(app.id)) { isOn -> switch(app, isOn) }
            row.isEnabled = app.problem.isEmpty()
            row.view<Switch>(R.id.toggle).isEnabled = row.isEnabled
        }
    }

    private fun switch(app: ProviderApp, isOn: Boolean) {
        val hadApps = parts.settings.hasApps()
        parts.settings.switchApp(app.id, isOn)
        if (hadApps == parts.settings.hasApps()) return parts.device.scanApps()
        parts.pairings.load()?.let { parts.device.reopen(it) } // the bridge begins with the first app, and ends with the last
    }
}
