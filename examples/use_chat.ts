// A chat with an agent by the AI SDK: `npm install ai @ai-sdk/react react`, then `node use_chat.ts`. In React, `useChat`
// takes the same options. HANDSPAN_URL and HANDSPAN_TOKEN say where the gateway is.
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from "ai";

const tools = {
  local_time: { description: "The time where the person is.", inputSchema: { type: "object", properties: {} } },
};

const asked = () => (chat.lastMessage?.parts ?? []).filter((part: any) => part.state === "approval-requested");
const chat: Chat<any> = new Chat({
  id: process.env.CHAT ?? "use-chat-example",
  transport: new DefaultChatTransport({
    api: `${process.env.HANDSPAN_URL ?? "http://127.0.0.1:42617"}/ui`,
    headers: { Authorization: `Bearer ${process.env.HANDSPAN_TOKEN}` },
    body: { tools },
  }),
  onToolCall: ({ toolCall }) => {
    if (toolCall.dynamic) return; // a tool of the gateway: it runs there
    const output = new Date().toTimeString();
    void chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, output });
  },
  sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
  onError: (error) => console.error(error.message),
});

await chat.sendMessage({ text: process.argv[2] ?? "What time is it?" });
while (asked().length > 0) {
  // A page asks its person here whether these tools may run. This program says yes.
  for (const part of asked() as any[]) await chat.addToolApprovalResponse({ id: part.approval.id, approved: true });
  await chat.sendMessage();
}
console.log(chat.lastMessage?.parts.map((part: any) => part.text ?? part.toolName ?? "").join(""));
