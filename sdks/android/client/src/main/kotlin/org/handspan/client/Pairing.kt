package org.handspan.client

import org.handspan.json.JsonError
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONArray
import org.json.JSONObject
import java.io.IOException
import java.net.URLDecoder
import java.net.URLEncoder

/** The gateway of a link, the token that it gave, and whom to trust there. Keep all three: the link works once. */
class PairedGateway(val url: String, val token: String, val trust: Trust)

/** What a pairing link says. [pin]: the fingerprint of the gateway's own root; empty where the phone trusts it anyway. */
class PairingLink internal constructor(val url: String, internal val code: String, internal val pin: String) {
    /** Whether others in the network can read what is sent. */
    val isPlain: Boolean get() = url.startsWith("http:")

    companion object {
        /**
         * Reads `https://HOST/device#code=…` (the text of the gateway's QR code) or `handspan://pair?url=…&code=…`.
         * Throws `IllegalArgumentException` for another text.
         */
        @JvmStatic
        fun read(text: String): PairingLink {
            val link = text.trim()
            val own = link.removePrefix("handspan://pair?").takeIf { it.length < link.length }
            val found = WEB.matchEntire(link)
            val fields = fieldsOf(own ?: found?.groupValues?.get(2) ?: "")
            val url = if (own != null) fields["url"] else found?.groupValues?.get(1)
            val code = fields["code"]
            require(!url.isNullOrEmpty() && !code.isNullOrEmpty()) {
                "This is no pairing link: it looks like 'https://192.168.1.7:42617/device#code=1234-5678-9012'"
            }
            Address(url) // throws for what is no address
            return PairingLink(url, code, fields["root"] ?: "")
        }

        private val WEB = Regex("(https?://[^?#]+?)/(?:device|pair)/?#(.*)")

        private fun fieldsOf(text: String): Map<String, String> = text.split('&').filter { '=' in it }
            .associate { it.substringBefore('=') to URLDecoder.decode(it.substringAfter('='), "UTF-8") }
    }
}

/**
 * Exchanges a pairing link for a token. It waits for the gateway, so call it on a thread of yours.
 * Throws `IllegalArgumentException` for another text, and `IOException` when the gateway does not answer, is not the one of the
 * link, or refuses the code. [scopes]: what the token may do, as far as the code gives it.
 */
fun pair(link: String, label: String = "", scopes: List<String> = listOf("device")): PairedGateway =
    pair(PairingLink.read(link), label, scopes)

fun pair(link: PairingLink, label: String = "", scopes: List<String> = listOf("device")): PairedGateway {
    val address = Address(link.url)
    val trust = if (link.pin.isEmpty() || link.isPlain) Trust.System else fetchRoot(address, link.pin)
    val body = JSONObject().put("code", link.code).put("label", label).put("scopes", JSONArray(scopes)).toString()
    val answer = Http(trust).use { it.post(address.http("/pair").toString(), "application/json", body.toByteArray(), "") }
    if (answer.status != 200) throw IOException("${link.url} refuses the code: ${answer.text.take(300)}")
    val token = parse(answer.text)?.text("token") ?: ""
    if (token.isEmpty()) throw IOException("${link.url} gave no token: is it a gateway?")
    return PairedGateway(link.url, token, trust)
}

/** Uploads bytes to the gateway; returns the id of the artifact (ws.md 5.10). Throws [ToolError]. */
internal fun upload(http: Http, address: Address, token: String, file: MediaFile): String {
    val query = if (file.name.isEmpty()) "" else "?name=${URLEncoder.encode(file.name.takeLast(200), "UTF-8")}"
    val answer = try {
        http.post(address.http("/api/artifacts$query").toString(), file.mediaType, file.data, token)
    } catch (error: IOException) {
        throw ToolError("network_error", "The tool ran, but its result could not be uploaded: ${error.message}.")
    }
    if (answer.status !in 200..299) {
        val what = "its result of ${file.data.size} bytes: ${answer.status} ${answer.text.take(200)}"
        throw ToolError("execution_failed", "The tool ran, but the gateway did not take $what")
    }
    return parse(answer.text)?.text("id")?.ifEmpty { null }
        ?: throw ToolError("execution_failed", "The tool ran, but $address did not name the artifact of its result: is it a gateway?")
}

private fun parse(body: String): JSONObject? = try {
    parseObject(body)
} catch (error: JsonError) {
    null
}

/** A link that signs a browser in at the gateway as the token's owner; null where the token may not make one. Waits for the gateway. */
fun signInLink(paired: PairedGateway): String? {
    val address = Address(paired.url)
    val answer = try {
        Http(paired.trust).use { it.post(address.http("/api/signin").toString(), "application/json", "{}".toByteArray(), paired.token) }
    } catch (error: IOException) {
        return null
    }
    val link = if (answer.status == 201) parse(answer.text)?.text("url").orEmpty() else ""
    // The gateway names itself as it sees itself; the phone knows it under another address, perhaps.
    return if ("code=" in link) address.http("/signin?code=${link.substringAfter("code=")}").toString() else null
}
