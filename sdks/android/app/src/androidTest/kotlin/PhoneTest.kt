package org.handspan.app

import android.content.Intent
import android.test.InstrumentationTestCase
import org.handspan.app.screens.MainActivity

/** What only a phone or an emulator can show: the Keystore, the service's types, the screens with Android's own classes. */
class PhoneTest : InstrumentationTestCase() {
    private val context get() = instrumentation.targetContext

    fun testTheKeystoreSealsAndOpens() {
        val vault = KeystoreVault()
        val sealed = vault.seal("a secret")
        assertFalse("a secret" in sealed)
        assertEquals("a secret", vault.open(sealed))
    }

    fun testTheFirstScreenComesUp() {
        val intent = Intent(context, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK)
        val screen = instrumentation.startActivitySync(intent)
        instrumentation.waitForIdleSync()
        assertNotNull(screen.findViewById<android.view.View>(R.id.connected))
        screen.finish()
    }

    fun testTheServiceBeginsInTheForegroundAndStops() {
        context.parts.pairings.save(org.handspan.client.PairedGateway("http://127.0.0.1:1", "token", org.handspan.client.Trust.System))
        context.parts.settings.isWanted = true
        // With a screen: Android lets no service begin from the background.
        val screen = instrumentation.startActivitySync(Intent(context, MainActivity::class.java).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        assertTrue(DeviceService.start(context))
        await { context.parts.device.isOpen }
        DeviceService.stop(context)
        await { !context.parts.device.isOpen }
        screen.finish()
    }

    private fun await(holds: () -> Boolean) {
        val end = System.nanoTime() + 30_000_000_000
        while (!holds()) {
            assertTrue(System.nanoTime() < end)
            Thread.sleep(50)
        }
    }
}
