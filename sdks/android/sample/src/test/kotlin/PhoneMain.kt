package org.handspan.test

import android.app.Activity
import android.content.ComponentName
import android.content.ContentProvider
import android.content.ContentValues
import android.content.Intent
import android.content.IntentFilter
import android.content.pm.PackageInfo
import android.content.pm.ServiceInfo
import android.database.Cursor
import android.database.MatrixCursor
import android.hardware.Sensor
import android.hardware.SensorManager
import android.net.Uri
import android.os.Binder
import android.os.Bundle
import android.os.Looper
import com.example.myfinance.cetp.ToolProvider
import com.example.myfinance.cetp.financeAccess
import org.handspan.bridge.AndroidTransport
import org.handspan.bridge.Bridge
import org.handspan.bridge.PackageChanges
import org.handspan.client.Backoff
import org.handspan.client.Client
import org.handspan.client.ClientListener
import org.handspan.client.ClientStatus
import org.handspan.client.FileState
import org.handspan.client.MediaFile
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolSpec
import org.handspan.device.AndroidPermissions
import org.handspan.device.DeviceTools
import org.handspan.device.PermissionActivity
import org.handspan.device.PermissionFlow
import org.handspan.json.flag
import org.handspan.json.number
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.JUnitCore
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowContentResolver
import org.robolectric.shadows.ShadowSensor
import org.robolectric.shadows.ShadowSensorManager
import java.io.File
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.system.exitProcess

private const val FINANCE = "com.example.myfinance"

/** A phone at a real gateway: its own tools, and the bridge to its apps. It obeys lines of JSON until its input ends. */
fun main() {
    System.setProperty(STARTED, "yes")
    val result = JUnitCore().run(Phone::class.java)
    result.failures.forEach { System.err.println(it.trace) }
    exitProcess(if (result.wasSuccessful()) 0 else 1)
}

/** Set by `main`: a run of all tests leaves this out. */
private const val STARTED = "handspan.main"

@Synchronized
private fun tell(event: String, text: String = "") = println(JSONObject().put("event", event).put("text", text).toString())

/** An app's content provider, which a test lets sleep, break and change. [sleeps]: how many calls find it asleep. */
private class InstalledProvider(@Volatile var real: ContentProvider?) : ContentProvider() {
    @Volatile var sleeps = 0
    @Volatile var problem: RuntimeException? = null

    override fun call(method: String, arg: String?, extras: Bundle?): Bundle? {
        problem?.let { throw it }
        if (sleeps > 0 && extras != null) {
            sleeps--
            throw IllegalStateException("it sleeps")
        }
        return real?.call(method, arg, extras)
    }

    override fun onCreate() = true

    override fun query(uri: Uri, columns: Array<String>?, where: String?, args: Array<String>?, order: String?): Cursor =
        MatrixCursor(arrayOf("name", "number")).apply {
            for ((name, number) in listOf("Ann" to "1", "Ann" to "2", "Bo" to "3")) if (name in uri.toString()) addRow(arrayOf(name, number))
        }

    override fun getType(uri: Uri): String? = null

    override fun insert(uri: Uri, values: ContentValues?): Uri? = null

    override fun update(uri: Uri, values: ContentValues?, where: String?, args: Array<String>?) = 0

    override fun delete(uri: Uri, where: String?, args: Array<String>?) = 0
}

/** An app that never answers: it may hold up no other. */
private class StuckProvider : org.handspan.cetp.ToolProvider("Stuck") {
    override fun declareTools() = Thread.sleep(Long.MAX_VALUE)
}

/** A later version of the app, with another tool. */
private class NewFinance : org.handspan.cetp.ToolProvider("MyFinance") {
    override fun declareTools() = tool("get_net_worth", "Get what all holdings are worth, in euros") { 2500 }
}

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class Phone {
    private val application = RuntimeEnvironment.getApplication()
    private val packages = shadowOf(application.packageManager)
    private val sensors = shadowOf(application.getSystemService(SensorManager::class.java))
    private val providers = HashMap<String, InstalledProvider>()
    private val started = mutableListOf<String>()
    private var installations = 0L

    @Test
    fun runs() {
        assumeTrue("a person or a test starts it", System.getProperty(STARTED) != null)
        tell("ready")
        val folder = File(System.getProperty("phone.folder")!!)
        prepare()
        val client = device(folder)
        val bridge = Bridge(url, token, AndroidTransport(application), File(folder, "bridge"), backoff = Backoff(10, 50))
        val changes = PackageChanges(application, bridge).apply { start() }
        client.start()
        bridge.start()
        obeyAll()
        changes.stop()
        bridge.close()
        client.close()
        client.join(5000)
    }

    private val url get() = System.getProperty("phone.url")!!
    private val token get() = System.getProperty("phone.token")!!

    private fun prepare() {
        packages.setPackagesForUid(Binder.getCallingUid(), application.packageName)
        sensors.addSensor(ShadowSensor.newInstance(Sensor.TYPE_ACCELEROMETER))
        ShadowContentResolver.registerProviderInternal("com.android.contacts", InstalledProvider(null))
        install(FINANCE, ToolProvider())
        install("com.example.future", null, version = 2)
        install("com.example.stuck", StuckProvider())
    }

    private fun install(name: String, provider: ContentProvider?, version: Int = 1) {
        provider?.attachInfo(application, android.content.pm.ProviderInfo().apply { authority = "$name.clawseed.tools" })
        packages.installPackage(PackageInfo().apply {
            packageName = name
            lastUpdateTime = ++installations
        })
        val service = ComponentName(name, "$name.cetp.ToolProviderService")
        packages.addServiceIfNotPresent(service)
        packages.addIntentFilterForService(service, IntentFilter("com.clawseed.action.TOOL_PROVIDER"))
        packages.addOrUpdateService(ServiceInfo().apply {
            packageName = name
            this.name = service.className
            metaData = Bundle().apply {
                putString("com.clawseed.tools.authority", "$name.clawseed.tools")
                putInt("com.clawseed.tools.version", version)
            }
        })
        val screen = ComponentName(name, "$name.Main")
        packages.addActivityIfNotPresent(screen)
        packages.addIntentFilterForActivity(screen, IntentFilter(Intent.ACTION_MAIN).apply { addCategory(Intent.CATEGORY_LAUNCHER) })
        val known = providers.getOrPut(name) { InstalledProvider(null) }
        known.real = provider
        known.problem = null
        ShadowContentResolver.registerProviderInternal("$name.clawseed.tools", known)
    }

    private fun device(folder: File): Client {
        val flow = PermissionFlow(AndroidPermissions(application))
        val builder = Client.builder(url).authToken(token).device("phone")
            .askPermission { question ->
                tell("asked", question.permission)
                flow.ask(question)
            }
            .deviceName("A phone that is not there")
            .reconnectPolicy(Backoff(10, 50))
            .state(FileState(File(folder, "state.json")))
            .registerTool(ToolSpec("large", "A large text")) { ToolCallResult.Success("x".repeat(2_000_000)) }
            .registerTool(ToolSpec("picture", "A picture")) { ToolCallResult.Success(MediaFile(PNG, "image/png", "dot.png")) }
            .onChannelMessage { tell("shown", "${it.channel} ${it.chatId} ${it.content}") }
            .listener(object : ClientListener {
                override fun onState(status: ClientStatus, text: String) = tell(status.name.lowercase(), text)
            })
        return DeviceTools(application, flow).addTo(builder).build()
    }

    /** This is the main thread: it does what Android posts to it, and what the test orders. */
    private fun obeyAll() {
        val orders = LinkedBlockingQueue<String>()
        val end = "end"
        thread(isDaemon = true) {
            generateSequence(::readlnOrNull).forEach(orders::put)
            orders.put(end)
        }
        while (true) {
            val order = orders.poll(5, TimeUnit.MILLISECONDS)
            shadowOf(Looper.getMainLooper()).idle()
            while (true) start(shadowOf(application).nextStartedActivity ?: break)
            if (sensors.listeners.isNotEmpty()) sensors.sendSensorEventToListeners(gravity())
            if (order == end) return
            if (order != null) obey(parseObject(order))
        }
    }

    private fun gravity() = ShadowSensorManager.createSensorEvent(3, Sensor.TYPE_ACCELEROMETER).apply { values[2] = 9.5f }

    private fun start(intent: Intent) {
        if (intent.component?.className == PermissionActivity::class.java.name) return answerDialog(intent)
        started += intent.action.orEmpty()
    }

    /** The person agrees to what Android asks. */
    private fun answerDialog(intent: Intent) {
        val controller = Robolectric.buildActivity(PermissionActivity::class.java, intent).setup()
        val asked = shadowOf(controller.get()).lastRequestedPermission ?: return
        shadowOf(application).grantPermissions(*asked.requestedPermissions)
        controller.get().onRequestPermissionsResult(asked.requestCode, asked.requestedPermissions, IntArray(asked.requestedPermissions.size))
        controller.pause().stop().destroy()
    }

    private fun broadcast(action: String) = application.sendBroadcast(Intent(action, Uri.parse("package:$FINANCE")))

    private fun obey(order: JSONObject) {
        when (order.text("do")) {
            "screen" -> Robolectric.buildActivity(Activity::class.java).setup()
            "grant_access" -> financeAccess.asking(application).forEach { financeAccess.grant(application, it) }
            "sleep" -> {
                started.clear()
                providers.getValue(FINANCE).sleeps = order.number("calls")!!.toInt()
            }
            "remove" -> {
                packages.clearIntentFilterForService(ComponentName(FINANCE, "$FINANCE.cetp.ToolProviderService"))
                broadcast(Intent.ACTION_PACKAGE_REMOVED)
            }
            "install" -> {
                install(FINANCE, ToolProvider())
                if (order.flag("broken")) providers.getValue(FINANCE).problem = IllegalStateException("it does not start")
                broadcast(Intent.ACTION_PACKAGE_ADDED)
            }
            "replace" -> {
                install(FINANCE, NewFinance())
                broadcast(Intent.ACTION_PACKAGE_REPLACED)
            }
            "mend" -> providers.getValue(FINANCE).problem = null
            "started" -> tell("started", started.joinToString(" "))
        }
    }
}

private val PNG = java.util.Base64.getDecoder().decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)
