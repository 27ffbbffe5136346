package org.handspan.test

import android.app.Activity
import android.app.Application
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
import org.handspan.device.PermissionFlow
import org.handspan.json.flag
import org.handspan.json.number
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import java.io.File
import java.util.function.BiConsumer

private const val FINANCE = "com.example.myfinance"

@Synchronized
private fun tell(event: String, text: String = "") = println(JSONObject().put("event", event).put("text", text).toString())

/** A phone at a real gateway: its own tools, and the bridge to its apps. Arguments: address, token, folder. */
fun main(arguments: Array<String>) {
    val (url, token, folder) = arguments
    val phone = FakePhone()
    phone.install(FINANCE, ToolProvider())
    phone.install("com.example.future", null, version = 2)
    phone.install("com.example.stuck", StuckProvider())
    val application = Application(phone)
    val client = device(url, token, File(folder), application)
    val bridge = Bridge(url, token, AndroidTransport(phone), File(folder, "bridge"), backoff = Backoff(10, 50))
    val changes = PackageChanges(phone, bridge).apply { start() }
    client.start()
    bridge.start()
    for (line in generateSequence(::readlnOrNull)) obey(parseObject(line), phone, application)
    changes.stop()
    bridge.close()
    client.close()
}

private fun device(url: String, token: String, folder: File, application: Application): Client {
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

/** An app that never answers: it may hold up no other. */
private class StuckProvider : org.handspan.cetp.ToolProvider("Stuck") {
    override fun declareTools() = Thread.sleep(Long.MAX_VALUE)
}

/** A later version of the app, with another tool. */
private class NewFinance : org.handspan.cetp.ToolProvider("MyFinance") {
    override fun declareTools() = tool("get_net_worth", "Get what all holdings are worth, in euros") { 2500 }
}

/** The person opens the app, and agrees to what Android asks. */
private fun openScreen(phone: FakePhone, application: Application) {
    Activity.onRequest = BiConsumer { activity, wanted ->
        phone.granted += wanted[0]
        activity.onRequestPermissionsResult(1, wanted, intArrayOf(0))
    }
    Activity.use(phone)
    val screen = Activity()
    application.callbacks.forEach { it.onActivityResumed(screen) }
}

private fun obey(order: JSONObject, phone: FakePhone, application: Application) {
    when (order.text("do")) {
        "screen" -> openScreen(phone, application)
        "grant_access" -> financeAccess.asking(phone).forEach { financeAccess.grant(phone, it) }
        "sleep" -> phone.apps.getValue(FINANCE).sleeps = order.number("calls")!!.toInt()
        "remove" -> {
            phone.apps.remove(FINANCE)
            phone.broadcast("android.intent.action.PACKAGE_REMOVED")
        }
        "install" -> {
            phone.install(FINANCE, ToolProvider())
            if (order.flag("broken")) phone.apps.getValue(FINANCE).problem = IllegalStateException("it does not start")
            phone.broadcast("android.intent.action.PACKAGE_ADDED")
        }
        "replace" -> {
            phone.install(FINANCE, NewFinance())
            phone.broadcast("android.intent.action.PACKAGE_REPLACED")
        }
        "mend" -> phone.apps.getValue(FINANCE).problem = null
        "started" -> tell("started", phone.started.joinToString(" ") { it.action })
    }
}

private val PNG = java.util.Base64.getDecoder().decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
)
