package org.handspan.client

import org.handspan.json.JsonError
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONArray
import org.json.JSONObject
import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.URI
import java.net.URLEncoder
import javax.net.ssl.HttpsURLConnection
import javax.net.ssl.SSLSocketFactory

private const val TIMEOUT_MS = 60_000
private const val MAX_ANSWER = 64 * 1024

/** The gateway of a link, and the token that it gave. Keep the token: the link works once. */
class PairedGateway(val url: String, val token: String)

/** Uploads bytes to the gateway; returns the id of the artifact (ws.md 5.10). Throws [ToolError]. */
internal fun upload(address: Address, token: String, tls: SSLSocketFactory?, file: MediaFile): String {
    val query = if (file.name.isEmpty()) "" else "?name=${URLEncoder.encode(file.name.takeLast(200), "UTF-8")}"
    val (status, body) = try {
        post(address.http("/api/artifacts$query"), file.mediaType, file.data, token, tls)
    } catch (error: IOException) {
        throw ToolError("network_error", "The tool ran, but its result could not be uploaded: ${error.message}.")
    }
    if (status !in 200..299) {
        val text = "The tool ran, but the gateway did not take its result of ${file.data.size} bytes: $status ${body.take(200)}"
        throw ToolError("execution_failed", text)
    }
    return idIn(body).ifEmpty {
        throw ToolError("execution_failed", "The tool ran, but $address did not name the artifact of its result: is it a gateway?")
    }
}

/**
 * Exchanges a pairing link (the text of the gateway's QR code) for a token. Blocks: call it on no main thread.
 * Throws `IllegalArgumentException` for another text, and `IOException` when the gateway does not answer or refuses the code.
 */
fun pair(link: String, label: String = "", tls: SSLSocketFactory? = null): PairedGateway {
    val (url, code) = readPairingLink(link)
    val body = JSONObject().put("code", code).put("label", label).put("scopes", JSONArray(listOf("device"))).toString()
    val (status, answer) = post(Address(url).http("/pair"), "application/json", body.toByteArray(), "", tls)
    if (status != 200) throw IOException("$url refuses the code: ${answer.take(300)}")
    return PairedGateway(url, parse(answer)?.text("token") ?: "")
}

/** The gateway's address and the code of a pairing link. */
internal fun readPairingLink(link: String): Pair<String, String> {
    val found = Regex("(https?://[^?#]+?)/(?:device|pair)/?#(?:.*&)?code=([^&]+).*").matchEntire(link.trim())
    requireNotNull(found) { "This is no pairing link: it looks like 'https://192.168.1.7:42617/device#code=1234-5678-9012'" }
    return found.groupValues[1] to found.groupValues[2]
}

private fun post(url: URI, type: String, data: ByteArray, token: String, tls: SSLSocketFactory?): Pair<Int, String> {
    val connection = url.toURL().openConnection() as HttpURLConnection
    if (tls != null && connection is HttpsURLConnection) connection.sslSocketFactory = tls
    try {
        connection.requestMethod = "POST"
        connection.connectTimeout = TIMEOUT_MS
        connection.readTimeout = TIMEOUT_MS
        connection.doOutput = true
        connection.instanceFollowRedirects = false
        connection.setRequestProperty("Content-Type", type)
        if (token.isNotEmpty()) connection.setRequestProperty("Authorization", "Bearer $token")
        connection.setFixedLengthStreamingMode(data.size)
        connection.outputStream.use { it.write(data) }
        val status = connection.responseCode
        val stream: InputStream? = if (status < 400) connection.inputStream else connection.errorStream
        return status to (stream?.use { readSome(it) } ?: "")
    } finally {
        connection.disconnect()
    }
}

private fun readSome(stream: InputStream): String {
    val bytes = ByteArray(MAX_ANSWER)
    var size = 0
    while (size < bytes.size) {
        val more = stream.read(bytes, size, bytes.size - size)
        if (more < 0) break
        size += more
    }
    return String(bytes, 0, size, Charsets.UTF_8)
}

private fun idIn(body: String): String = parse(body)?.text("id") ?: ""

private fun parse(body: String): JSONObject? = try {
    parseObject(body)
} catch (error: JsonError) {
    null
}
