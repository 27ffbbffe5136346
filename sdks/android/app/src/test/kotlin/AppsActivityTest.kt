package org.handspan.test

import android.content.ComponentName
import android.content.IntentFilter
import android.content.pm.PackageInfo
import android.content.pm.ServiceInfo
import android.os.Bundle
import android.view.ViewGroup
import android.widget.Switch
import android.widget.TextView
import org.handspan.app.R
import org.handspan.app.screens.AppsActivity
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class AppsActivityTest {
    private fun install(name: String, version: Int) {
        val packages = shadowOf(app.packageManager)
        packages.installPackage(PackageInfo().apply { packageName = name })
        val service = ComponentName(name, "$name.ToolProviderService")
        packages.addServiceIfNotPresent(service)
        packages.addIntentFilterForService(service, IntentFilter("com.clawseed.action.TOOL_PROVIDER"))
        packages.addOrUpdateService(ServiceInfo().apply {
            packageName = name
            this.name = service.className
            metaData = Bundle().apply {
                putString("com.clawseed.tools.authority", "$name.tools")
                putInt("com.clawseed.tools.version", version)
            }
        })
    }

    private fun rows(): ViewGroup {
        val screen = Robolectric.buildActivity(AppsActivity::class.java).setup().get()
        val rows = screen.findViewById<ViewGroup>(R.id.rows)!!
        until("the list") { rows.childCount > 0 }
        return rows
    }

    @Test
    fun `each app is off until it is switched on, and one that can't be bridged says why`() {
        install("com.example.good", 1)
        install("com.example.future", 2)
        val rows = rows()
        val words = (1 until rows.childCount).map { rows.getChildAt(it).findViewById<TextView>(R.id.words)!!.text.toString() }
        assertEquals(2, words.size)
        assertTrue(words.toString(), words.any { "version 2" in it })
        val good = rows.getChildAt(1 + words.indexOf("com.example.good")).findViewById<Switch>(R.id.toggle)!!
        assertFalse(good.isChecked || parts.settings.hasApps())
        good.performClick()
        assertTrue(parts.settings.isAppOn("com.example.good"))
        good.performClick()
        assertFalse(parts.settings.hasApps())
    }

    @Test
    fun `without such apps it says so`() {
        assertEquals("No app on this phone offers data to agents.", (rows().getChildAt(0) as TextView).text.toString())
    }

    @Test
    fun `the bridge runs only while an app is switched on`() {
        pairWith()
        parts.device.open(parts.pairings.load()!!)
        assertEquals(emptyMap<String, String>(), parts.device.appStates())
        parts.settings.switchApp("com.example.good", true)
        parts.device.reopen(parts.pairings.load()!!)
        assertTrue(parts.device.isOpen)
        parts.device.close()
        assertFalse(parts.device.isOpen)
    }
}
