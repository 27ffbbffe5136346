package org.handspan.app

import android.app.Application
import android.os.Build
import org.handspan.app.tools.ToolBook
import org.handspan.bridge.AndroidTransport
import org.handspan.bridge.Bridge
import org.handspan.bridge.PackageChanges
import org.handspan.client.Client
import org.handspan.client.ClientListener
import org.handspan.client.ClientStatus
import org.handspan.client.FileState
import org.handspan.client.PairedGateway
import java.io.File
import java.util.concurrent.CopyOnWriteArraySet

/** How the connection is, for a person. [text]: why it waits or ended; online the label of this phone. */
data class DeviceState(val status: ClientStatus = ClientStatus.CLOSED, val text: String = "", val rejected: Map<String, String> = emptyMap())

/** This phone at its gateway: its tools, and those of other apps. Any thread may use it. */
class Device(
    private val application: Application,
    private val settings: AppSettings,
    private val tools: ToolBook,
    private val consents: Consents,
    private val notices: Notices,
) {
    private class Open(val client: Client, val bridge: OpenBridge?)

    private class OpenBridge(val bridge: Bridge, val changes: PackageChanges) {
        fun close() {
            changes.stop()
            bridge.close()
        }
    }

    private val listeners = CopyOnWriteArraySet<(DeviceState) -> Unit>()
    private var open: Open? = null

    @Volatile var state = DeviceState()
        private set

    val isOpen: Boolean @Synchronized get() = open != null

    /** Connects, and stays connected until [close]. */
    @Synchronized
    fun open(paired: PairedGateway) {
        if (open != null) return
        val client = client(paired)
        open = Open(client, if (settings.hasApps()) openBridge(paired) else null)
        client.start()
    }

    @Synchronized
    fun close() {
        val closing = open ?: return
        open = null
        closing.bridge?.close()
        closing.client.close()
        change(DeviceState())
    }

    /** Begins anew, with another gateway or with other apps. */
    @Synchronized
    fun reopen(paired: PairedGateway) {
        if (open == null) return
        close()
        open(paired)
    }

    /** The network is back, or the phone woke up. */
    @Synchronized
    fun retryNow() {
        open?.client?.retryNow()
    }

    /** Offers a tool, or takes it back. */
    @Synchronized
    fun switchTool(name: String, isOn: Boolean) {
        settings.switchTool(name, isOn)
        val client = open?.client ?: return
        val entry = tools.find(name) ?: return
        if (isOn) client.registerTool(entry.spec, entry.handler) else client.unregisterTool(name)
    }

    /** Looks for apps again, after a switch was changed. */
    @Synchronized
    fun scanApps() {
        open?.bridge?.bridge?.scan()
    }

    /** How each app that is bridged is; empty when its tools are offered. */
    @Synchronized
    fun appStates(): Map<String, String> = open?.bridge?.bridge?.states() ?: emptyMap()

    /** Calls the listener at once and at every change, on any thread, until what is returned is closed. */
    fun listen(listener: (DeviceState) -> Unit): AutoCloseable {
        listeners += listener
        listener(state)
        return AutoCloseable { listeners -= listener }
    }

    private fun client(paired: PairedGateway): Client {
        val builder = Client.builder(paired.url)
            .authToken(paired.token)
            .trust(paired.trust)
            .device("phone")
            .deviceName("${Build.MANUFACTURER} ${Build.MODEL}")
            .state(FileState(File(application.noBackupFilesDir, "device.json")))
            .concurrency(CALLS)
            .askPermission(consents)
            .onChannelMessage { notices.showMessage(it) }
        for (entry in tools.all().filter { settings.isToolOn(it.spec.name) }) builder.registerTool(entry.spec, entry.handler)
        // What a client tells after its end is no news of the one that followed it.
        var own: Client? = null
        return builder.listener(object : ClientListener {
            override fun onState(status: ClientStatus, text: String) = ifCurrent { change(state.copy(status = status, text = text)) }

            override fun onRejected(tools: Map<String, String>) = ifCurrent { change(state.copy(rejected = tools)) }

            private fun ifCurrent(work: () -> Unit) = synchronized(this@Device) { if (open?.client === own) work() }
        }).build().also { own = it }
    }

    private fun openBridge(paired: PairedGateway): OpenBridge {
        val folder = File(application.noBackupFilesDir, "bridge")
        val bridge = Bridge(
            paired.url, paired.token, AndroidTransport(application), folder,
            trust = paired.trust, isAllowed = { settings.isAppOn(it.id) },
        )
        val changes = PackageChanges(application, bridge)
        changes.start()
        bridge.start()
        return OpenBridge(bridge, changes)
    }

    private fun change(now: DeviceState) {
        state = now
        listeners.forEach { it(now) }
    }

    private companion object {
        /** Calls that run at once: one that waits for the person holds up no other. */
        const val CALLS = 4
    }
}
