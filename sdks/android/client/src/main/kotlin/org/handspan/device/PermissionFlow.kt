package org.handspan.device

import android.Manifest.permission.ACCESS_COARSE_LOCATION
import android.Manifest.permission.ACCESS_FINE_LOCATION
import org.handspan.client.AskPermission
import org.handspan.client.Decision
import org.handspan.client.PermissionAnswer
import org.handspan.client.PermissionQuestion
import java.util.concurrent.TimeUnit

/** What the flow needs of Android. */
interface PermissionPlatform {
    fun isGranted(permission: String): Boolean

    /** Whether Android would explain the permission first: true after one plain no. */
    fun showsRationale(permission: String): Boolean

    /** Waits until a screen of this app is there, and invites the person to come back; false when none is in time. Blocks. */
    fun awaitForeground(question: PermissionQuestion): Boolean

    /** Shows the system's dialog for these, and waits for its end; false when it does not end in time. Blocks. */
    fun request(permissions: List<String>, ms: Long): Boolean

    /** Whether a request for it ended without a yes before, in this or an earlier process. */
    fun wasRefused(permission: String): Boolean

    fun rememberRefused(permission: String)

    /** Shows how to enable it in the settings. */
    fun explainForever(permission: String)

    /** The same in words. */
    fun howToEnable(permission: String): String
}

/**
 * Asks for a permission of Android: checked before every call, asked for by the system's dialog, and in the background only
 * when the person comes back to the app (SPEC P2, P3). Android's own state decides; nothing is granted from memory.
 */
class PermissionFlow(private val platform: PermissionPlatform) : AskPermission {

    /** The answer; null when there is none within the question's time: the gateway ends the question itself. */
    override fun ask(question: PermissionQuestion): PermissionAnswer? {
        val permission = question.permission
        val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(question.expiresMs)
        if (isGranted(permission)) return PermissionAnswer(Decision.ALLOW)
        if (!platform.awaitForeground(question)) return null
        if (isGranted(permission)) return PermissionAnswer(Decision.ALLOW) // in the settings, meanwhile
        return request(permission, end)
    }

    /** The approximate place is an answer to the question for the place, and counts as a yes. */
    private fun isGranted(permission: String): Boolean = groupOf(permission).any { platform.isGranted(it) }

    /** One dialog at a time: Android drops a second one. */
    @Synchronized
    private fun request(permission: String, end: Long): PermissionAnswer? {
        val left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())
        if (isGranted(permission)) return PermissionAnswer(Decision.ALLOW) // by the dialog before this one
        if (left <= 0) return null
        val explained = platform.showsRationale(permission)
        if (!platform.request(groupOf(permission), left)) return null
        if (isGranted(permission)) return PermissionAnswer(Decision.ALLOW)
        // Android shows no dialog any more when it would not explain one that was refused before. At the first time the
        // same picture means that the person closed the dialog without an answer.
        val isForever = !platform.showsRationale(permission) && (explained || platform.wasRefused(permission))
        platform.rememberRefused(permission)
        if (!isForever) return PermissionAnswer(Decision.DENY)
        platform.explainForever(permission)
        return PermissionAnswer(Decision.DENY_FOREVER, platform.howToEnable(permission))
    }

    companion object {
        /** What has to stand in one request: since Android 12 the exact place is only asked for together with the approximate one. */
        internal fun groupOf(permission: String): List<String> =
            if (permission == ACCESS_FINE_LOCATION) listOf(ACCESS_FINE_LOCATION, ACCESS_COARSE_LOCATION) else listOf(permission)
    }
}
