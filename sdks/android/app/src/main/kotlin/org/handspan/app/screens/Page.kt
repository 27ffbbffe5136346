package org.handspan.app.screens

import android.net.Uri
import android.net.http.SslCertificate
import android.net.http.SslError
import android.os.Build
import android.webkit.CookieManager
import android.webkit.WebStorage
import org.handspan.client.PairedGateway
import org.handspan.client.Trust
import java.security.GeneralSecurityException
import java.security.cert.CertificateFactory
import java.security.cert.X509Certificate

/** What the chat has to know of the gateway's page: which addresses are its own, and which certificate it may show. */
class Page(private val paired: PairedGateway) {
    private val home: Uri = Uri.parse(paired.url)

    val address: String get() = paired.url.trimEnd('/') + "/"

    /** Whether this address is the gateway's. All others are opened in the person's browser. */
    fun isOwn(link: Uri): Boolean = link.scheme == home.scheme && link.host == home.host && portOf(link) == portOf(home)

    /**
     * Whether a certificate that the phone does not trust is the one of this gateway: signed by the root that was paired with,
     * valid now and for this host. WebView asks only where nothing but the signer is wrong with it, so each other fault is a no.
     */
    fun trusts(error: SslError): Boolean {
        val root = (paired.trust as? Trust.Root)?.der ?: return false
        if (!isOwn(Uri.parse(error.url)) || error.primaryError != SslError.SSL_UNTRUSTED) return false
        return try {
            val shown = certificateOf(error.certificate) ?: return false
            shown.checkValidity()
            shown.verify(certificate(root).publicKey)
            home.host in namesOf(shown)
        } catch (refused: GeneralSecurityException) {
            false
        }
    }

    private fun namesOf(shown: X509Certificate): List<String> =
        shown.subjectAlternativeNames.orEmpty().mapNotNull { it[1] as? String }

    private fun certificateOf(shown: SslCertificate): X509Certificate? {
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) return shown.x509Certificate
        return SslCertificate.saveState(shown).getByteArray("x509-certificate")?.let { certificate(it) }
    }

    private fun certificate(der: ByteArray) = CertificateFactory.getInstance("X.509").generateCertificate(der.inputStream()) as X509Certificate

    private fun portOf(link: Uri): Int = if (link.port >= 0) link.port else if (link.scheme == "https") 443 else 80

    companion object {
        /** Whether this is a link that signs a browser in (`handspan pair --browser`). */
        fun isSignIn(text: String): Boolean = Regex("https?://[^?#\\s]+/signin\\?code=\\S+").matches(text.trim())

        fun forgetSignIn() {
            CookieManager.getInstance().removeAllCookies(null)
            WebStorage.getInstance().deleteAllData()
        }
    }
}
