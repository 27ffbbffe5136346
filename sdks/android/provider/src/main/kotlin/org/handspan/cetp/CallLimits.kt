package org.handspan.cetp

private const val MINUTE_MS = 60_000L
private const val MAX_ANSWERS = 64
private const val MAX_CONSUMERS = 256

/** How often a consumer may call, and the answers that it may get again (cetp.md 1.7). Any thread may use it. */
internal class CallLimits(private val perMinute: Int, private val now: () -> Long) {
    private class Window(val begin: Long) {
        var calls = 0
    }

    private val windows = LinkedHashMap<Int, Window>()
    private val answers = LinkedHashMap<String, CetpSuccess>()

    /** Counts a call. Throws [ProviderError] with `RATE_LIMITED` when it is one too many. */
    @Synchronized
    fun count(consumer: Consumer) {
        if (perMinute == 0) return
        val window = windows.remove(consumer.uid)?.takeIf { now() - it.begin < MINUTE_MS } ?: Window(now())
        windows[consumer.uid] = window
        while (windows.size > MAX_CONSUMERS) windows.remove(windows.keys.first())
        if (++window.calls > perMinute) {
            throw ProviderError(CetpCode.RATE_LIMITED, "more than $perMinute calls in a minute: wait, and call again")
        }
    }

    /** The answer that this consumer got under this id; null when there is none. Errors are not kept. */
    @Synchronized
    fun answer(consumer: Consumer, requestId: String): CetpSuccess? = answers["${consumer.uid} $requestId"]

    @Synchronized
    fun keep(consumer: Consumer, requestId: String, answer: CetpSuccess) {
        if (requestId.isEmpty()) return
        answers["${consumer.uid} $requestId"] = answer
        while (answers.size > MAX_ANSWERS) answers.remove(answers.keys.first())
    }
}
