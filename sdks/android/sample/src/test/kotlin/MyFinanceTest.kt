package com.example.myfinance

import android.content.pm.ProviderInfo
import android.os.Binder
import android.os.Bundle
import com.example.myfinance.cetp.ToolProvider
import com.example.myfinance.cetp.financeAccess
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config

private const val CONSUMER = "org.example.consumer"

@RunWith(RobolectricTestRunner::class)
@Config(sdk = [35])
class MyFinanceTest {
    private val provider = Robolectric.buildContentProvider(ToolProvider::class.java).create(ProviderInfo().apply { authority = "a.b" }).get()
    private val context = RuntimeEnvironment.getApplication()

    private fun execute(tool: String, args: String? = null): Bundle =
        provider.call("execute_tool", null, Bundle().apply { putString("tool_name", tool); putString("args", args) })

    @Test
    fun `it answers an app once the person agreed, and no more when it was taken back`() {
        shadowOf(context.packageManager).setPackagesForUid(Binder.getCallingUid(), CONSUMER)
        val refused = execute("get_portfolio_holdings")
        assertEquals("AUTH_REQUIRED", refused.getString("error_code"))
        assertEquals("com.example.myfinance.ACTION_AUTHORIZE_CLAWSEED", refused.getString("authorize_intent"))
        assertEquals(listOf(CONSUMER), financeAccess.asking(context))
        financeAccess.grant(context, CONSUMER)
        val data = execute("get_portfolio_holdings", """{"account_type":"fund"}""").getString("data")!!
        assertTrue(data, "World Fund" in data && "Acme" !in data)
        assertEquals("INVALID_ARGS", execute("get_transactions").getString("error_code"))
        assertEquals("INVALID_ARGS", execute("get_portfolio_holdings", """{"account_type":"x"}""").getString("error_code"))
        financeAccess.revoke(context, CONSUMER)
        assertEquals("AUTH_REQUIRED", execute("get_portfolio_holdings").getString("error_code"))
    }
}
