package org.handspan.app.screens

import android.app.Activity
import android.app.AlertDialog
import android.content.ActivityNotFoundException
import android.content.Intent
import android.os.Bundle
import android.provider.Settings
import android.view.ViewGroup
import android.widget.Button
import android.widget.EditText
import org.handspan.app.R
import org.handspan.app.parts
import org.handspan.app.tools.NoticeListener
import org.handspan.app.tools.ToolEntry
import org.handspan.app.view

/** The tools of this phone, each with what it gives and a switch. */
class ToolsActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.list)
    }

    override fun onStart() {
        super.onStart()
        val list = view<ViewGroup>(R.id.rows)
        list.removeAllViews()
        addText(list, getString(R.string.tools_words))
        for (entry in parts.tools.all()) addRow(list, entry)
        addButton(list, R.string.link_hosts) { editHosts() }
        addButton(list, R.string.notice_access) { openNoticeAccess() }
    }

    private fun addRow(list: ViewGroup, entry: ToolEntry) {
        val name = entry.spec.name
        addSwitch(list, getString(entry.title), getString(entry.gives), parts.settings.isToolOn(name)) { isOn -> switch(name, isOn) }
        if (parts.settings.isAlwaysAllowed(name) && parts.settings.isToolOn(name)) {
            addSwitch(list, getString(R.string.always_title, getString(entry.title)), getString(R.string.always_words), true) { isAlways ->
                parts.settings.allowAlways(name, isAlways)
            }
        }
    }

    private fun switch(name: String, isOn: Boolean) {
        parts.device.switchTool(name, isOn)
        if (!isOn) parts.settings.allowAlways(name, false)
        if (isOn && "notif" in name && NoticeListener.current == null) openNoticeAccess()
    }

    private fun addButton(list: ViewGroup, words: Int, work: () -> Unit) {
        list.addView(Button(this).apply {
            setText(words)
            setOnClickListener { work() }
        })
    }

    private fun editHosts() {
        val field = EditText(this).apply {
            setText(parts.settings.linkHosts.sorted().joinToString("\n"))
            hint = getString(R.string.link_hosts_hint)
        }
        AlertDialog.Builder(this)
            .setTitle(R.string.link_hosts)
            .setView(field)
            .setPositiveButton(android.R.string.ok) { _, _ -> parts.settings.linkHosts = hostsIn(field.text.toString()) }
            .setNegativeButton(android.R.string.cancel, null)
            .show()
    }

    private fun openNoticeAccess() {
        try {
            startActivity(Intent(Settings.ACTION_NOTIFICATION_LISTENER_SETTINGS))
        } catch (missing: ActivityNotFoundException) {
            startActivity(Intent(Settings.ACTION_SETTINGS))
        }
    }

    internal companion object {
        /** The hosts in what a person typed: one a line, also as links. */
        fun hostsIn(text: String): Set<String> = text.split(Regex("[\\s,]+"))
            .map { it.lowercase().substringAfter("://").substringBefore('/').substringBefore(':').removePrefix("*.").trim('.') }
            .filter { HOST.matches(it) }
            .toSet()

        private val HOST = Regex("[a-z0-9-]+(\\.[a-z0-9-]+)+")
    }
}
