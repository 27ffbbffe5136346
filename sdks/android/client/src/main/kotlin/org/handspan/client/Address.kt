package org.handspan.client

import java.net.URI
import java.net.URISyntaxException

/** A gateway's address: http(s) or ws(s), with a path prefix, with or without `/ws/chat`. */
internal class Address(url: String) {
    private val uri: URI = try {
        URI(url)
    } catch (error: URISyntaxException) {
        throw IllegalArgumentException("'${url.take(200)}' is no gateway's address: write it like 'http://192.168.1.7:42617'")
    }
    private val isSecure = uri.scheme == "https" || uri.scheme == "wss"

    init {
        require(uri.scheme in SCHEMES && !uri.host.isNullOrEmpty()) {
            "This is no gateway's address: write it like 'http://192.168.1.7:42617'"
        }
        require(uri.rawUserInfo == null && uri.rawQuery == null && uri.rawFragment == null) {
            "A gateway's address has no user, query or fragment: give the token to authToken"
        }
    }

    /** The URL of the WebSocket (ws.md 1.1). */
    fun socket(): URI = at(if (isSecure) "wss" else "ws", SOCKET)

    /** The URL of a path below the prefix. */
    fun http(path: String): URI = at(if (isSecure) "https" else "http", path)

    override fun toString(): String = http("").toString()

    private fun at(scheme: String, path: String): URI {
        val prefix = (uri.rawPath ?: "").trimEnd('/').removeSuffix(SOCKET)
        return URI("$scheme://${uri.rawAuthority}$prefix$path")
    }

    private companion object {
        const val SOCKET = "/ws/chat"
        val SCHEMES = setOf("http", "https", "ws", "wss")
    }
}
