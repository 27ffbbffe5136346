package org.handspan.test

import java.io.File
import kotlin.system.exitProcess

/** Runs every check that needs no gateway; the first argument is the folder `protocol`. */
fun main(arguments: Array<String>) {
    val checks = Checks()
    checks.cetpVectors(File(arguments[0], "vectors/cetp"))
    checks.strictJson()
    checks.webSockets()
    checks.providers()
    checks.permissions()
    checks.deviceTools()
    checks.pairingLinks()
    println("${checks.passed} passed, ${checks.failed} failed")
    exitProcess(if (checks.failed == 0 && checks.passed > 0) 0 else 1)
}

/** Counts what holds, and says what does not. */
class Checks {
    var passed = 0
        private set
    var failed = 0
        private set

    /** One behaviour, in a sentence. */
    fun check(sentence: String, body: () -> Unit) {
        try {
            body()
            passed++
        } catch (error: Throwable) {
            failed++
            println("FAILED: $sentence: $error")
            error.stackTrace.take(6).forEach { println("    $it") }
        }
    }
}

fun expect(wanted: Any?, found: Any?) {
    if (wanted != found) throw AssertionError("wanted <$wanted>, found <$found>")
}

fun claim(isTrue: Boolean, what: String) {
    if (!isTrue) throw AssertionError(what)
}

inline fun <reified T : Throwable> expectThrown(body: () -> Unit): T {
    try {
        body()
    } catch (error: Throwable) {
        if (error is T) return error
        throw error
    }
    throw AssertionError("nothing was thrown")
}
