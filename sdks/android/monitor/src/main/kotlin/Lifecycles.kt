package androidx.test.runner.lifecycle

import android.app.Activity

enum class Stage { PRE_ON_CREATE, CREATED, STARTED, RESUMED, PAUSED, STOPPED, RESTARTED, DESTROYED }

enum class ApplicationStage { PRE_ON_CREATE, CREATED }

fun interface ActivityLifecycleCallback {
    fun onActivityLifecycleChanged(activity: Activity, stage: Stage)
}

/** Which activities there are, and how far each is. */
interface ActivityLifecycleMonitor {
    fun addLifecycleCallback(callback: ActivityLifecycleCallback)
    fun removeLifecycleCallback(callback: ActivityLifecycleCallback)
    fun getLifecycleStageOf(activity: Activity): Stage
    fun getActivitiesInStage(stage: Stage): Collection<Activity>
}

interface ApplicationLifecycleMonitor

object ActivityLifecycleMonitorRegistry {
    private var monitor: ActivityLifecycleMonitor? = null

    @JvmStatic
    fun registerInstance(given: ActivityLifecycleMonitor?) {
        monitor = given
    }

    @JvmStatic
    fun getInstance(): ActivityLifecycleMonitor = checkNotNull(monitor) { "No app runs: this is no Robolectric test" }
}

object ApplicationLifecycleMonitorRegistry {
    @JvmStatic
    fun registerInstance(given: ApplicationLifecycleMonitor?) = Unit
}
