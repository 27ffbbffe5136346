package org.handspan.cetp

import android.content.Context
import android.content.SharedPreferences
import android.os.Binder

/** The app that calls a provider, as Android says (cetp.md 7.5): its uid, and the packages that have it. */
class Consumer(val uid: Int, val packages: List<String>) {
    /** One name for logs and lists. */
    val name: String get() = packages.firstOrNull() ?: "uid $uid"

    companion object {
        /** The caller of the content provider's method that runs on this thread. */
        fun ofThisCall(context: Context): Consumer {
            val uid = Binder.getCallingUid()
            return Consumer(uid, context.packageManager.getPackagesForUid(uid)?.toList() ?: emptyList())
        }
    }
}

/** What becomes of consumers that no list names. */
enum class Others { ADMIT, ASK, DENY }

/**
 * Which apps may call a provider's tools. It tells apps apart for the provider's own rules, and is no protection against an
 * app that the person has installed under an allowed name.
 *
 * With `ASK` the first call of a new app gets `AUTH_REQUIRED` with [hint] and [intent]; the app's own screen for that intent
 * shows [asking], and calls [grant] when the person agrees. A grant is valid for [validForMs]; 0: for ever.
 */
class Access(
    private val others: Others = Others.ADMIT,
    private val allow: Set<String> = emptySet(),
    private val deny: Set<String> = emptySet(),
    private val validForMs: Long = 0,
    private val hint: String = "Please open the app to allow this",
    private val intent: String = "",
    private val now: () -> Long = System::currentTimeMillis,
) {
    /** Throws [ProviderError] when the consumer may not call tools now. */
    internal fun check(context: Context, consumer: Consumer) {
        if (consumer.packages.any { it in deny }) throw refused(consumer)
        if (consumer.packages.any { it in allow } || others == Others.ADMIT) return
        if (others == Others.DENY) throw refused(consumer)
        if (consumer.packages.any { isGranted(context, it) }) return
        consumer.packages.forEach { grants(context).edit().putLong("$ASKING$it", now()).apply() }
        throw ProviderError(CetpCode.AUTH_REQUIRED, "${consumer.name} is not allowed to read this yet", hint, intent)
    }

    /** The packages that have called and wait for the person's yes. */
    fun asking(context: Context): List<String> =
        grants(context).all.keys.filter { it.startsWith(ASKING) }.map { it.removePrefix(ASKING) }

    /** The person agrees. */
    fun grant(context: Context, consumer: String) {
        grants(context).edit().putLong("$GRANTED$consumer", now()).remove("$ASKING$consumer").apply()
    }

    /** The person takes it back. */
    fun revoke(context: Context, consumer: String) {
        grants(context).edit().remove("$GRANTED$consumer").remove("$ASKING$consumer").apply()
    }

    private fun isGranted(context: Context, consumer: String): Boolean {
        val at = grants(context).getLong("$GRANTED$consumer", -1)
        return at >= 0 && (validForMs == 0L || now() - at < validForMs)
    }

    private fun refused(consumer: Consumer) =
        ProviderError(CetpCode.PERMISSION_DENIED, "${consumer.name} may not read this: the app's settings do not admit it")

    private fun grants(context: Context): SharedPreferences = context.getSharedPreferences("cetp_access", Context.MODE_PRIVATE)

    private companion object {
        const val ASKING = "asking:"
        const val GRANTED = "granted:"
    }
}
