package org.handspan.client

/** What an agent writes to the person with the tool `message`, outside of any answer (ws.md 3.9). */
class ChannelMessage(
    /** The channel's name in the gateway's settings. */
    val channel: String,
    /** The session that it is for, or `all`. */
    val chatId: String,
    val content: String,
)

/** Shows a message to the person, on a thread of the client that must not wait. What it throws changes nothing. */
fun interface ShowMessage {
    fun show(message: ChannelMessage)
}
