package org.handspan.client

/** The tools that a client offers, with the code that runs them. Any thread may change them. */
internal class ClientTools(private val fallback: ToolCallHandler?) {
    private val specs = LinkedHashMap<String, ToolSpec>()
    private val handlers = HashMap<String, ToolCallHandler>()

    /** Adds a tool, or replaces the one of its name. Without a handler of its own the client's runs it. */
    @Synchronized
    fun register(spec: ToolSpec, handler: ToolCallHandler?) {
        specs[spec.name] = spec
        if (handler != null) handlers[spec.name] = handler else handlers.remove(spec.name)
    }

    @Synchronized
    fun unregister(name: String) {
        specs.remove(name)
        handlers.remove(name)
    }

    @Synchronized
    fun all(): List<ToolSpec> = specs.values.toList()

    @Synchronized
    fun find(name: String): ToolSpec? = specs[name]

    @Synchronized
    fun handler(name: String): ToolCallHandler? = handlers[name] ?: fallback
}
