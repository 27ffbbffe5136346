package org.handspan.bridge

import org.handspan.client.StateStore
import org.handspan.json.JsonError
import org.handspan.json.fieldNames
import org.handspan.json.parseObject
import org.handspan.json.text
import org.json.JSONObject

/** The labels of apps: always the same, and no other app's (cetp.md 8.2). */
internal class LabelMemory(private val store: StateStore?) {
    private val labels = LinkedHashMap<String, String>()

    init {
        try {
            val kept = parseObject(store?.load() ?: "{}")
            for (app in kept.fieldNames()) labels[app] = kept.text(app)
        } catch (error: JsonError) {
            labels.clear()
        }
    }

    @Synchronized
    fun label(app: String, wanted: String): String {
        val known = labels[app]
        if (known != null && (known == wanted || known.substringBeforeLast('_') == wanted)) return known
        val taken = labels.filterKeys { it != app }.values
        val label = generateSequence(1) { it + 1 }.map { if (it == 1) wanted else "${wanted}_$it" }.first { it !in taken }
        labels[app] = label
        if (labels.size > MAX_APPS) labels.remove(labels.keys.first())
        runCatching { store?.save(JSONObject(labels as Map<*, *>).toString()) } // else it may be another one after a restart
        return label
    }

    private companion object {
        const val MAX_APPS = 1000
    }
}
