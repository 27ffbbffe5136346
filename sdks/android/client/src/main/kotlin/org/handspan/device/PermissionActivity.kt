package org.handspan.device

import android.app.Activity
import android.app.AlertDialog
import android.content.Context
import android.content.Intent
import android.os.Bundle
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

/** A screen without content of its own, which shows the system's dialog, or how to enable a permission in the settings. */
class PermissionActivity : Activity() {
    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val permissions = intent.getStringArrayExtra(PERMISSIONS)
        val text = intent.getStringExtra(EXPLANATION)
        when {
            text != null -> explain(text)
            permissions == null -> finish()
            state == null -> requestPermissions(permissions, 1)
        }
    }

    override fun onRequestPermissionsResult(code: Int, permissions: Array<String>, results: IntArray) {
        finish()
    }

    override fun onDestroy() {
        super.onDestroy()
        // Also where the person closed it without an answer; turning the phone makes it anew, and does not end it.
        if (isFinishing) waiting.remove(intent.getIntExtra(NUMBER, 0))?.countDown()
    }

    private fun explain(text: String) {
        AlertDialog.Builder(this)
            .setMessage(text)
            .setPositiveButton(android.R.string.ok) { _, _ -> startActivity(AndroidPermissions.settingsIntent(this)) }
            .setNegativeButton(android.R.string.cancel, null)
            .setOnDismissListener { finish() }
            .show()
    }

    companion object {
        private const val PERMISSIONS = "permissions"
        private const val EXPLANATION = "explanation"
        private const val NUMBER = "number"
        private val numbers = AtomicInteger()
        private val waiting = ConcurrentHashMap<Int, CountDownLatch>()

        /** A number under which the end of the dialog is told to this latch. */
        internal fun expect(done: CountDownLatch): Int = numbers.incrementAndGet().also { waiting[it] = done }

        /** The end of this dialog is not waited for any more. */
        internal fun forget(number: Int) {
            waiting.remove(number)
        }

        internal fun intent(context: Context, permissions: List<String>, number: Int): Intent =
            Intent(context, PermissionActivity::class.java)
                .putExtra(PERMISSIONS, permissions.toTypedArray())
                .putExtra(NUMBER, number)

        internal fun explanation(context: Context, text: String): Intent =
            Intent(context, PermissionActivity::class.java).putExtra(EXPLANATION, text)
    }
}
