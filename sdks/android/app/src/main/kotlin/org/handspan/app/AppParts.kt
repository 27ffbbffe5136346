package org.handspan.app

import android.app.Application
import org.handspan.app.tools.ToolBook
import org.handspan.device.AndroidPermissions
import org.handspan.device.PermissionFlow
import java.io.File

/** All parts of the app, made once, in the order in which they need each other. */
class AppParts(application: Application, vault: Vault) {
    val settings = AppSettings(application)
    val pairings = PairingStore(File(application.noBackupFilesDir, "pairing.json"), vault)
    val notices = Notices(application)
    val board = QuestionBoard(application, notices)
    val permissions = AndroidPermissions(application, board)
    private val flow = PermissionFlow(permissions)
    val tools = ToolBook(application, flow, settings, notices)
    val consents = Consents(settings, board, flow, tools)
    val device = Device(application, settings, tools, consents, notices)
}
