package androidx.test.platform.app

import android.app.Instrumentation
import android.os.Bundle

/** The instrumentation that Robolectric runs an app with. */
object InstrumentationRegistry {
    private var running: Instrumentation? = null

    @JvmStatic
    fun registerInstance(instrumentation: Instrumentation?, arguments: Bundle?) {
        running = instrumentation
    }

    @JvmStatic
    fun getInstrumentation(): Instrumentation = checkNotNull(running) { "No app runs: this is no Robolectric test" }
}
