// Chats of the AI SDK, as a page has them with `useChat`, but without a page. Each line of standard input is one order:
// {"n": 1, "chat": "c", "do": "send", …}; each gets one line of standard output: {"n": 1, "value": …} or {"n": 1, "error": …}.
import { createInterface } from "node:readline";
import { Chat } from "@ai-sdk/react";
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai";

const chats = new Map();

function open({ chat, id, api, token, messages, body, auto = true, client = {} }) {
  const made = { requests: [], changed: new Set(), called: [], errors: [] };
  const fetched = async (url, init) => {
    const answer = await fetch(url, init);
    made.requests.push([init.method, answer.status, answer.headers.get("x-vercel-ai-ui-message-stream")]);
    return answer;
  };
  made.chat = new Chat({
    id: id ?? chat,
    messages,
    transport: new DefaultChatTransport({ api, headers: { Authorization: `Bearer ${token}` }, body, fetch: fetched }),
    sendAutomaticallyWhen: auto
      ? (given) =>
          lastAssistantMessageIsCompleteWithToolCalls(given) || lastAssistantMessageIsCompleteWithApprovalResponses(given)
      : undefined,
    onToolCall: ({ toolCall }) => {
      made.called.push(toolCall.toolName);
      const answer = client[toolCall.toolName];
      if (answer !== undefined) void made.chat.addToolOutput({ tool: toolCall.toolName, toolCallId: toolCall.toolCallId, ...answer });
    },
    onError: (error) => made.errors.push(error.message),
  });
  const tell = () => made.changed.forEach((look) => look());
  made.chat["~registerMessagesCallback"](tell);
  made.chat["~registerStatusCallback"](tell);
  chats.set(chat, made);
  return null;
}

/** Resolves when the chat rests: no answer comes, and nothing more is sent by itself. */
async function rest({ chat }) {
  const now = () => ["ready", "error"].includes(chat.status) && chat.pendingAutomaticDecisions.length === 0;
  for (let calm = 0; calm < 3; ) {
    await new Promise((go) => setImmediate(go));
    calm = now() ? calm + 1 : 0;
  }
}

/** Resolves when the messages, as JSON, have this text. */
function until(made, text) {
  return new Promise((done) => {
    const look = () => {
      if (!JSON.stringify(made.chat.messages).includes(text)) return;
      made.changed.delete(look);
      done(null);
    };
    made.changed.add(look);
    look();
  });
}

const orders = {
  send: async (made, { text, files, messageId }) => {
    await made.chat.sendMessage({ text, files, messageId });
    await rest(made);
  },
  again: async (made) => {
    await made.chat.sendMessage();
    await rest(made);
  },
  regenerate: async (made, { messageId }) => {
    await made.chat.regenerate({ messageId });
    await rest(made);
  },
  resume: async (made) => {
    await made.chat.resumeStream();
    await rest(made);
  },
  output: async (made, given) => {
    await made.chat.addToolOutput(given);
    await rest(made);
  },
  approve: async (made, { id, approved, reason }) => {
    await made.chat.addToolApprovalResponse({ id, approved, reason });
    await rest(made);
  },
  set: async (made, { messages }) => {
    made.chat.messages = messages;
  },
  stop: (made) => made.chat.stop(),
  rest,
  until: (made, { has }) => until(made, has),
};

function look(made) {
  const { messages, status, error } = made.chat;
  return { messages, status, error: error?.message, requests: made.requests, called: made.called, errors: made.errors };
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  if (order.do === "open") open(order);
  const made = chats.get(order.chat);
  Promise.resolve(orders[order.do]?.(made, order))
    .then(() => ({ value: look(made) }), (error) => ({ error: String(error?.stack ?? error) }))
    .then((answer) => process.stdout.write(`${JSON.stringify({ n: order.n, ...answer })}\n`));
}
process.exit(0);
