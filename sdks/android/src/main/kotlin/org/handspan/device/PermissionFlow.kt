package org.handspan.device

import org.handspan.client.AskPermission
import org.handspan.client.Decision
import org.handspan.client.PermissionAnswer
import org.handspan.client.PermissionQuestion

/** What the flow needs of Android. */
interface PermissionPlatform {
    fun isGranted(permission: String): Boolean

    /** Whether Android would explain the permission first: true after one plain no. */
    fun showsRationale(permission: String): Boolean

    /** Waits until a screen of this app is there; false when none is in time. Blocks. */
    fun awaitForeground(ms: Long): Boolean

    /** Shows the system's dialog, and waits for its end. Blocks. */
    fun request(permission: String)

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

    /** The answer; null when the person did not come back in time: the gateway ends the question itself. */
    override fun ask(question: PermissionQuestion): PermissionAnswer? {
        val permission = question.permission
        if (platform.isGranted(permission)) return PermissionAnswer(Decision.ALLOW)
        if (!platform.awaitForeground(question.expiresMs)) return null
        if (platform.isGranted(permission)) return PermissionAnswer(Decision.ALLOW) // in the settings, meanwhile
        return request(permission)
    }

    /** One dialog at a time: Android drops a second one. */
    @Synchronized
    private fun request(permission: String): PermissionAnswer {
        val explained = platform.showsRationale(permission)
        platform.request(permission)
        if (platform.isGranted(permission)) return PermissionAnswer(Decision.ALLOW)
        // Android shows no dialog any more when it would not explain one that was refused before. At the first time the
        // same picture means that the person closed the dialog without an answer.
        val isForever = !platform.showsRationale(permission) && (explained || platform.wasRefused(permission))
        platform.rememberRefused(permission)
        if (!isForever) return PermissionAnswer(Decision.DENY)
        platform.explainForever(permission)
        return PermissionAnswer(Decision.DENY_FOREVER, platform.howToEnable(permission))
    }
}
