package org.handspan.bridge

import org.handspan.cetp.CetpResponse

/** An app that offers tools, as Android declares it. */
class ProviderApp(
    /** Its package. */
    val id: String,
    /** Its name for a person. */
    val name: String,
    /** The prefix of its tools, before the suffix of a clash (cetp.md 8.2). */
    val label: String,
    val authority: String,
    /** Changes when the app was replaced. */
    val fingerprint: String,
    /** Why it is skipped; empty when it is not. */
    val problem: String = "",
)

/** How a bridge finds and reaches apps. No method throws for what an app does; all may block. */
interface Transport {
    /** The apps that are declared now, also those that are skipped. */
    fun apps(): List<ProviderApp>

    /** The response of the app; without one, the error of cetp.md 2.6. */
    fun call(app: ProviderApp, method: String, extras: Map<String, String>?): CetpResponse

    /** Tries to make a sleeping app reachable: silently, or with its screen (cetp.md 8.5). */
    fun wake(app: ProviderApp, showsScreen: Boolean)

    /** Starts the app's own login for the person; an empty intent shows the app. */
    fun authorize(app: ProviderApp, intent: String)
}
