package org.handspan.bridge

import org.handspan.client.Backoff
import org.handspan.client.Client
import org.handspan.client.ClientListener
import org.handspan.client.ClientStatus
import org.handspan.client.FileState
import org.handspan.client.Trust
import java.io.File
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicBoolean

/**
 * Brings the tools of other apps on this phone to a gateway: one device connection for each app (cetp.md 8).
 *
 *     val bridge = Bridge(url, token, AndroidTransport(context), File(context.noBackupFilesDir, "bridge"))
 *     bridge.start()
 *     PackageChanges(context, bridge).start()
 */
class Bridge(
    private val url: String,
    private val token: String,
    private val transport: Transport,
    /** A folder of this app's own, for what must not be forgotten. */
    private val folder: File,
    private val trust: Trust = Trust.System,
    private val backoff: Backoff = Backoff(),
    /** Whether the person lets this app be bridged. It is asked at every [scan]. */
    private val isAllowed: (ProviderApp) -> Boolean = { true },
) {
    private val owner = Executors.newSingleThreadExecutor { Thread(it, "handspan-bridge").apply { isDaemon = true } }
    private val isScanWanted = AtomicBoolean()
    private val labels = LabelMemory(FileState(File(folder, "labels.json")))
    private val bridged = LinkedHashMap<String, BridgedApp>()
    private val states = LinkedHashMap<String, String>()
    private var skipped = emptyList<ProviderApp>()
    private val client = builder(OWN_LABEL, "Bridge to apps", OWN_LABEL).listener(object : ClientListener {
        override fun onState(status: ClientStatus, text: String) {
            if (status == ClientStatus.ONLINE) scan() // cetp.md 8.5, 8.6: what failed is tried again
        }
    }).build()

    /** Connects, and bridges until [close]. */
    fun start() = client.start()

    /** Looks for apps again, soon, on a thread of the bridge. Scans that are wanted meanwhile become one. */
    fun scan() {
        if (isScanWanted.compareAndSet(false, true)) onOwner(::scanNow)
    }

    /** The apps that were found, with how each is: empty when its tools are offered. */
    fun states(): Map<String, String> = synchronized(states) { states.toMap() }

    /** Takes all tools back. */
    fun close() {
        client.close()
        onOwner { bridged.values.forEach { it.close() } }
        owner.shutdown()
    }

    private fun scanNow() {
        isScanWanted.set(false)
        val found = try {
            transport.apps().filter(isAllowed)
        } catch (broken: RuntimeException) { // Android itself is in trouble: what is bridged stays so until the next scan
            return
        }
        val usable = found.filter { it.problem.isEmpty() }.associateBy { it.id }
        for (gone in bridged.keys - usable.keys) bridged.remove(gone)?.close()
        for (app in usable.values) {
            bridged.getOrPut(app.id) { bridge(app) }.refresh(app)
        }
        skipped = found.filter { it.problem.isNotEmpty() }
        describe()
    }

    private fun bridge(app: ProviderApp) =
        BridgedApp(app, labels.label(app.id, app.label), transport, ::connect) { onOwner(::describe) }

    private fun onOwner(work: () -> Unit) {
        runCatching { owner.execute(work) } // after `close` nothing is done any more
    }

    /** Shows in the list of devices which apps are not bridged, and why. */
    private fun describe() {
        val waiting = bridged.filterValues { it.state.isNotEmpty() }
        synchronized(states) {
            states.clear()
            skipped.forEach { states[it.id] = it.problem }
            bridged.forEach { (id, app) -> states[id] = app.state }
        }
        val notes = skipped.map { "${it.id}: ${it.problem}" } + waiting.map { (id, app) -> "$id: ${app.state}" }
        val count = bridged.size - waiting.size
        client.describe("Bridges $count app${if (count == 1) "" else "s"}.", notes = notes.sorted())
    }

    private fun connect(app: BridgedApp, name: String): Client =
        builder(app.label, name, app.app.id).startLogin { app.authorize(it.intent) }.build()

    private fun builder(label: String, name: String, keptAs: String) = Client.builder(url)
        .authToken(token)
        .device(label, prefix = false)
        .deviceName(name)
        .concurrency(CALLS)
        .reconnectPolicy(backoff)
        .state(FileState(File(folder, "$keptAs.json")))
        .trust(trust)

    private companion object {
        const val OWN_LABEL = "bridge"

        /** Calls of one app that run at once: one that hangs holds up no other. */
        const val CALLS = 16
    }
}
