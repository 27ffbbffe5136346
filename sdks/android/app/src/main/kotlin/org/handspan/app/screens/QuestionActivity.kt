package org.handspan.app.screens

import android.app.Activity
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.TextView
import org.handspan.app.OpenQuestion
import org.handspan.app.R
import org.handspan.app.Verdict
import org.handspan.app.parts
import org.handspan.app.view

/**
 * The question that is open: may this tool be used, once or always? It stays until no question is left, since Android shows
 * its own dialog on it.
 */
class QuestionActivity : Activity() {
    private var listening: AutoCloseable? = null
    private var shown: OpenQuestion? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.question)
        answerWith(R.id.once, Verdict.ONCE)
        answerWith(R.id.always, Verdict.ALWAYS)
        answerWith(R.id.no, Verdict.NO)
        setFinishOnTouchOutside(false)
    }

    override fun onStart() {
        super.onStart()
        listening = parts.board.listen { runOnUiThread { show() } }
        show()
    }

    override fun onStop() {
        super.onStop()
        listening?.close()
        listening = null
    }

    private fun show() {
        val open = parts.board.first()
        shown = open
        if (open == null) return finish()
        val question = open.question
        val entry = parts.tools.find(question.tool)
        val title = entry?.let { getString(it.title) } ?: question.tool
        view<TextView>(R.id.title).text = getString(R.string.question_title, title)
        val about = listOf(
            getString(if (question.agent.isEmpty()) R.string.asked_by_agent else R.string.asked_by, question.agent),
            entry?.let { getString(it.gives) }.orEmpty(),
            if (question.arguments.length() == 0) "" else question.arguments.toString(2),
        )
        val asks = open.asksVerdict && !open.isAnswered
        view<TextView>(R.id.words).text =
            if (asks) about.filter { it.isNotEmpty() }.joinToString("\n\n") else getString(R.string.android_asks)
        view<View>(R.id.buttons).visibility = if (asks) View.VISIBLE else View.GONE
        view<View>(R.id.always).visibility = if (entry?.asksAlways == true) View.GONE else View.VISIBLE
    }

    private fun answerWith(id: Int, verdict: Verdict) = view<Button>(id).setOnClickListener {
        shown?.answer(verdict)
        show()
    }
}
