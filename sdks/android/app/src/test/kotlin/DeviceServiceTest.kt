package org.handspan.test

import android.Manifest
import android.app.Notification
import android.app.NotificationManager
import android.app.job.JobScheduler
import android.content.Intent
import android.content.pm.ServiceInfo
import org.handspan.app.DeviceService
import org.handspan.app.Notices
import org.handspan.app.RestartJob
import org.handspan.app.StartReceiver
import org.handspan.app.system
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ServiceController
import org.robolectric.annotation.Config

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class DeviceServiceTest {
    private fun wanted() {
        pairWith()
        parts.settings.isWanted = true
    }

    private fun run(intent: Intent = Intent(app, DeviceService::class.java)): ServiceController<DeviceService> =
        Robolectric.buildService(DeviceService::class.java, intent).create().startCommand(0, 1)

    private fun jobs() = app.system<JobScheduler>().allPendingJobs.size

    @Test
    fun `it connects in the foreground, with the state and a button that disconnects`() {
        wanted()
        val service = run()
        val shown = shadowOf(service.get())
        assertEquals(Notices.STATE, shown.lastForegroundNotificationId)
        assertEquals(listOf("Disconnect"), shown.lastForegroundNotification.actions.map { it.title.toString() })
        assertTrue(shown.lastForegroundNotification.flags and Notification.FLAG_ONGOING_EVENT != 0)
        assertTrue(parts.device.isOpen)
        assertEquals("a net for systems that end it", 1, jobs())
        service.destroy()
        assertFalse(parts.device.isOpen)
    }

    @Test
    fun `its type never ends by the clock, and camera and place are added with a screen and the permissions`() {
        wanted()
        shadowOf(app).grantPermissions(Manifest.permission.CAMERA, Manifest.permission.ACCESS_COARSE_LOCATION)
        assertEquals(ServiceInfo.FOREGROUND_SERVICE_TYPE_CONNECTED_DEVICE, run().get().foregroundServiceType)
        assertTrue(DeviceService.start(app, withScreen = true))
        val all = ServiceInfo.FOREGROUND_SERVICE_TYPE_CONNECTED_DEVICE or ServiceInfo.FOREGROUND_SERVICE_TYPE_CAMERA or
            ServiceInfo.FOREGROUND_SERVICE_TYPE_LOCATION
        assertEquals(all, run(shadowOf(app).nextStartedService).get().foregroundServiceType)
    }

    @Test
    fun `stop means stop`() {
        wanted()
        val service = run()
        service.withIntent(DeviceService.stopIntent(app)).startCommand(0, 2)
        assertTrue(shadowOf(service.get()).isStoppedBySelf)
        service.destroy()
        assertFalse(parts.settings.isWanted || parts.device.isOpen)
        assertEquals(0, jobs())
        StartReceiver().onReceive(app, Intent(Intent.ACTION_BOOT_COMPLETED))
        assertNull("not after a boot either", shadowOf(app).nextStartedService)
    }

    @Test
    fun `without a gateway it does not stay`() {
        parts.settings.isWanted = true
        val service = run()
        assertTrue(shadowOf(service.get()).isStoppedBySelf)
        assertFalse(parts.device.isOpen)
    }

    @Test
    fun `a boot and an update start it, other broadcasts do not`() {
        wanted()
        for (action in listOf(Intent.ACTION_BOOT_COMPLETED, Intent.ACTION_MY_PACKAGE_REPLACED)) {
            StartReceiver().onReceive(app, Intent(action))
            assertNotNull(action, shadowOf(app).nextStartedService)
        }
        StartReceiver().onReceive(app, Intent("com.example.OTHER"))
        assertNull(shadowOf(app).nextStartedService)
    }

    @Test
    fun `the job starts it again`() {
        wanted()
        Robolectric.buildService(RestartJob::class.java).create().get().onStartJob(shadowOfParameters())
        assertEquals(DeviceService::class.java.name, shadowOf(app).nextStartedService.component!!.className)
    }

    @Test
    fun `a limit of Android ends it with a word to the person`() {
        wanted()
        val service = run()
        service.get().onTimeout(1, ServiceInfo.FOREGROUND_SERVICE_TYPE_CONNECTED_DEVICE)
        assertTrue(shadowOf(service.get()).isStoppedBySelf)
        val shown = shadowOf(app.system<NotificationManager>()).allNotifications.map { shadowOf(it).contentTitle.toString() }
        assertTrue(shown.toString(), "Android has stopped Handspan" in shown)
    }

    private fun shadowOfParameters() = org.robolectric.shadow.api.Shadow.newInstanceOf(android.app.job.JobParameters::class.java)
}
