package org.handspan.test

import android.content.Intent
import android.net.Uri
import org.handspan.app.DeviceService
import org.handspan.app.R
import org.handspan.app.screens.MainActivity
import org.handspan.app.screens.PairActivity
import org.handspan.app.screens.QuestionActivity
import org.handspan.app.screens.ToolsActivity
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import org.junit.Assume.assumeTrue
import org.junit.Test
import org.junit.runner.JUnitCore
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import org.robolectric.android.controller.ServiceController
import org.robolectric.annotation.Config
import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.system.exitProcess

/** The whole app at a real gateway. It does what a person would do, by lines of JSON, until its input ends. */
fun main() {
    System.setProperty(STARTED, "yes")
    val result = JUnitCore().run(WholeApp::class.java)
    result.failures.forEach { System.err.println(it.trace) }
    exitProcess(if (result.wasSuccessful()) 0 else 1)
}

/** Set by `main`: a run of all tests leaves this out. */
private const val STARTED = "handspan.main"

@Synchronized
private fun tell(event: String, text: String = "") = println(JSONObject().put("event", event).put("text", text).toString())

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35], application = SceneApp::class)
class WholeApp {
    private var service: ServiceController<DeviceService>? = null
    private var question: ActivityController<QuestionActivity>? = null

    @Test
    fun runs() {
        assumeTrue("a person or a test starts it", System.getProperty(STARTED) != null)
        tell("ready")
        val orders = LinkedBlockingQueue<String>()
        thread(isDaemon = true) {
            generateSequence(::readlnOrNull).forEach(orders::put)
            orders.put("end")
        }
        while (true) {
            val order = orders.poll(5, TimeUnit.MILLISECONDS)
            live()
            if (order == "end") break
            if (order != null) obey(parseObject(order))
        }
        parts.device.close()
    }

    /** What Android does for an app: its main thread works, and the services and screens that it starts come up. */
    private fun live() {
        idle()
        while (true) {
            val started = shadowOf(app).nextStartedService ?: break
            val running = service ?: Robolectric.buildService(DeviceService::class.java, started).create().also { service = it }
            running.withIntent(started).startCommand(0, 1)
        }
        if (shadowOf(app).nextStoppedService != null || service?.let { shadowOf(it.get()).isStoppedBySelf } == true) {
            service?.destroy()
            service = null
        }
        while (true) {
            val screen = nextStarted() ?: break
            if (screen.component?.className != QuestionActivity::class.java.name) continue
            question = Robolectric.buildActivity(QuestionActivity::class.java, screen).setup()
            tell("question", question!!.get().text(R.id.title))
        }
    }

    private fun obey(order: JSONObject) {
        when (order.text("do")) {
            "pair" -> {
                val link = Intent(Intent.ACTION_VIEW, Uri.parse(order.text("link")))
                Robolectric.buildActivity(PairActivity::class.java, link).setup().get().press(R.id.pair)
            }
            "switch" -> {
                val screen = Robolectric.buildActivity(ToolsActivity::class.java).setup()
                parts.device.switchTool(order.text("tool"), order.opt("on") == true)
                screen.pause().stop().destroy()
            }
            "answer" -> question!!.get().press(if (order.text("says") == "no") R.id.no else R.id.once)
            "state" -> {
                val screen = Robolectric.buildActivity(MainActivity::class.java).setup()
                idle()
                tell("state", screen.get().text(R.id.state))
                screen.pause().stop().destroy()
            }
            "disconnect" -> DeviceService.stop(app)
        }
    }
}
