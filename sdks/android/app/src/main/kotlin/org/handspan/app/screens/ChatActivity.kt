package org.handspan.app.screens

import android.Manifest
import android.annotation.SuppressLint
import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.ContentValues
import android.content.Intent
import android.content.pm.PackageManager
import android.net.Uri
import android.net.http.SslError
import android.os.Build
import android.os.Bundle
import android.provider.MediaStore
import android.view.KeyEvent
import android.view.View
import android.webkit.PermissionRequest
import android.webkit.SslErrorHandler
import android.webkit.ValueCallback
import android.webkit.WebChromeClient
import android.webkit.WebResourceRequest
import android.webkit.WebView
import android.webkit.WebViewClient
import android.widget.TextView
import org.handspan.app.R
import org.handspan.app.parts
import org.handspan.app.view
import org.handspan.client.PairedGateway
import org.handspan.client.signInLink
import kotlin.concurrent.thread

/** The gateway's own page. There is no second one to keep: files, photos and the camera of the phone are handed to it. */
class ChatActivity : Activity() {
    private lateinit var page: Page
    private lateinit var web: WebView
    private var files: ValueCallback<Array<Uri>>? = null
    private var photo: Uri? = null
    private var camera: PermissionRequest? = null

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val paired = parts.pairings.load() ?: return finish()
        setContentView(R.layout.chat)
        page = Page(paired)
        web = view<WebView>(R.id.web)
        prepare()
        if (savedInstanceState != null) web.restoreState(savedInstanceState) else open(paired, intent)
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        parts.pairings.load()?.let { if (intent.hasExtra(LINK)) open(it, intent) }
    }

    override fun onSaveInstanceState(outState: Bundle) {
        super.onSaveInstanceState(outState)
        if (::web.isInitialized) web.saveState(outState)
    }

    override fun onDestroy() {
        super.onDestroy()
        if (::web.isInitialized) web.destroy()
    }

    /** Back goes back in the page first. */
    override fun onKeyDown(keyCode: Int, event: KeyEvent): Boolean {
        if (keyCode != KeyEvent.KEYCODE_BACK || !::web.isInitialized || !web.canGoBack()) return super.onKeyDown(keyCode, event)
        web.goBack()
        return true
    }

    /** A sign-in link of this gateway; else the page, signed in by the phone's own token where it may do that. */
    private fun open(paired: PairedGateway, intent: Intent) {
        val link = intent.getStringExtra(LINK)
        if (link != null && page.isOwn(Uri.parse(link))) return web.loadUrl(link)
        if (link != null) return say(getString(R.string.other_gateway, link.substringBefore('?')))
        web.loadUrl(page.address)
        thread(name = "handspan-signin") {
            val own = signInLink(paired) ?: return@thread
            runOnUiThread { if (!isDestroyed) web.loadUrl(own) }
        }
    }

    @SuppressLint("SetJavaScriptEnabled") // the page is the gateway's own, and no other address is opened here
    private fun prepare() {
        web.settings.apply {
            javaScriptEnabled = true
            domStorageEnabled = true
            allowFileAccess = false
            allowContentAccess = false
        }
        web.webViewClient = Browser()
        web.webChromeClient = Extras()
    }

    private fun say(words: String) {
        view<TextView>(R.id.problem).apply {
            text = words
            visibility = View.VISIBLE
        }
    }

    private inner class Browser : WebViewClient() {
        override fun shouldOverrideUrlLoading(view: WebView, request: WebResourceRequest): Boolean {
            if (page.isOwn(request.url)) return false
            if (request.url.scheme in OUTSIDE) start(Intent(Intent.ACTION_VIEW, request.url))
            return true
        }

        @SuppressLint("WebViewClientOnReceivedSslError") // only for the root that was paired with
        override fun onReceivedSslError(view: WebView, handler: SslErrorHandler, error: SslError) {
            if (page.trusts(error)) return handler.proceed()
            handler.cancel()
            say(getString(R.string.wrong_certificate, error.url.substringBefore('?')))
        }
    }

    private inner class Extras : WebChromeClient() {
        override fun onShowFileChooser(view: WebView, chosen: ValueCallback<Array<Uri>>, params: FileChooserParams): Boolean {
            files?.onReceiveValue(null)
            files = chosen
            val choose = if (params.isCaptureEnabled) photoIntent() ?: params.createIntent() else params.createIntent()
            if (!start(choose, FILES)) {
                files = null
                return false // the page's field is as it was
            }
            return true
        }

        override fun onPermissionRequest(request: PermissionRequest) {
            val wanted = request.resources.filter { it == PermissionRequest.RESOURCE_VIDEO_CAPTURE }
            if (wanted.isEmpty() || !page.isOwn(request.origin)) return request.deny()
            if (checkSelfPermission(Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED) return request.grant(wanted.toTypedArray())
            camera = request
            requestPermissions(arrayOf(Manifest.permission.CAMERA), CAMERA)
        }

        override fun onPermissionRequestCanceled(request: PermissionRequest) {
            if (camera === request) camera = null
        }
    }

    override fun onRequestPermissionsResult(code: Int, permissions: Array<String>, results: IntArray) {
        val request = camera ?: return
        camera = null
        if (results.firstOrNull() == PackageManager.PERMISSION_GRANTED) {
            request.grant(arrayOf(PermissionRequest.RESOURCE_VIDEO_CAPTURE))
        } else {
            request.deny()
        }
    }

    /** A new photo goes into the phone's pictures, where the camera app may write since Android 10. */
    private fun photoIntent(): Intent? {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.Q) return null
        photo = contentResolver.insert(MediaStore.Images.Media.EXTERNAL_CONTENT_URI, ContentValues().apply {
            put(MediaStore.Images.Media.MIME_TYPE, "image/jpeg")
        }) ?: return null
        return Intent(MediaStore.ACTION_IMAGE_CAPTURE).putExtra(MediaStore.EXTRA_OUTPUT, photo)
    }

    override fun onActivityResult(requestCode: Int, resultCode: Int, data: Intent?) {
        if (requestCode != FILES) return super.onActivityResult(requestCode, resultCode, data)
        val taken = photo
        photo = null
        val chosen = if (taken != null && resultCode == RESULT_OK) arrayOf(taken) else WebChromeClient.FileChooserParams.parseResult(resultCode, data)
        if (taken != null && resultCode != RESULT_OK) contentResolver.delete(taken, null, null)
        files?.onReceiveValue(chosen)
        files = null
    }

    private fun start(intent: Intent, code: Int = -1): Boolean = try {
        startActivityForResult(intent, code)
        true
    } catch (missing: ActivityNotFoundException) {
        false
    }

    companion object {
        /** A sign-in link that the person opened or shared. */
        const val LINK = "link"
        private const val FILES = 1
        private const val CAMERA = 2
        private val OUTSIDE = setOf("https", "http", "mailto")
    }
}
