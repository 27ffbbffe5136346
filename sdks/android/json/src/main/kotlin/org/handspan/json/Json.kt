package org.handspan.json

import org.json.JSONArray
import org.json.JSONObject

// org.json turns values of another type into texts; here a field of the wrong type counts as missing.

fun JSONObject.text(key: String): String = opt(key) as? String ?: ""

fun JSONObject.number(key: String): Number? = opt(key) as? Number

fun JSONObject.flag(key: String): Boolean = opt(key) == true

fun JSONObject.child(key: String): JSONObject? = opt(key) as? JSONObject

fun JSONObject.items(key: String): List<Any> = (opt(key) as? JSONArray)?.values() ?: emptyList()

fun JSONObject.texts(key: String): List<String> = items(key).filterIsInstance<String>()

fun JSONObject.fieldNames(): List<String> = keys().asSequence().map { it as String }.toList()

fun JSONArray.values(): List<Any> = (0 until length()).map { get(it) }

/** Puts the value, unless it is null or an empty text. */
fun JSONObject.putSome(key: String, value: Any?): JSONObject {
    if (value != null && value != "") put(key, value)
    return this
}

/** A copy whose fields can be changed; what they hold is shared. */
fun JSONObject.copy(): JSONObject {
    val copied = JSONObject()
    for (name in fieldNames()) copied.put(name, get(name))
    return copied
}

/** The value as JSON. Throws [JsonError] for one that has no JSON form. */
fun encodeJson(value: Any): String = when (value) {
    is JSONObject, is JSONArray -> value.toString() as String? ?: throw JsonError("it holds a number that JSON does not have")
    is String -> JSONObject.quote(value)
    is Number -> encodeNumber(value)
    JSONObject.NULL -> "null"
    else -> value.toString()
}

private fun encodeNumber(value: Number): String {
    if (!value.toDouble().isFinite()) throw JsonError("it holds a number that JSON does not have")
    return JSONObject.numberToString(value)
}

/** The bytes of the value as JSON. */
fun sizeOf(value: Any): Int = encodeJson(value).toByteArray().size

/** The value with nothing but what JSON has. Throws [JsonError] for other objects. */
fun plain(value: Any?): Any = when (value) {
    null, JSONObject.NULL -> JSONObject.NULL
    is String, is Boolean, is JSONObject, is JSONArray -> value
    is Number -> value.also { encodeNumber(it) }
    is Map<*, *> -> JSONObject().also { for ((key, one) in value) it.put(key.toString(), plain(one)) }
    is Iterable<*> -> JSONArray().also { for (one in value) it.put(plain(one)) }
    is Array<*> -> plain(value.asList())
    else -> throw JsonError("a ${value.javaClass.simpleName} has no JSON form: return a Map, a List, a text or a number")
}

/** JSON in which the order of fields does not matter, and 1 and 1.0 are the same. */
fun canonical(value: Any): String = when (value) {
    is JSONObject -> value.fieldNames().sorted().joinToString(",", "{", "}") { "${JSONObject.quote(it)}:${canonical(value.get(it))}" }
    is JSONArray -> value.values().joinToString(",", "[", "]") { canonical(it) }
    else -> encodeJson(value)
}

fun depthOf(value: Any): Int = when (value) {
    is JSONObject -> 1 + (value.fieldNames().maxOfOrNull { depthOf(value.get(it)) } ?: 0)
    is JSONArray -> 1 + (value.values().maxOfOrNull { depthOf(it) } ?: 0)
    else -> 0
}
