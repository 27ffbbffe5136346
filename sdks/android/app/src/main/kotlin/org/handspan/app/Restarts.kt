package org.handspan.app

import android.app.job.JobInfo
import android.app.job.JobParameters
import android.app.job.JobScheduler
import android.app.job.JobService
import android.content.BroadcastReceiver
import android.content.ComponentName
import android.content.Context
import android.content.Intent
import java.util.concurrent.TimeUnit

/** Connects again after a boot and after an update of the app. */
class StartReceiver : BroadcastReceiver() {
    override fun onReceive(context: Context, intent: Intent) {
        if (intent.action in ACTIONS) DeviceService.start(context)
    }

    private companion object {
        val ACTIONS = setOf(Intent.ACTION_BOOT_COMPLETED, Intent.ACTION_MY_PACKAGE_REPLACED)
    }
}

/** The last net: where a manufacturer's system has ended the service, it is started again, or the person is told. */
class RestartJob : JobService() {
    override fun onStartJob(params: JobParameters): Boolean {
        if (!parts.device.isOpen) DeviceService.start(this) else parts.device.retryNow()
        return false
    }

    override fun onStopJob(params: JobParameters): Boolean = false

    companion object {
        private const val ID = 1
        private val EVERY_MS = TimeUnit.MINUTES.toMillis(15) // the shortest that Android knows

        fun schedule(context: Context) {
            val jobs = context.system<JobScheduler>()
            if (jobs.getPendingJob(ID) != null) return
            val job = JobInfo.Builder(ID, ComponentName(context, RestartJob::class.java))
                .setPeriodic(EVERY_MS)
                .setRequiredNetworkType(JobInfo.NETWORK_TYPE_ANY)
                .setPersisted(true)
            jobs.schedule(job.build())
        }

        fun cancel(context: Context) = context.system<JobScheduler>().cancel(ID)
    }
}
