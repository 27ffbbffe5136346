package org.handspan.app.screens

import android.app.Activity
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.Switch
import android.widget.TextView
import org.handspan.app.R
import org.handspan.app.view

// A row of a list: a title, words below it, and a switch. TalkBack reads it as one thing, since the whole row is the switch.

internal fun Activity.addSwitch(list: ViewGroup, title: String, words: String, isOn: Boolean, onChange: (Boolean) -> Unit): View {
    val row = LayoutInflater.from(this).inflate(R.layout.row_switch, list, false)
    row.view<TextView>(R.id.title).text = title
    row.view<TextView>(R.id.words).text = words
    val switch = row.view<Switch>(R.id.toggle)
    switch.isChecked = isOn
    switch.contentDescription = title
    switch.setOnCheckedChangeListener { _, now -> onChange(now) }
    row.setOnClickListener { switch.toggle() }
    list.addView(row)
    return row
}

internal fun Activity.addText(list: ViewGroup, words: CharSequence): TextView {
    val text = LayoutInflater.from(this).inflate(R.layout.row_text, list, false) as TextView
    text.text = words
    list.addView(text)
    return text
}
