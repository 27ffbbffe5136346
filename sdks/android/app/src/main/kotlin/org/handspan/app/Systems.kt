package org.handspan.app

import android.app.Activity
import android.content.Context
import android.view.View

/** The part of Android of this kind, which every phone has. */
inline fun <reified T : Any> Context.system(): T = checkNotNull(getSystemService(T::class.java)) { "This phone has no ${T::class.java.simpleName}" }

/** The view of the screen's layout with this id. */
fun <T : View> Activity.view(id: Int): T = checkNotNull(findViewById<T>(id)) { "The layout has no such view" }

fun <T : View> View.view(id: Int): T = checkNotNull(findViewById<T>(id)) { "The layout has no such view" }
