package org.handspan.client

import java.util.concurrent.ExecutorService
import java.util.concurrent.Executors
import javax.net.SocketFactory

/** Collects the options of a client; [build] makes it. */
class ClientBuilder internal constructor(url: String) {
    private val address = Address(url)
    private var token = ""
    private var label = ""
    private var hasPrefix = true
    private var deviceName = "Android"
    private var state: StateStore? = null
    private var concurrency = 1
    private var backoff = Backoff()
    private var trust: Trust = Trust.System
    private var sockets: SocketFactory? = null
    private var askPermission: AskPermission? = null
    private var startLogin: StartLogin? = null
    private var showMessage: ShowMessage? = null
    private var listener: ClientListener = object : ClientListener {}
    private var handler: ToolCallHandler? = null
    private var threads: ExecutorService? = null
    private val specs = LinkedHashMap<String, Pair<ToolSpec, ToolCallHandler?>>()

    /** The token that the gateway checks; `pair` gives one. */
    fun authToken(token: String) = apply {
        require(token.all { it in '!'..'~' }) { "A token has no spaces and no line breaks: take it as `pair` gave it" }
        this.token = token
    }

    /** The first part of the tools' names: `{label}__{tool}`. With [prefix] false the tools have their own names. */
    fun device(label: String, prefix: Boolean = true) = apply {
        this.label = label
        hasPrefix = prefix
    }

    /** The device's name for people. */
    fun deviceName(name: String) = apply { deviceName = name }

    /** Offers a tool; without a handler of its own [toolCallHandler] runs it. */
    fun registerTool(spec: ToolSpec, handler: ToolCallHandler? = null) = apply { specs[spec.name] = spec to handler }

    /** Runs every tool without a handler of its own. */
    fun toolCallHandler(handler: ToolCallHandler) = apply { this.handler = handler }

    /** Lets the client resume even after it was killed: `FileState(File(context.noBackupFilesDir, "handspan.json"))`. */
    fun state(store: StateStore) = apply { state = store }

    /** How many calls run at once; 1, so that handlers need no locks. */
    fun concurrency(count: Int) = apply {
        require(count > 0) { "At least one call must be able to run" }
        concurrency = count
    }

    /** How long to wait before the client connects again. */
    fun reconnectPolicy(backoff: Backoff) = apply { this.backoff = backoff }

    /** Which certificates are trusted; [pair] says which. */
    fun trust(trust: Trust) = apply { this.trust = trust }

    /** Where sockets come from: `Network.getSocketFactory()` keeps a client in one network, a VPN for example. */
    fun sockets(factory: SocketFactory) = apply { sockets = factory }

    /** Asks the person at this device. On Android: `AndroidPermissions`. */
    fun askPermission(ask: AskPermission) = apply { askPermission = ask }

    /** Begins a login for a tool that threw [LoginRequired]; without it the model gets that error. */
    fun startLogin(start: StartLogin) = apply { startLogin = start }

    /** Gets what agents write to the person with the tool `message`; without it they write to other clients. */
    fun onChannelMessage(show: ShowMessage) = apply { showMessage = show }

    /** Gets what happens to the client. */
    fun listener(listener: ClientListener) = apply { this.listener = listener }

    /** The threads of handlers; the client ends them. */
    internal fun threads(executor: ExecutorService) = apply { threads = executor }

    fun build(): Client {
        val tools = ClientTools(handler)
        for ((spec, own) in specs.values) tools.register(spec, own)
        val options = ClientOptions(
            address, token, label, hasPrefix, deviceName, state, concurrency, backoff, trust, sockets, askPermission, startLogin, showMessage,
            listener, threads ?: Executors.newCachedThreadPool { Thread(it, "handspan-call").apply { isDaemon = true } },
        )
        return Client(options, tools)
    }
}
