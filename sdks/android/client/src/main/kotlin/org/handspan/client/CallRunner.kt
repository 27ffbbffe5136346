package org.handspan.client

import org.handspan.json.plain
import org.handspan.json.text
import org.json.JSONObject
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.ExecutorService
import java.util.concurrent.Future
import java.util.concurrent.ScheduledExecutorService
import java.util.concurrent.ScheduledFuture
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

/** Runs the handlers of calls and the questions to the person, each on a thread; gives their answers to [ClientState]. */
internal class CallRunner(
    private val state: ClientState,
    private val tools: ClientTools,
    private val encoder: ResultEncoder,
    private val askPermission: AskPermission?,
    private val startLogin: StartLogin?,
    /** The thread that owns the state. */
    private val owner: ScheduledExecutorService,
    /** ClientState begins a call only when there is room for it: with a concurrency of 1 they run one after the other. */
    private val threads: ExecutorService,
    private val add: (List<Action>) -> Unit,
) {
    private val running = ConcurrentHashMap<String, RunningCall>()
    private val timeouts = HashMap<String, ScheduledFuture<*>>()
    private val shrinking = HashSet<String>()
    @Volatile private var isClosed = false

    private class RunningCall {
        @Volatile var isCancelled = false
        val isOver = AtomicBoolean()
        var thread: Future<*>? = null
    }

    /** Runs the handler of a call. The state gets its answer once, or null when it was stopped. */
    fun start(run: Action.Run) {
        val id = run.request.text("id")
        val call = RunningCall()
        val capabilities = state.capabilities
        val limits = state.limits
        begin(id, call) {
            val answer = answer(run, call, capabilities, limits)
            finish(id, call) { state.finishCall(id, if (call.isCancelled) null else answer) }
        }
    }

    /** Stops this call: its thread is interrupted. When it does not end soon, others may begin. */
    fun stop(id: String) = running[id]?.let { stop(id, it) } ?: Unit

    private fun stop(id: String, call: RunningCall) {
        call.isCancelled = true
        call.thread?.cancel(true)
        owner.schedule({ finish(id, call) { state.finishCall(id, null) } }, GRACE_MS, TimeUnit.MILLISECONDS)
    }

    /** Calls `expireCall` after this many milliseconds, in place of an earlier timeout. */
    fun setTimeout(id: String, ms: Long) {
        timeouts.remove(id)?.cancel(false)
        timeouts[id] = owner.schedule({ add(state.expireCall(id)) }, ms, TimeUnit.MILLISECONDS)
    }

    /** Asks the person for a permission, until the question expires. */
    fun ask(id: String, question: PermissionQuestion) {
        val call = RunningCall()
        begin(id, call) {
            val answer = decide(question)
            finish(id, call) { if (call.isCancelled || answer == null) emptyList() else state.answerPermission(id, answer) }
        }
        owner.schedule({ stop(id, call) }, question.expiresMs, TimeUnit.MILLISECONDS)
    }

    /** Begins the login that a call waits for. What goes wrong there the person sees; the question stays open. */
    fun beginLogin(request: LoginRequest) {
        threads.execute { runCatching { startLogin?.start(request) } }
    }

    /** Makes an answer fit into a message, once, even if several links ask for it meanwhile. */
    fun shrink(answer: JSONObject) {
        val id = answer.text("id")
        if (!shrinking.add(id)) return
        val capabilities = state.capabilities
        val limits = state.limits
        threads.execute {
            val small = runCatching { encoder.shrink(answer, capabilities, limits) }.getOrElse { encodeError(answer, it, capabilities) }
            onOwner {
                shrinking.remove(id)
                add(state.replaceAnswer(small))
            }
        }
    }

    /** Stops all calls. The state gets nothing of it: it must still say that these calls were started. */
    fun close() {
        isClosed = true
        threads.shutdownNow()
    }

    private fun answer(run: Action.Run, call: RunningCall, capabilities: Set<String>, limits: WireLimits): JSONObject {
        val id = run.request.text("id")
        return try {
            if (run.asksPerson) askForAll(run)
            val request = ToolCallRequest(id, run.tool.name, argsOf(run.request), Context(id, call))
            val handler = tools.handler(run.tool.name) ?: throw ToolError("tool_not_found", "Tool '${run.tool.name}' was taken back.")
            when (val result = handler.handleToolCall(request)) {
                is ToolCallResult.Success -> encoder.encode(id, result.output, capabilities, limits)
                is ToolCallResult.Failure -> toolError(id, result.error, result.code)
            }
        } catch (thrown: Throwable) { // the program's own code
            encodeError(run.request, thrown, capabilities)
        }
    }

    private fun askForAll(run: Action.Run) {
        for (permission in run.tool.permissions) {
            val id = run.request.text("id")
            val question = PermissionQuestion(permission, run.tool.name, id, argsOf(run.request), "", run.tool.timeoutMs)
            val answer = decide(question) ?: PermissionAnswer(Decision.DENY)
            if (answer.decision != Decision.ALLOW) throw deniedError(permission, answer)
        }
    }

    /** Without a function that asks, the answer is no; one that fails gives none. */
    private fun decide(question: PermissionQuestion): PermissionAnswer? {
        val asking = askPermission ?: return PermissionAnswer(Decision.DENY)
        return runCatching { asking.ask(question) }.getOrNull()
    }

    private fun begin(id: String, call: RunningCall, work: () -> Unit) {
        running[id] = call
        call.thread = threads.submit(work)
    }

    private fun finish(id: String, call: RunningCall, settle: () -> List<Action>) = onOwner {
        if (call.isOver.compareAndSet(false, true)) {
            running.remove(id, call)
            timeouts.remove(id)?.cancel(false)
            add(settle())
        }
    }

    private fun onOwner(work: () -> Unit) {
        if (!isClosed) runCatching { owner.execute(work) } // the owner may have ended meanwhile
    }

    private inner class Context(private val id: String, private val call: RunningCall) : CallContext {
        override val isCancelled get() = call.isCancelled

        override fun progress(value: Any?) {
            val shown = plain(value)
            onOwner { add(state.reportProgress(id, shown)) }
        }
    }

    private companion object {
        const val GRACE_MS = 2000L
    }
}
