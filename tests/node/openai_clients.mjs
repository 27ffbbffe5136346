// Clients of OpenAI's API in Node, each with a tool of its own: node openai_clients.mjs CLIENT BASE_URL KEY MODEL TEXT
// Prints {"text", "ran", "error"}: the answer, how often the client's tool has run, and what went wrong.
import { z } from "zod";

const [, , client, baseURL, apiKey, model, text] = process.argv;
let ran = 0;
const weather = async () => {
  ran += 1;
  return "sunny";
};
const parameters = { type: "object", properties: { city: { type: "string" } } };
const description = "The weather of a city.";

const clients = {
  async openai() {
    const { default: OpenAI } = await import("openai");
    const tool = { type: "function", function: { name: "get_weather", description, parameters, parse: JSON.parse, function: weather } };
    const messages = [{ role: "user", content: text }];
    const given = { model, messages, tools: [tool], stream: true };
    const runner = new OpenAI({ baseURL, apiKey, maxRetries: 0 }).chat.completions.runTools(given);
    return await runner.finalContent();
  },
  async compatible() {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    const { streamText, tool, isStepCount, stepCountIs } = await import("ai");
    const provider = createOpenAICompatible({ name: "handspan", baseURL, apiKey });
    const tools = { get_weather: tool({ description, inputSchema: z.object({ city: z.string().optional() }), execute: weather }) };
    let failed;
    const stopWhen = (isStepCount ?? stepCountIs)(5);
    const answer = streamText({
      model: provider(model), prompt: text, tools, stopWhen, maxRetries: 0, onError: ({ error }) => (failed = error),
    });
    const said = await Promise.resolve(answer.text).catch((error) => Promise.reject(failed ?? error));
    if (failed) throw failed;
    return said;
  },
  async agents() {
    const sdk = await import("@openai/agents");
    const { default: OpenAI } = await import("openai");
    sdk.setTracingDisabled(true);
    sdk.setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey, maxRetries: 0 }));
    const tools = [sdk.tool({ name: "get_weather", description, parameters: z.object({ city: z.string().nullable() }), execute: weather })];
    const agent = new sdk.Agent({ name: "judge", instructions: "Be brief.", model, tools });
    const run = await sdk.run(agent, text, { stream: true });
    await run.completed;
    return run.finalOutput;
  },
};

let said = "";
let failure = "";
try {
  said = await clients[client]();
} catch (error) {
  failure = `${error?.status ?? error?.statusCode ?? ""} ${error?.message ?? error}`;
}
process.stdout.write(JSON.stringify({ text: said, ran, error: failure }));
process.exit(0);
