package com.example.myfinance

import android.app.Activity
import android.app.AlertDialog
import android.os.Bundle
import com.example.myfinance.cetp.financeAccess

/** Asks the person which apps may read their portfolio. */
class AuthorizeActivity : Activity() {
    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val asking = financeAccess.asking(this)
        if (asking.isEmpty()) return finish()
        AlertDialog.Builder(this)
            .setMessage("May these apps read your portfolio for 30 days? ${asking.joinToString()}")
            .setPositiveButton(android.R.string.ok) { _, _ -> asking.forEach { financeAccess.grant(this, it) } }
            .setNegativeButton(android.R.string.cancel, null)
            .setOnDismissListener { finish() }
            .show()
    }
}
