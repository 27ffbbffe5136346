package org.handspan.json

import org.json.JSONArray
import org.json.JSONObject

/** A text is no JSON, or is more than we take; the message says what is wrong. */
class JsonError(message: String) : Exception(message)

private const val MAX_DEPTH = 64
private const val MAX_VALUES = 50_000

/**
 * The value of a JSON text: objects and arrays of org.json, `String`, `Long`, `Double`, `Boolean`, `JSONObject.NULL`.
 * Throws [JsonError]. org.json's own reader takes much that is no JSON, and overflows the stack on deep texts.
 */
fun parseJson(text: String): Any {
    val reader = StrictReader(text)
    val value = reader.readValue(0)
    reader.expectEnd()
    return value
}

/** The object in this text. Throws [JsonError]. */
fun parseObject(text: String): JSONObject = parseJson(text) as? JSONObject ?: throw JsonError("it is no JSON object")

private class StrictReader(private val text: String) {
    private var at = 0
    private var values = 0

    fun readValue(depth: Int): Any {
        if (depth > MAX_DEPTH) fail("it is nested more than $MAX_DEPTH deep")
        if (++values > MAX_VALUES) fail("it holds more than $MAX_VALUES values")
        skipSpace()
        return when (peek()) {
            '{' -> readObject(depth)
            '[' -> readArray(depth)
            '"' -> readText()
            't' -> readWord("true", true)
            'f' -> readWord("false", false)
            'n' -> readWord("null", JSONObject.NULL)
            else -> readNumber()
        }
    }

    fun expectEnd() {
        skipSpace()
        if (at < text.length) fail("more text follows")
    }

    private fun readObject(depth: Int): JSONObject {
        val value = JSONObject()
        at++
        skipSpace()
        if (take('}')) return value
        do {
            skipSpace()
            if (peek() != '"') fail("a name is expected")
            val name = readText()
            if (value.has(name)) fail("the name '$name' stands there twice")
            skipSpace()
            if (!take(':')) fail("':' is expected")
            value.put(name, readValue(depth + 1))
            skipSpace()
        } while (take(','))
        if (!take('}')) fail("',' or '}' is expected")
        return value
    }

    private fun readArray(depth: Int): JSONArray {
        val value = JSONArray()
        at++
        skipSpace()
        if (take(']')) return value
        do {
            value.put(readValue(depth + 1))
            skipSpace()
        } while (take(','))
        if (!take(']')) fail("',' or ']' is expected")
        return value
    }

    private fun readText(): String {
        val read = StringBuilder()
        at++
        while (true) {
            val one = peek() ?: fail("a text does not end")
            at++
            when {
                one == '"' -> return read.toString()
                one == '\\' -> read.append(readEscape())
                one < ' ' -> fail("a control character stands in a text")
                else -> read.append(one)
            }
        }
    }

    private fun readEscape(): Char {
        val one = peek() ?: fail("a text does not end")
        at++
        return when (one) {
            '"', '\\', '/' -> one
            'b' -> '\b'
            'f' -> '\u000c'
            'n' -> '\n'
            'r' -> '\r'
            't' -> '\t'
            'u' -> readUnicode()
            else -> fail("'\\$one' is no escape")
        }
    }

    private fun readUnicode(): Char {
        val digits = text.substring(at, minOf(at + 4, text.length))
        if (digits.length < 4 || !digits.all { it in "0123456789abcdefABCDEF" }) fail("four hexadecimal digits are expected")
        at += 4
        return digits.toInt(16).toChar()
    }

    private fun readNumber(): Any {
        val found = NUMBER.matchAt(text, at)?.value ?: fail("a value is expected")
        at += found.length
        if (found.all { it.isDigit() || it == '-' }) found.toLongOrNull()?.let { return it }
        val value = found.toDouble()
        return if (value.isFinite()) value else fail("the number is too large")
    }

    private fun readWord(word: String, value: Any): Any {
        if (!text.startsWith(word, at)) fail("a value is expected")
        at += word.length
        return value
    }

    private fun skipSpace() {
        while (at < text.length && text[at] in " \t\r\n") at++
    }

    private fun peek(): Char? = text.getOrNull(at)

    private fun take(one: Char): Boolean = (peek() == one).also { if (it) at++ }

    private fun fail(what: String): Nothing = throw JsonError("Not JSON: $what (character $at)")

    private companion object {
        val NUMBER = Regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")
    }
}
