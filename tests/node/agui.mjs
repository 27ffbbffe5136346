// A program: clients of AG-UI, all in this process. Reads commands as lines of JSON and prints what happens, as lines too.
// {"agent", "options"} makes a client; {"id", "agent", "run": {…}} runs it, after "messages" were added, and prints
// each event and then the end; {"agent", "abort": true} aborts its run.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

const agents = new Map();
const print = (line) => console.log(JSON.stringify(line));
console.error = () => {}; // the client prints each failed run; the test gets the error itself
process.on("unhandledRejection", () => {}); // the client does not wait for the end of a reader that it cancels
console.warn = (...words) => print({ warning: words.map(String).join(" ") });

async function run(agent, { id, run, messages = [] }) {
  for (const message of messages) agent.addMessage(message);
  try {
    await agent.runAgent(run, {
      onEvent: ({ event }) => print({ id, event }),
    });
    print({ id, done: true, messages: agent.messages, pending: agent.pendingInterrupts });
  } catch (error) {
    print({ id, done: true, error: String(error.message), status: error.status, messages: agent.messages });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.options) agents.set(command.agent, new HttpAgent(command.options));
  const agent = agents.get(command.agent);
  if (command.abort) agent.abortRun();
  if (command.run) run(agent, command); // not awaited: several clients run at once
}
