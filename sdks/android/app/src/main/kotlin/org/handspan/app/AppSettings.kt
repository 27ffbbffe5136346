package org.handspan.app

import android.content.Context
import android.content.SharedPreferences

/** What the person has switched on. Nothing is on at first. */
class AppSettings(context: Context) {
    private val kept: SharedPreferences = context.getSharedPreferences("handspan", Context.MODE_PRIVATE)

    /** Whether the phone shall be connected. A stop by the person stays a stop. */
    var isWanted: Boolean
        get() = kept.getBoolean("wanted", false)
        set(wanted) = kept.edit().putBoolean("wanted", wanted).apply()

    /** The tools that agents may see. */
    fun isToolOn(name: String): Boolean = name in set(TOOLS)

    fun switchTool(name: String, isOn: Boolean) = change(TOOLS, name, isOn)

    /** Tools whose calls the person allows without being asked each time. */
    fun isAlwaysAllowed(tool: String): Boolean = tool in set(ALWAYS)

    fun allowAlways(tool: String, isAlways: Boolean) = change(ALWAYS, tool, isAlways)

    /** Apps whose tools are brought to the gateway. */
    fun isAppOn(id: String): Boolean = id in set(APPS)

    fun switchApp(id: String, isOn: Boolean) = change(APPS, id, isOn)

    fun hasApps(): Boolean = set(APPS).isNotEmpty()

    /** The hosts whose links an agent may open; a host stands for all below it. */
    var linkHosts: Set<String>
        get() = set(HOSTS)
        set(hosts) = kept.edit().putStringSet(HOSTS, hosts).apply()

    fun allowsLink(host: String): Boolean = linkHosts.any { host == it || host.endsWith(".$it") }

    // The set that is given out must not be changed (SharedPreferences.getStringSet), so each change makes a new one.

    private fun set(key: String): Set<String> = kept.getStringSet(key, null)?.toSet() ?: emptySet()

    @Synchronized
    private fun change(key: String, one: String, isIn: Boolean) {
        kept.edit().putStringSet(key, if (isIn) set(key) + one else set(key) - one).apply()
    }

    private companion object {
        const val TOOLS = "tools"
        const val ALWAYS = "always"
        const val APPS = "apps"
        const val HOSTS = "hosts"
    }
}
