package org.handspan.json

import org.json.JSONArray
import org.json.JSONObject
import java.util.regex.PatternSyntaxException

private const val MAX_PROBLEMS = 20
private const val MAX_REFERENCES = 64

/** What is wrong with a call's arguments, in words that a model can act on; empty when nothing is (ws.md 5.11). */
fun problemsOf(schema: JSONObject, args: JSONObject): String {
    val found = SchemaCheck(schema).check(schema, args, "they")
    return if (found.isEmpty()) "" else found.take(MAX_PROBLEMS).joinToString("; ", "Invalid arguments: ", ".")
}

/** Checks values. Keywords that are not here pass: the gateway has checked every one before. */
private class SchemaCheck(private val root: JSONObject) {
    private var references = 0

    fun check(schema: Any?, value: Any, where: String): List<String> {
        if (schema == false) return listOf("$where is not allowed")
        if (schema !is JSONObject) return emptyList()
        val problems = schema.fieldNames().filterNot { fits(it, schema.get(it), value) }
            .map { "$where must fit ${encodeJson(JSONObject().put(it, schema.get(it))).take(500)}" }
        return problems + followed(schema, value, where) + inside(schema, value)
    }

    private fun fits(word: String, rule: Any, value: Any): Boolean = when (word) {
        "type" -> (if (rule is JSONArray) rule.values() else listOf(rule)).any { isOfType(value, it) }
        "enum" -> (rule as? JSONArray)?.values()?.any { canonical(it) == canonical(value) } ?: true
        "const" -> canonical(rule) == canonical(value)
        "allOf" -> each(rule).all { passes(it, value) }
        "anyOf" -> each(rule).any { passes(it, value) }
        "oneOf" -> each(rule).count { passes(it, value) } == 1
        "not" -> !passes(rule, value)
        "minimum" -> value !is Number || value.toDouble() >= number(rule, value)
        "maximum" -> value !is Number || value.toDouble() <= number(rule, value)
        "exclusiveMinimum" -> value !is Number || rule !is Number || value.toDouble() > rule.toDouble()
        "exclusiveMaximum" -> value !is Number || rule !is Number || value.toDouble() < rule.toDouble()
        "minLength" -> value !is String || rule !is Number || value.codePointCount(0, value.length) >= rule.toInt()
        "maxLength" -> value !is String || rule !is Number || value.codePointCount(0, value.length) <= rule.toInt()
        "minItems" -> value !is JSONArray || rule !is Number || value.length() >= rule.toInt()
        "maxItems" -> value !is JSONArray || rule !is Number || value.length() <= rule.toInt()
        "pattern" -> value !is String || rule !is String || matches(rule, value) ?: true
        "required" -> value !is JSONObject || rule !is JSONArray || rule.values().all { value.has(it.toString()) }
        else -> true
    }

    private fun passes(schema: Any, value: Any) = check(schema, value, "").isEmpty()

    private fun each(rule: Any): List<Any> = (rule as? JSONArray)?.values() ?: emptyList()

    private fun number(rule: Any, value: Number): Double = (rule as? Number)?.toDouble() ?: value.toDouble()

    private fun followed(schema: JSONObject, value: Any, where: String): List<String> {
        val reference = schema.opt("\$ref") as? String ?: return emptyList()
        if (++references > MAX_REFERENCES) return listOf("$where can't be checked: its schema refers to itself")
        return check(refer(reference), value, where).also { references-- }
    }

    /** The schema at a place of the same document: `#/$defs/x`. */
    private fun refer(reference: String): Any? =
        reference.split('/').drop(1).fold(root as Any?) { found, step ->
            (found as? JSONObject)?.opt(step.replace("~1", "/").replace("~0", "~"))
        }

    private fun inside(schema: JSONObject, value: Any): List<String> = when (value) {
        is JSONObject -> value.fieldNames().flatMap { name ->
            schemasOf(schema, name).flatMap { check(it, value.get(name), "'$name'") }
        }
        is JSONArray -> value.values().flatMapIndexed { at, one ->
            val own = (schema.opt("prefixItems") as? JSONArray)?.opt(at) ?: schema.opt("items")
            check(own, one, "'$at'")
        }
        else -> emptyList()
    }

    private fun schemasOf(schema: JSONObject, name: String): List<Any?> {
        val known = mutableListOf<Any?>()
        (schema.opt("properties") as? JSONObject)?.opt(name)?.let { known += it }
        val patterns = schema.opt("patternProperties") as? JSONObject
        for (pattern in patterns?.fieldNames() ?: emptyList()) {
            val isFor = matches(pattern, name)
            if (isFor != false) known += if (isFor == true) patterns?.get(pattern) else true
        }
        return known.ifEmpty { listOf(schema.opt("additionalProperties")) }
    }

    private fun isOfType(value: Any, type: Any): Boolean = when (type) {
        "object" -> value is JSONObject
        "array" -> value is JSONArray
        "string" -> value is String
        "boolean" -> value is Boolean
        "null" -> value == JSONObject.NULL
        "number" -> value is Number
        "integer" -> value is Number && value.toDouble() % 1 == 0.0
        else -> true
    }

    /** Whether the text has the pattern; null for one that is not of this language, as the gateway's may be. */
    private fun matches(pattern: String, text: String): Boolean? = try {
        Regex(pattern).containsMatchIn(text)
    } catch (error: PatternSyntaxException) {
        null
    }
}
