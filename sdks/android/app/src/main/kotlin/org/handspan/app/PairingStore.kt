package org.handspan.app

import org.handspan.client.FileState
import org.handspan.client.PairedGateway
import org.handspan.client.Trust
import org.handspan.json.JsonError
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject
import java.io.File
import java.io.IOException
import java.security.GeneralSecurityException
import java.security.ProviderException
import java.util.Base64

/** The gateway that this phone belongs to: kept outside of backups, its token sealed. */
class PairingStore(private val file: File, private val vault: Vault) {

    /** The gateway; null when the phone has none, or its token can't be read any more. */
    @Synchronized
    fun load(): PairedGateway? = try {
        FileState(file).load()?.let { read(parseObject(it)) }
    } catch (broken: JsonError) {
        null
    } catch (lost: GeneralSecurityException) {
        null
    } catch (broken: IllegalArgumentException) {
        null
    } catch (broken: IOException) {
        null
    } catch (broken: ProviderException) { // Android's Keystore itself is in trouble
        null
    }

    /** Keeps the gateway, in place of the one before. Throws `IOException`, also where Android can keep no secret. */
    @Synchronized
    fun save(paired: PairedGateway) {
        val kept = JSONObject().put("url", paired.url).put("token", seal(paired.token))
        (paired.trust as? Trust.Root)?.let { kept.put("root", Base64.getEncoder().encodeToString(it.der)) }
        FileState(file).save(kept.toString())
    }

    @Synchronized
    fun forget() {
        file.delete()
    }

    private fun seal(token: String): String = try {
        vault.seal(token)
    } catch (refused: GeneralSecurityException) {
        throw IOException("Android's Keystore does not work: restart the phone", refused)
    } catch (broken: ProviderException) {
        throw IOException("Android's Keystore does not work: restart the phone", broken)
    }

    private fun read(kept: JSONObject): PairedGateway {
        val root = kept.text("root")
        val trust = if (root.isEmpty()) Trust.System else Trust.Root(Base64.getDecoder().decode(root))
        return PairedGateway(kept.text("url"), vault.open(kept.text("token")), trust)
    }
}
