package org.handspan.test

import android.Manifest
import android.app.Activity
import android.app.Application
import android.util.Size
import org.handspan.client.Client
import org.handspan.client.Decision
import org.handspan.client.PermissionAnswer
import org.handspan.client.PermissionQuestion
import org.handspan.client.ToolError
import org.handspan.device.AndroidPermissions
import org.handspan.device.Camera
import org.handspan.device.DeviceTools
import org.handspan.device.PermissionFlow
import org.handspan.device.Quality
import org.handspan.device.Sensors
import org.handspan.device.choose
import org.handspan.device.findContacts
import org.json.JSONObject
import java.util.concurrent.FutureTask
import java.util.concurrent.TimeUnit
import java.util.function.BiConsumer
import java.util.function.Predicate
import kotlin.concurrent.thread

private const val CAMERA = Manifest.permission.CAMERA

private fun question(ms: Long = 60_000) = PermissionQuestion(CAMERA, "camera", "c1", JSONObject(), "General", ms)

/** A phone, an app with a screen, and a person who answers the system's dialog. */
private class Scene {
    val phone = FakePhone()
    val application = Application(phone)
    val permissions = AndroidPermissions(application)
    val flow = PermissionFlow(permissions)
    var dialogs = 0

    fun screen(): Activity {
        Activity.use(phone)
        return Activity().also { for (one in application.callbacks) one.onActivityResumed(it) }
    }

    /** [rationale]: what Android says after this answer. */
    fun person(allows: Boolean, rationale: Boolean) {
        Activity.onRequest = BiConsumer { activity, wanted ->
            dialogs++
            if (allows) phone.granted += wanted[0]
            Activity.rationale = Predicate { rationale }
            activity.onRequestPermissionsResult(1, wanted, intArrayOf(if (allows) 0 else -1))
        }
    }
}

private fun scene(work: Scene.() -> Unit) {
    Activity.rationale = Predicate { false }
    Scene().work()
}

fun Checks.permissions() {
    check("a permission that Android has granted needs no dialog and no screen") {
        scene {
            phone.granted += CAMERA
            expect(Decision.ALLOW, flow.ask(question(0))?.decision)
        }
    }
    check("the person allows it in the system's dialog") {
        scene {
            screen()
            person(allows = true, rationale = false)
            expect(Decision.ALLOW, flow.ask(question())?.decision)
            expect(1, dialogs)
        }
    }
    check("a plain no is asked again; a no that Android would not explain any more is for ever, and the settings are named") {
        scene {
            screen()
            person(allows = false, rationale = true)
            expect(Decision.DENY, flow.ask(question())?.decision)
            person(allows = false, rationale = false)
            val answer = flow.ask(question())
            expect(Decision.DENY_FOREVER, answer?.decision)
            claim("Settings, Apps" in answer!!.howToEnable && "CAMERA" in answer.howToEnable, answer.howToEnable)
            phone.granted += CAMERA // in the settings
            expect(Decision.ALLOW, flow.ask(question())?.decision)
            phone.granted.clear() // and taken back
            person(allows = true, rationale = false)
            expect(Decision.ALLOW, flow.ask(question())?.decision)
        }
    }
    check("a dialog that was closed without an answer is no refusal for ever, the first time") {
        scene {
            screen()
            person(allows = false, rationale = false)
            expect(Decision.DENY, flow.ask(question())?.decision)
            expect(Decision.DENY_FOREVER, flow.ask(question())?.decision)
        }
    }
    check("in the background the question waits for the person to come back, and then goes on") {
        scene {
            person(allows = true, rationale = false)
            val asking = FutureTask { flow.ask(question()) }
            val waiting = thread { asking.run() }
            while (waiting.state != Thread.State.TIMED_WAITING) Thread.onSpinWait()
            expect(0, dialogs)
            screen()
            expect(Decision.ALLOW, asking.get(60, TimeUnit.SECONDS)?.decision)
        }
    }
    check("a person who does not come back in time gives no answer, and a screen that went is no screen") {
        scene {
            val gone = screen()
            for (one in application.callbacks) one.onActivityStopped(gone)
            expect(null, flow.ask(question(1)))
            expect(0, dialogs)
        }
    }
}

fun Checks.deviceTools() {
    check("the four tools have the seed's schemas") {
        val specs = listOf(DeviceTools.DEVICE_INFO, DeviceTools.CAMERA, DeviceTools.CONTACTS, DeviceTools.SENSORS)
        expect(listOf("device_info", "camera", "contacts", "sensors"), specs.map { it.name })
        claim(specs.all { it.annotations?.readOnly == true }, "one writes")
        DeviceTools(FakePhone()) { PermissionAnswer(Decision.ALLOW) }.addTo(Client.builder("http://127.0.0.1:1")).build()
    }
    check("sensors give a value, or say what is missing") {
        val sensors = Sensors(FakePhone())
        expect(9.5f, sensors.read("accelerometer")["z"])
        claim("no gyroscope" in expectThrown<ToolError> { sensors.read("gyroscope") }.message!!, "no reason")
        expect(52.5, sensors.readPosition()["latitude"])
    }
    check("contacts are grouped by name") {
        val resolver = FakePhone().contentResolver
        expect(listOf(mapOf("name" to "Ann", "numbers" to listOf("1", "2"))), findContacts(resolver, "Ann"))
        expect(2, findContacts(resolver, "").size)
    }
    check("the camera at the back takes a photo, and is closed again") {
        val phone = FakePhone()
        val photo = Camera(phone).takePhoto("high")
        expect(listOf<Byte>(1, 2, 3), photo.data.toList())
        expect("image/jpeg" to "back", photo.mediaType to phone.cameras.opened)
        claim(phone.cameras.isClosed, "it is open")
    }
    check("a camera that can't be used says why") {
        val phone = FakePhone().apply { cameras = FakeCameras(ByteArray(0), error = 1) }
        val failed = expectThrown<ToolError> { Camera(phone).takePhoto("low") }
        expect("execution_failed" to "No photo: the camera failed with error 1", failed.code to failed.message)
        claim(phone.cameras.isClosed, "it is open")
    }
    check("a photo has the size that is nearest to the wanted quality") {
        val sizes = listOf(Size(320, 240), Size(1280, 960), Size(4000, 3000))
        expect(listOf(320, 1280, 1280), Quality.values().map { choose(sizes, it).width })
        expect(Quality.MEDIUM, Quality.of(""))
    }
}
