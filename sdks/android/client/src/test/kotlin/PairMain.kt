package org.handspan.test

import org.handspan.client.Backoff
import org.handspan.client.Client
import org.handspan.client.ClientListener
import org.handspan.client.ClientStatus
import org.handspan.client.ToolCallResult
import org.handspan.client.ToolSpec
import org.handspan.client.Trust
import org.handspan.client.pair
import org.handspan.client.signInLink
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import java.io.IOException

@Synchronized
private fun tell(event: String, text: String = "") = println(JSONObject().put("event", event).put("text", text).toString())

/** Pairs by the links that it reads, a line each, and connects with what it got. */
fun main() {
    for (line in generateSequence(::readlnOrNull)) {
        try {
            serve(parseObject(line).text("link"))
        } catch (refused: IOException) {
            tell("refused", refused.message.orEmpty())
        }
    }
}

private fun serve(link: String) {
    val paired = pair(link, "phone", listOf("device", "admin"))
    tell("paired", (paired.trust as? Trust.Root)?.fingerprint.orEmpty())
    tell("sign_in", signInLink(paired).orEmpty())
    Client.builder(paired.url).authToken(paired.token).trust(paired.trust).device("phone").reconnectPolicy(Backoff(10, 50))
        .registerTool(ToolSpec("ping", "Ping")) { ToolCallResult.Success("pong") }
        .listener(object : ClientListener {
            override fun onState(status: ClientStatus, text: String) = tell(status.name.lowercase(), text)
        })
        .build()
        .start()
}
