package org.handspan.app.screens

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.widget.Button
import android.widget.EditText
import android.widget.TextView
import org.handspan.app.DeviceService
import org.handspan.app.R
import org.handspan.app.parts
import org.handspan.app.view
import org.handspan.client.PairingLink
import org.handspan.client.pair
import java.io.IOException
import kotlin.concurrent.thread

/**
 * Pairs the phone by a link: opened (`handspan://pair`, the link of the QR code), shared with the app, or pasted. The person
 * sees which gateway it is before anything is sent there.
 */
class PairActivity : Activity() {
    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        setContentView(R.layout.pair)
        view<Button>(R.id.check).setOnClickListener { check(view<EditText>(R.id.link).text.toString()) }
        if (savedInstanceState == null) readIntent(intent)
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        readIntent(intent)
    }

    private fun readIntent(intent: Intent) {
        val text = (if (intent.action == Intent.ACTION_SEND) intent.getStringExtra(Intent.EXTRA_TEXT) else intent.dataString) ?: return
        if (Page.isSignIn(text)) {
            startActivity(Intent(this, ChatActivity::class.java).putExtra(ChatActivity.LINK, text))
            return finish()
        }
        view<EditText>(R.id.link).setText(text)
        check(text)
    }

    private fun check(text: String) {
        val link = try {
            PairingLink.read(text)
        } catch (other: IllegalArgumentException) {
            return say(getString(R.string.no_link))
        }
        say(getString(if (link.isPlain) R.string.pair_plain else R.string.pair_question, link.url))
        view<Button>(R.id.pair).apply {
            visibility = View.VISIBLE
            isEnabled = true
            setOnClickListener {
                isEnabled = false
                say(getString(R.string.pairing, link.url))
                exchange(link)
            }
        }
    }

    private fun exchange(link: PairingLink) {
        thread(name = "handspan-pair") {
            val problem = try {
                val paired = pair(link, "phone", SCOPES)
                parts.pairings.save(paired)
                parts.settings.isWanted = true
                parts.device.reopen(paired)
                ""
            } catch (failed: IOException) {
                failed.message ?: failed.javaClass.simpleName
            } catch (failed: IllegalArgumentException) {
                failed.message ?: failed.javaClass.simpleName
            }
            runOnUiThread { if (problem.isEmpty()) end() else retry(problem) }
        }
    }

    private fun retry(problem: String) {
        say(getString(R.string.pair_failed, problem))
        view<Button>(R.id.pair).isEnabled = true
    }

    private fun end() {
        if (isDestroyed) return
        DeviceService.start(this, withScreen = true)
        startActivity(Intent(this, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_CLEAR_TOP))
        finish()
    }

    private fun say(words: String) {
        view<TextView>(R.id.words).text = words
    }

    private companion object {
        /** The code decides what the token may do; most give a device and nothing else. */
        val SCOPES = listOf("device", "chat", "admin")
    }
}
