package org.handspan.bridge

import android.content.ActivityNotFoundException
import android.content.Context
import android.content.Intent
import android.content.pm.PackageManager
import android.content.pm.ServiceInfo
import android.os.Bundle
import android.os.DeadObjectException
import android.os.RemoteException
import android.os.SystemClock
import android.util.Log
import org.handspan.cetp.Cetp
import org.handspan.cetp.CetpCode
import org.handspan.cetp.CetpError
import org.handspan.cetp.CetpResponse

/** The apps of this phone: found by `PackageManager`, called by `ContentResolver` (cetp.md 7). */
class AndroidTransport(private val context: Context) : Transport {

    override fun apps(): List<ProviderApp> =
        context.packageManager.queryIntentServices(Intent(Cetp.ACTION), PackageManager.GET_META_DATA)
            .map { it.serviceInfo }
            .filter { it.packageName != context.packageName }
            .distinctBy { it.packageName }
            .map { read(it) }

    /**
     * An unstable reference: with a stable one, as of `ContentResolver.call`, Android ends this app too when the other one dies
     * in the middle (ActivityManagerService, `removeDyingProviderLocked`).
     */
    override fun call(app: ProviderApp, method: String, extras: Map<String, String>?): CetpResponse {
        val longest = extras?.values?.maxOfOrNull { it.length } ?: 0
        if (longest > Cetp.MAX_CHARACTERS) {
            val text = "the arguments have $longest characters, and Android carries ${Cetp.MAX_CHARACTERS} from app to app: send less"
            return CetpError(CetpCode.INVALID_ARGS, text)
        }
        val bundle = extras?.let { given -> Bundle().apply { given.forEach { (key, text) -> putString(key, text) } } }
        return try {
            val client = context.contentResolver.acquireUnstableContentProviderClient(app.authority)
                ?: return unanswered(app.id, "its content provider can't be reached")
            val answer = client.use { it.call(method, null, bundle) }
            // Null comes from an app that knows no calls, or that died while it answered.
            if (answer == null) unanswered(app.id, "it gave no answer") else readResponse { answer.getString(it) }
        } catch (refused: SecurityException) {
            val remedy = "Declare ${Cetp.PERMISSION} in this app's manifest"
            CetpError(CetpCode.PERMISSION_DENIED, "Android refused the call: ${refused.message}. $remedy")
        } catch (dead: DeadObjectException) { // also where the answer is larger than Android carries
            unanswered(app.id, "it ended while it answered")
        } catch (error: RemoteException) {
            unanswered(app.id, error.message ?: error.javaClass.simpleName)
        } catch (error: RuntimeException) { // what the other app threw
            unanswered(app.id, error.message ?: error.javaClass.simpleName)
        }
    }

    override fun wake(app: ProviderApp, showsScreen: Boolean) {
        if (!showsScreen) {
            reach(app)
            return
        }
        show(app)
        // Android does not tell when an app's process is there.
        for (attempt in 1..ATTEMPTS) {
            SystemClock.sleep(PAUSE_MS)
            if (reach(app)) return
        }
    }

    override fun authorize(app: ProviderApp, intent: String) {
        if (intent.isEmpty()) return show(app)
        try {
            context.startActivity(Intent(intent).setPackage(app.id).addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        } catch (missing: ActivityNotFoundException) {
            show(app)
        }
    }

    /** Whether Android gives us the app's content provider, for which it starts the app's process. */
    private fun reach(app: ProviderApp): Boolean = try {
        val client = context.contentResolver.acquireUnstableContentProviderClient(app.authority)
        client?.close()
        client != null
    } catch (error: RuntimeException) {
        Log.i(TAG, "${app.id} can't be reached", error)
        false
    }

    private fun show(app: ProviderApp) {
        val intent = context.packageManager.getLaunchIntentForPackage(app.id) ?: return
        try {
            context.startActivity(intent.addFlags(Intent.FLAG_ACTIVITY_NEW_TASK))
        } catch (error: RuntimeException) { // since Android 10 an app in the background may not
            Log.i(TAG, "${app.id} can't be shown", error)
        }
    }

    @Suppress("DEPRECATION") // the version may be a number or a text, and only `get` takes both
    private fun read(service: ServiceInfo): ProviderApp {
        val packages = context.packageManager
        val authority = service.metaData?.getString(Cetp.AUTHORITY) ?: ""
        val fingerprint = runCatching { packages.getPackageInfo(service.packageName, 0).lastUpdateTime.toString() }.getOrDefault("")
        val name = service.loadLabel(packages).toString()
        val label = labelOf(service.packageName.substringAfterLast('.'))
        val problem = problem(authority, service.metaData?.get(Cetp.VERSION))
        return ProviderApp(service.packageName, name, label, authority, fingerprint, problem)
    }

    private fun problem(authority: String, version: Any?): String {
        val number = if (version == null) 1 else version.toString().toIntOrNull() ?: 0
        return when {
            authority.isEmpty() -> "its meta-data ${Cetp.AUTHORITY} is missing"
            number < 1 -> "its meta-data ${Cetp.VERSION} is '$version': write 1"
            number > Cetp.PROTOCOL_VERSION -> "it speaks version $number of CETP, and only version 1 is known here"
            else -> ""
        }
    }

    private companion object {
        const val TAG = "handspan"
        const val ATTEMPTS = 5
        const val PAUSE_MS = 200L
    }
}
