package org.handspan.app

import android.app.Application
import android.content.Context

/** The app's process. Everything is put together in [AppParts]. */
open class HandspanApp : Application() {
    lateinit var parts: AppParts
        private set

    override fun onCreate() {
        super.onCreate()
        parts = AppParts(this, vault())
    }

    /** What seals the token; a JVM has no Keystore. */
    protected open fun vault(): Vault = KeystoreVault()
}

/** The parts of the app that this screen, service or receiver belongs to. */
val Context.parts: AppParts get() = (applicationContext as HandspanApp).parts
