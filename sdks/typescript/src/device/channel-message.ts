/** A message that an agent sends to the person with the tool `message`, outside of any answer (ws.md 3.9). */
export interface ChannelMessage {
  /** The channel's name in the gateway's settings. */
  channel: string;
  /** The session that it is for, or `all`. */
  chatId: string;
  content: string;
}

/** Shows a message to the person. */
export type ShowMessage = (message: ChannelMessage) => void;
