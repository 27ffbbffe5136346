package org.handspan.client

import org.json.JSONObject

/** The actions that [ClientState] returns. The connection carries them out in order, one at a time. */
internal sealed interface Action {
    /** Send this frame over the link that is open now. */
    class Send(val frame: JSONObject) : Action

    /** Write the call memory to the state store. */
    object Save : Action

    /** Make this answer fit into one message, then call `replaceAnswer`. */
    class Shrink(val answer: JSONObject) : Action

    /**
     * Run the code of this call. [isRecorded]: first write its start, so that it does not run twice (ws.md 6.4).
     * [asksPerson]: first ask the person for the tool's permissions, because the gateway did not (ws.md 5.9).
     */
    class Run(val request: JSONObject, val tool: ToolSpec, val isRecorded: Boolean, val asksPerson: Boolean) : Action

    /** Call `expireCall` after this many milliseconds, counted from now. */
    class SetTimeout(val id: String, val ms: Long) : Action

    /** Stop the code of this call, or withdraw this question: the answer is not needed any more. */
    class Stop(val id: String) : Action

    /** Ask the person for a permission. */
    class Ask(val id: String, val question: PermissionQuestion) : Action

    /** Begin the login that a call waits for. */
    class Login(val request: LoginRequest) : Action

    /** Show the person a message of an agent. */
    class Show(val message: ChannelMessage) : Action
}
