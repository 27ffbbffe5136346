package androidx.test.internal.runner.lifecycle

import android.app.Activity
import android.app.Application
import androidx.test.runner.lifecycle.ActivityLifecycleCallback
import androidx.test.runner.lifecycle.ActivityLifecycleMonitor
import androidx.test.runner.lifecycle.ApplicationLifecycleMonitor
import androidx.test.runner.lifecycle.ApplicationStage
import androidx.test.runner.lifecycle.Stage
import java.util.concurrent.CopyOnWriteArrayList

/** Notes the stage of each activity, and tells those who asked. */
class ActivityLifecycleMonitorImpl : ActivityLifecycleMonitor {
    private val stages = LinkedHashMap<Activity, Stage>()
    private val callbacks = CopyOnWriteArrayList<ActivityLifecycleCallback>()

    fun signalLifecycleChange(stage: Stage, activity: Activity) {
        synchronized(stages) { if (stage == Stage.DESTROYED) stages.remove(activity) else stages[activity] = stage }
        callbacks.forEach { it.onActivityLifecycleChanged(activity, stage) }
    }

    override fun addLifecycleCallback(callback: ActivityLifecycleCallback) {
        callbacks += callback
    }

    override fun removeLifecycleCallback(callback: ActivityLifecycleCallback) {
        callbacks -= callback
    }

    override fun getLifecycleStageOf(activity: Activity): Stage = synchronized(stages) { stages[activity] ?: Stage.DESTROYED }

    override fun getActivitiesInStage(stage: Stage): Collection<Activity> =
        synchronized(stages) { stages.filterValues { it == stage }.keys.toList() }
}

class ApplicationLifecycleMonitorImpl : ApplicationLifecycleMonitor {
    fun signalLifecycleChange(application: Application, stage: ApplicationStage) = Unit
}
