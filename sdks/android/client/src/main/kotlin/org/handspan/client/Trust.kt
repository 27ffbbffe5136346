package org.handspan.client

import okhttp3.OkHttpClient
import java.io.IOException
import java.security.KeyStore
import java.security.MessageDigest
import java.security.cert.CertificateException
import java.security.cert.CertificateFactory
import java.security.cert.X509Certificate
import java.util.Base64
import javax.net.ssl.SSLContext
import javax.net.ssl.TrustManagerFactory
import javax.net.ssl.X509TrustManager

/** Which certificates a client takes. The host's name is checked in any case. */
sealed class Trust {
    internal abstract fun apply(builder: OkHttpClient.Builder)

    /** Those that the phone trusts. */
    object System : Trust() {
        override fun apply(builder: OkHttpClient.Builder) = Unit
    }

    /**
     * Those that this root has signed, and no others: the root that a gateway made for itself (`handspan serve --tls`).
     *
     *     val paired = pair(link)                              // the link names the root's fingerprint
     *     Client.builder(paired.url).authToken(paired.token).trust(paired.trust)
     */
    class Root(
        /** The certificate, as `/device/root.crt` gives it. Keep it beside the token. */
        val der: ByteArray,
    ) : Trust() {
        private val certificate: X509Certificate = try {
            CertificateFactory.getInstance("X.509").generateCertificate(der.inputStream()) as X509Certificate
        } catch (error: CertificateException) {
            throw IllegalArgumentException("This is no certificate: ${error.message}")
        }

        /** The SHA-256 in the form that `handspan serve` shows. */
        val fingerprint: String get() = sha256(der).joinToString(":") { "%02X".format(it) }

        internal val pin: String get() = pinOf(der)

        override fun apply(builder: OkHttpClient.Builder) {
            val store = KeyStore.getInstance(KeyStore.getDefaultType()).apply {
                load(null)
                setCertificateEntry("gateway", certificate)
            }
            val found = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()).apply { init(store) }
            val manager = found.trustManagers.filterIsInstance<X509TrustManager>().first()
            builder.sslSocketFactory(contextOf(manager).socketFactory, manager)
        }
    }

    /**
     * Every certificate, for the one request that fetches the root: what it gets counts only when its fingerprint is the one
     * of the link, which the person has seen on the gateway's screen.
     */
    internal object Unchecked : Trust() {
        override fun apply(builder: OkHttpClient.Builder) {
            val manager = AnyCertificate()
            builder.sslSocketFactory(contextOf(manager).socketFactory, manager).hostnameVerifier { _, _ -> true }
        }
    }
}

/** Fetches the root of the gateway at this address. Throws `IOException` unless it has the fingerprint of the link. */
internal fun fetchRoot(address: Address, pin: String): Trust.Root {
    val answer = Http(Trust.Unchecked).use { it.get(address.http("/device/root.crt").toString()) }
    if (answer.status != 200) throw IOException("$address has no root certificate of its own (${answer.status}): ask for a new link")
    if (pinOf(answer.body) != pin) {
        throw IOException("$address shows another certificate than the link names: another computer may have answered. Nothing was sent.")
    }
    return Trust.Root(answer.body)
}

private class AnyCertificate : X509TrustManager {
    override fun checkClientTrusted(chain: Array<X509Certificate>, kind: String) = Unit

    override fun checkServerTrusted(chain: Array<X509Certificate>, kind: String) = Unit

    override fun getAcceptedIssuers(): Array<X509Certificate> = emptyArray()
}

private fun contextOf(manager: X509TrustManager) = SSLContext.getInstance("TLS").apply { init(null, arrayOf(manager), null) }

private fun sha256(data: ByteArray): ByteArray = MessageDigest.getInstance("SHA-256").digest(data)

private fun pinOf(der: ByteArray): String = Base64.getUrlEncoder().withoutPadding().encodeToString(sha256(der))
