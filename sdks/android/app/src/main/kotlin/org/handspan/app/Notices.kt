package org.handspan.app

import android.app.Notification
import android.app.NotificationChannel
import android.app.NotificationManager
import android.app.PendingIntent
import android.content.Context
import android.content.Intent
import android.graphics.drawable.Icon
import android.net.Uri
import org.handspan.app.screens.ChatActivity
import org.handspan.app.screens.MainActivity
import org.handspan.app.screens.QuestionActivity
import org.handspan.client.ChannelMessage
import org.handspan.client.ClientStatus
import org.handspan.client.PermissionQuestion
import java.util.concurrent.atomic.AtomicInteger

/** All notifications of the app. Those of the state are silent; a question comes up over what the person does. */
class Notices(private val context: Context) {
    private val shown = context.system<NotificationManager>()
    private val numbers = AtomicInteger(FIRST_MESSAGE)

    init {
        channel("state", R.string.channel_state, NotificationManager.IMPORTANCE_LOW)
        channel("questions", R.string.channel_questions, NotificationManager.IMPORTANCE_HIGH)
        channel("messages", R.string.channel_messages, NotificationManager.IMPORTANCE_DEFAULT)
    }

    /** The notification of the service: the state, and a button that disconnects. */
    fun ofState(state: DeviceState): Notification = builder("state", MainActivity::class.java)
        .setContentTitle(context.getString(titleOf(state.status)))
        .setContentText(if (state.status == ClientStatus.ONLINE) context.getString(R.string.state_label, state.text) else state.text)
        .setOngoing(true)
        .setCategory(Notification.CATEGORY_SERVICE)
        .addAction(action(R.string.disconnect, DeviceService.stopIntent(context)))
        .build()

    fun updateState(state: DeviceState) = shown.notify(STATE, ofState(state))

    /** Android has ended the service: a tap goes on. */
    fun showStopped() = shown.notify(
        STOPPED,
        builder("questions", MainActivity::class.java)
            .setContentTitle(context.getString(R.string.stopped_title))
            .setContentText(context.getString(R.string.stopped_text))
            .setAutoCancel(true)
            .build(),
    )

    /** A person has to answer: a tap leads to the question. */
    fun showQuestion(question: PermissionQuestion) = shown.notify(
        QUESTION,
        builder("questions", QuestionActivity::class.java)
            .setContentTitle(context.getString(R.string.question_title, question.tool))
            .setContentText(context.getString(R.string.question_text))
            .setCategory(Notification.CATEGORY_REMINDER)
            .setAutoCancel(true)
            .build(),
    )

    fun hideQuestion() = shown.cancel(QUESTION)

    /** What an agent writes to the person (ws.md 3.9). */
    fun showMessage(message: ChannelMessage) = shown.notify(
        numbers.incrementAndGet(),
        builder("messages", ChatActivity::class.java)
            .setContentTitle(context.getString(R.string.message_title))
            .setContentText(message.content)
            .setStyle(Notification.BigTextStyle().bigText(message.content))
            .setAutoCancel(true)
            .build(),
    )

    /** A link that an agent wants to open while no screen of the app is there: Android lets only the person open it. */
    fun showLink(link: Uri) = shown.notify(
        numbers.incrementAndGet(),
        Notification.Builder(context, "messages")
            .setSmallIcon(R.drawable.ic_hand)
            .setContentTitle(context.getString(R.string.link_title))
            .setContentText(link.toString())
            .setContentIntent(PendingIntent.getActivity(context, numbers.get(), Intent(Intent.ACTION_VIEW, link), FLAGS))
            .setAutoCancel(true)
            .build(),
    )

    private fun builder(channel: String, screen: Class<*>): Notification.Builder {
        val intent = Intent(context, screen).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK)
        return Notification.Builder(context, channel)
            .setSmallIcon(R.drawable.ic_hand)
            .setContentIntent(PendingIntent.getActivity(context, 0, intent, FLAGS))
    }

    private fun action(text: Int, intent: Intent): Notification.Action = Notification.Action.Builder(
        Icon.createWithResource(context, R.drawable.ic_hand),
        context.getString(text),
        PendingIntent.getService(context, 0, intent, FLAGS),
    ).build()

    private fun channel(id: String, name: Int, importance: Int) =
        shown.createNotificationChannel(NotificationChannel(id, context.getString(name), importance))

    companion object {
        /** The numbers of the notifications of which there is only one. */
        const val STATE = 1
        private const val QUESTION = 2
        private const val STOPPED = 3
        private const val FIRST_MESSAGE = 100
        private const val FLAGS = PendingIntent.FLAG_IMMUTABLE or PendingIntent.FLAG_UPDATE_CURRENT

        fun titleOf(status: ClientStatus): Int = when (status) {
            ClientStatus.ONLINE -> R.string.state_online
            ClientStatus.CONNECTING -> R.string.state_connecting
            ClientStatus.WAITING -> R.string.state_waiting
            ClientStatus.CLOSED -> R.string.state_closed
        }
    }
}
