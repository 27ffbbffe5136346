// A client of AG-UI: it has a tool of its own, and asks the person before the agent changes something.
// npm install @ag-ui/client; HANDSPAN_TOKEN=… node agui.ts "What is the weather in Rome?"
import { createInterface } from "node:readline/promises";
import { HttpAgent, type ResumeEntry } from "@ag-ui/client";

const agent = new HttpAgent({
  url: `${process.env.HANDSPAN_URL ?? "http://127.0.0.1:42617"}/agui`,
  headers: { Authorization: `Bearer ${process.env.HANDSPAN_TOKEN}` },
});
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "get_weather", description: "The weather of a city now.", parameters }];
const run: Record<string, (given: { city: string }) => Promise<string>> = {
  get_weather: async ({ city }) => `It is sunny in ${city}.`,
};
const terminal = createInterface({ input: process.stdin, output: process.stderr });
let pending: string[] = []; // the calls that are ours
const events = {
  onTextMessageContentEvent: ({ event }) => void process.stdout.write(event.delta),
  onRunFinishedEvent: ({ event }) => void (pending = event.outcome?.pendingToolCallIds ?? []),
};

agent.addMessage({ id: crypto.randomUUID(), role: "user", content: process.argv.slice(2).join(" ") });
await agent.runAgent({ tools }, events);
while (pending.length || agent.pendingInterrupts.length) {
  for (const { id, function: called } of agent.messages.flatMap((message) => message.toolCalls ?? [])) {
    if (!pending.includes(id)) continue;
    const content = await run[called.name](JSON.parse(called.arguments));
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: id, content });
  }
  const resume: ResumeEntry[] = [];
  for (const { id, message } of agent.pendingInterrupts) {
    const approved = (await terminal.question(`${message} (y/n) `)).trim() === "y";
    resume.push({ interruptId: id, status: "resolved", payload: { approved } });
  }
  await agent.runAgent({ tools, ...(resume.length && { resume }) }, events);
}
process.stdout.write("\n");
terminal.close();
