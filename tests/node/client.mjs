// A program: the TypeScript SDK's client. Lists the tools at an address, calls one, and prints both as JSON.
// node client.mjs 1|2 URL TOKEN TOOL: the SDK's major version (1 speaks the older era, 2 the newer one).
const [, , version, url, token, tool] = process.argv;
const sdk =
  version === "1"
    ? { ...(await import("@modelcontextprotocol/sdk/client/index.js")), ...(await import("@modelcontextprotocol/sdk/client/streamableHttp.js")) }
    : await import("@modelcontextprotocol/client");
const client = new sdk.Client({ name: "test", version: "1" }, version === "1" ? {} : { versionNegotiation: { mode: "auto" } });
const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name: tool, arguments: {} });
const protocol = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
console.log(JSON.stringify({ protocol, tools: tools.map((one) => one.name), result }));
await client.close();
