package org.handspan.app

import android.content.Context
import android.content.Intent
import org.handspan.app.screens.QuestionActivity
import org.handspan.client.PermissionQuestion
import org.handspan.device.Invitation
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArraySet
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException

/** What a person says to a question of ours. */
enum class Verdict { ONCE, ALWAYS, NO }

/** A question that is open. [asksVerdict]: ours comes first; else only Android's own dialog waits for a screen. */
class OpenQuestion(val question: PermissionQuestion, val asksVerdict: Boolean) {
    private val verdict = CompletableFuture<Verdict>()

    val isAnswered: Boolean get() = verdict.isDone

    fun answer(given: Verdict) {
        verdict.complete(given)
    }

    /** The person's answer; null when there is none in time. Blocks. */
    fun await(ms: Long): Verdict? = try {
        verdict.get(ms, TimeUnit.MILLISECONDS)
    } catch (late: TimeoutException) {
        null
    }
}

/** The questions that are open now. The first one is on the screen; in the background a notification leads there. */
class QuestionBoard(private val context: Context, private val notices: Notices) : Invitation {
    private val open = LinkedHashSet<OpenQuestion>()
    private val listeners = CopyOnWriteArraySet<() -> Unit>()

    /** The question that the person sees first: one of ours, else one that only needs a screen. */
    fun first(): OpenQuestion? = synchronized(open) { open.firstOrNull { it.asksVerdict && !it.isAnswered } ?: open.firstOrNull() }

    fun begin(question: PermissionQuestion, asksVerdict: Boolean): OpenQuestion {
        val one = OpenQuestion(question, asksVerdict)
        synchronized(open) { open += one }
        // From the background Android starts no screen; it does not throw, so the notification is there in any case.
        notices.showQuestion(question)
        context.startActivity(Intent(context, QuestionActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        listeners.forEach { it() }
        return one
    }

    fun end(question: OpenQuestion) {
        val isLast = synchronized(open) {
            open -= question
            open.isEmpty()
        }
        if (isLast) notices.hideQuestion()
        listeners.forEach { it() }
    }

    override fun show(question: PermissionQuestion): AutoCloseable {
        val one = begin(question, asksVerdict = false)
        return AutoCloseable { end(one) }
    }

    /** Calls the listener at every change, on any thread, until what is returned is closed. */
    fun listen(listener: () -> Unit): AutoCloseable {
        listeners += listener
        return AutoCloseable { listeners -= listener }
    }
}
