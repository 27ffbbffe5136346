package org.handspan.app

import android.security.keystore.KeyGenParameterSpec
import android.security.keystore.KeyProperties
import java.security.GeneralSecurityException
import java.security.Key
import java.security.KeyStore
import java.util.Base64
import javax.crypto.Cipher
import javax.crypto.KeyGenerator
import javax.crypto.spec.GCMParameterSpec

/** Makes a text unreadable for everyone but this app on this phone. */
interface Vault {
    fun seal(text: String): String

    /** The text again. Throws `GeneralSecurityException` when the key is gone: after a restore on another phone, for example. */
    fun open(sealed: String): String
}

/** A key that never leaves Android's Keystore. */
class KeystoreVault : Vault {
    override fun seal(text: String): String {
        val cipher = Cipher.getInstance(FORM).apply { init(Cipher.ENCRYPT_MODE, key()) }
        return encode(cipher.iv) + "." + encode(cipher.doFinal(text.toByteArray()))
    }

    override fun open(sealed: String): String {
        val parts = sealed.split('.')
        if (parts.size != 2) throw GeneralSecurityException("this was not sealed here")
        val cipher = Cipher.getInstance(FORM)
        cipher.init(Cipher.DECRYPT_MODE, key(), GCMParameterSpec(TAG_BITS, decode(parts[0])))
        return String(cipher.doFinal(decode(parts[1])))
    }

    private fun key(): Key {
        val store = KeyStore.getInstance(STORE).apply { load(null) }
        return store.getKey(ALIAS, null) ?: make()
    }

    private fun make(): Key {
        val purposes = KeyProperties.PURPOSE_ENCRYPT or KeyProperties.PURPOSE_DECRYPT
        val about = KeyGenParameterSpec.Builder(ALIAS, purposes)
            .setBlockModes(KeyProperties.BLOCK_MODE_GCM)
            .setEncryptionPaddings(KeyProperties.ENCRYPTION_PADDING_NONE)
            .build()
        return KeyGenerator.getInstance(KeyProperties.KEY_ALGORITHM_AES, STORE).apply { init(about) }.generateKey()
    }

    private fun encode(data: ByteArray) = Base64.getEncoder().encodeToString(data)

    private fun decode(text: String): ByteArray = try {
        Base64.getDecoder().decode(text)
    } catch (broken: IllegalArgumentException) {
        throw GeneralSecurityException(broken)
    }

    private companion object {
        const val STORE = "AndroidKeyStore"
        const val ALIAS = "handspan"
        const val FORM = "AES/GCM/NoPadding"
        const val TAG_BITS = 128
    }
}
