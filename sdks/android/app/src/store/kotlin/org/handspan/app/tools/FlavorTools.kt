package org.handspan.app.tools

import android.content.Context

/** Stores refuse apps that ask for messages without being the phone's app for them. */
internal fun flavorTools(context: Context, granted: Granted): List<ToolEntry> = emptyList()
