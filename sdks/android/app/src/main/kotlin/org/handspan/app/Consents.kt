package org.handspan.app

import org.handspan.app.tools.ToolBook
import org.handspan.client.AskPermission
import org.handspan.client.Decision
import org.handspan.client.PermissionAnswer
import org.handspan.client.PermissionQuestion
import java.util.concurrent.TimeUnit

/**
 * Asks the person before a tool uses a permission: first whether the agent may (once, or always), then, where it is one of
 * Android's, by the system's own dialog. A remembered "always" is ours alone and never stands for Android's check (SPEC P2).
 */
class Consents(
    private val settings: AppSettings,
    private val board: QuestionBoard,
    private val androids: AskPermission,
    private val tools: ToolBook,
) : AskPermission {

    override fun ask(question: PermissionQuestion): PermissionAnswer? {
        val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(question.expiresMs)
        if (isRemembered(question)) return askAndroid(question, end)
        val open = board.begin(question, asksVerdict = true)
        try {
            return when (open.await(question.expiresMs)) {
                null -> null
                Verdict.NO -> PermissionAnswer(Decision.DENY)
                Verdict.ONCE -> askAndroid(question, end)
                Verdict.ALWAYS -> {
                    settings.allowAlways(question.tool, true)
                    askAndroid(question, end)
                }
            }
        } finally {
            board.end(open) // until then its screen stays, on which Android shows its dialog
        }
    }

    private fun isRemembered(question: PermissionQuestion) =
        tools.find(question.tool)?.asksAlways != true && settings.isAlwaysAllowed(question.tool)

    private fun askAndroid(question: PermissionQuestion, end: Long): PermissionAnswer? {
        if (!question.permission.startsWith("android.permission.")) return PermissionAnswer(Decision.ALLOW)
        val left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())
        if (left <= 0) return null
        return androids.ask(
            PermissionQuestion(question.permission, question.tool, question.callId, question.arguments, question.agent, left),
        )
    }
}
