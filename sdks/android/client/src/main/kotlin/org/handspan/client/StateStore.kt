package org.handspan.client

import java.io.File
import java.io.FileOutputStream
import java.io.IOException

/** Where a client keeps what it must not forget: with it, it resumes even after it was killed. */
interface StateStore {
    /** The text that was saved last; null when there is none. */
    fun load(): String?

    /** Saves the text, on the disk when it returns. Throws `IOException`. */
    fun save(text: String)
}

/** A file of the app's own, such as `File(context.noBackupFilesDir, "handspan.json")`. It is replaced as a whole. */
class FileState(private val file: File) : StateStore {
    override fun load(): String? = if (file.exists()) file.readText() else null

    override fun save(text: String) {
        file.parentFile?.mkdirs()
        val fresh = File(file.path + ".new")
        FileOutputStream(fresh).use {
            it.write(text.toByteArray())
            it.fd.sync()
        }
        if (!fresh.renameTo(file)) throw IOException("$file can't be replaced")
    }
}
