package org.handspan.test

import android.content.ComponentName
import android.content.ContentProvider
import android.content.ContentValues
import android.content.IntentFilter
import android.content.pm.PackageInfo
import android.content.pm.ServiceInfo
import android.database.Cursor
import android.net.Uri
import android.os.Bundle
import android.os.DeadObjectException
import org.handspan.bridge.AndroidTransport
import org.handspan.bridge.ProviderApp
import org.handspan.bridge.isUnanswered
import org.handspan.cetp.Cetp
import org.handspan.cetp.CetpCode
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpSuccess
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowContentResolver

/** An app of which a test says what its process answers. */
private class ScriptedProvider(private val answer: (String, Bundle?) -> Bundle?) : ContentProvider() {
    override fun call(method: String, arg: String?, extras: Bundle?): Bundle? = answer(method, extras)

    override fun onCreate() = true

    override fun query(uri: Uri, a: Array<String>?, b: String?, c: Array<String>?, d: String?): Cursor? = null

    override fun getType(uri: Uri): String? = null

    override fun insert(uri: Uri, values: ContentValues?): Uri? = null

    override fun update(uri: Uri, values: ContentValues?, a: String?, b: Array<String>?) = 0

    override fun delete(uri: Uri, a: String?, b: Array<String>?) = 0
}

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class AndroidTransportTest {
    private val context = RuntimeEnvironment.getApplication()
    private val transport = AndroidTransport(context)
    private val app = ProviderApp("com.example.a", "A", "a", "com.example.a.clawseed.tools", "1")

    private fun install(name: String, authority: String?, version: Any?) {
        val packages = shadowOf(context.packageManager)
        packages.installPackage(PackageInfo().apply { packageName = name })
        val service = ComponentName(name, "$name.ToolProviderService")
        packages.addServiceIfNotPresent(service)
        packages.addIntentFilterForService(service, IntentFilter(Cetp.ACTION))
        val about = ServiceInfo().apply {
            packageName = name
            this.name = service.className
            metaData = Bundle().apply {
                authority?.let { putString(Cetp.AUTHORITY, it) }
                if (version is Int) putInt(Cetp.VERSION, version)
                if (version is String) putString(Cetp.VERSION, version)
            }
        }
        packages.addOrUpdateService(about)
    }

    private fun answers(answer: (String, Bundle?) -> Bundle?) =
        ShadowContentResolver.registerProviderInternal(app.authority, ScriptedProvider(answer))

    private fun call(extras: Map<String, String>? = null) = transport.call(app, "execute_tool", extras)

    @Test
    fun `apps are found by their service, and what they declare wrongly is said`() {
        install("com.example.good", "com.example.good.tools", 1)
        install("com.example.future", "x", "2")
        install("com.example.odd", "x", "one")
        install("com.example.silent", null, 1)
        val found = transport.apps().associateBy { it.label }
        assertEquals("com.example.good.tools" to "", found.getValue("good").run { authority to problem })
        assertTrue("version 2" in found.getValue("future").problem)
        assertTrue("write 1" in found.getValue("odd").problem)
        assertTrue("is missing" in found.getValue("silent").problem)
    }

    @Test
    fun `a call has the app's answer`() {
        answers { method, extras -> Bundle().apply {
            putString("status", "success")
            putString("data", "\"$method ${extras?.getString("tool_name")}\"")
        } }
        assertEquals("execute_tool count", (call(mapOf("tool_name" to "count")) as CetpSuccess).value)
    }

    // ContentProviderClient.call: null where the provider gives none; DeadObjectException where an unstable one died
    // (frameworks/base/core/java/android/content/ContentProviderClient.java).

    @Test
    fun `an app that answers with nothing, or dies in the middle, has not answered`() {
        answers { _, _ -> null }
        assertTrue((call() as CetpError).isUnanswered)
        answers { _, _ -> throw DeadObjectException() }
        val dead = call() as CetpError
        assertTrue(dead.message, dead.isUnanswered && "it ended" in dead.message)
        answers { _, _ -> throw IllegalStateException("it does not start") }
        assertTrue((call() as CetpError).isUnanswered)
    }

    @Test
    fun `no provider under the authority is no answer`() {
        val missing = call() as CetpError
        assertTrue(missing.message, missing.isUnanswered && "can't be reached" in missing.message)
    }

    @Test
    fun `a refusal of Android names the permission`() {
        answers { _, _ -> throw SecurityException("Permission Denial") }
        val denied = call() as CetpError
        assertEquals(CetpCode.PERMISSION_DENIED, denied.code)
        assertTrue(denied.message, "ACCESS_TOOLS" in denied.message)
    }

    @Test
    fun `arguments that Binder can't carry are refused before the call`() {
        answers { _, _ -> throw AssertionError("it was called") }
        val refused = call(mapOf("args" to "x".repeat(Cetp.MAX_CHARACTERS + 1))) as CetpError
        assertEquals(CetpCode.INVALID_ARGS, refused.code)
        assertTrue(refused.message, "400001 characters" in refused.message)
    }

    @Test
    fun `the app's own screen is started for a login whose intent nothing handles`() {
        transport.authorize(app, "com.example.a.ACTION_LOGIN")
        val started = shadowOf(context).nextStartedActivity
        assertEquals("com.example.a.ACTION_LOGIN" to "com.example.a", started.action to started.`package`)
    }
}
