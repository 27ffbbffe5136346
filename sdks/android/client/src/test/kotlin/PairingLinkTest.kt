package org.handspan.test

import org.handspan.client.PairingLink
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test

class PairingLinkTest {
    @Test
    fun `a link has the address, the code and the fingerprint of the root`() {
        val link = PairingLink.read(" https://10.0.0.7:42617/x/device#root=abc-_1&code=1234-5678 \n")
        assertEquals(listOf("https://10.0.0.7:42617/x", "1234-5678", "abc-_1"), listOf(link.url, link.code, link.pin))
        assertFalse(link.isPlain)
        assertEquals("", PairingLink.read("https://10.0.0.7/device#code=1").pin)
    }

    @Test
    fun `a link of our own scheme says the same`() {
        val link = PairingLink.read("handspan://pair?url=https%3A%2F%2F10.0.0.7%3A42617%2Fx&root=abc&code=1234-5678")
        assertEquals(listOf("https://10.0.0.7:42617/x", "1234-5678", "abc"), listOf(link.url, link.code, link.pin))
        assertTrue(PairingLink.read("handspan://pair?url=http%3A%2F%2F10.0.0.7&code=1").isPlain)
    }

    @Test
    fun `another text is none`() {
        val others = listOf(
            "", "https://10.0.0.7/device?code=1", "https://10.0.0.7/device#x=1", "handspan://pair?code=1",
            "handspan://pair?url=javascript%3Aalert&code=1", "handspan://pair?url=https%3A%2F%2Fa%3Fb&code=1", "mailto:a@b",
        )
        for (text in others) assertThrows(text, IllegalArgumentException::class.java) { PairingLink.read(text) }
    }
}
