package androidx.test.runner.intent

import android.app.Instrumentation
import android.content.Intent

/** Is told of every intent that starts something. */
interface IntentMonitor

/** Answers an intent in place of the app that would get it. */
fun interface IntentStubber {
    fun getActivityResultForIntent(intent: Intent): Instrumentation.ActivityResult?
}

object IntentMonitorRegistry {
    @JvmStatic
    fun registerInstance(monitor: IntentMonitor) = Unit
}

/** Without a stubber Robolectric answers itself. */
object IntentStubberRegistry {
    @JvmStatic
    fun isLoaded(): Boolean = false

    @JvmStatic
    fun getInstance(): IntentStubber = throw IllegalStateException("There is no stubber")
}
