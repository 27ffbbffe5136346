// Made by scripts/sdk_types.py from the gateway's OpenAPI document. `make docs` writes it anew.

import type { Json, JsonObject } from '../json.js';

/** Whether a turn was stopped. */
export interface AbortStatus {
  status: 'aborted' | 'no_active_response';
}

/** The answer was accepted. */
export interface AcceptedAnswer {
  id: string;
  accepted: true;
}

/** The agent of the next answer. Empty: the session's agent. */
export interface ActingQuery {
  agent?: string | undefined;
}

/** The browser gets notifications from now on. */
export interface AddedSubscription {
  id: string;
}

/** The fields to change. Other fields stay. */
export interface AgentChange {
  name?: string | undefined;
  description?: string | undefined;
  instructions?: string | undefined;
  model?: string | undefined;
  then?: string[] | null | undefined;
  mode?: 'ask_always' | 'ask_destructive' | 'automatic' | 'read_only' | undefined;
  tools?: string[] | null | undefined;
  deny?: string[] | undefined;
  skills?: string[] | undefined;
  max_tool_iterations?: number | null | undefined;
  nodes?: string[] | null | undefined;
  limits?: AgentLimits | undefined;
}

/** Guards against an agent that repeats itself. They are off by default: an equal call is a legal call (SPEC E4). */
export interface AgentLimits {
  repeats?: number | null | undefined;
  failed_rounds?: number | null | undefined;
}

/** All agents of the caller. */
export interface AgentList {
  agents: AgentView[];
  default: string;
}

/** All available tools, selected or not. */
export interface AgentTools {
  agent: string;
  tools: Checkbox[];
}

/** An agent as it is stored. */
export interface AgentView {
  name: string;
  description: string;
  instructions: string;
  model: string;
  then: string[] | null;
  mode: 'ask_always' | 'ask_destructive' | 'automatic' | 'read_only';
  tools: string[] | null;
  deny: string[];
  skills: string[];
  max_tool_iterations: number | null;
  nodes: string[] | null;
  limits: AgentLimits;
  budget: BudgetLimits;
  may_ask: string[];
  kept: 'built_in' | 'settings' | 'store';
  tool_count: number;
}

/** What a tool claims about its effects. All false: it changes things, but destroys none. */
export interface Annotations {
  read_only: boolean;
  destructive: boolean;
  idempotent: boolean;
  open_world: boolean;
  serial: boolean;
  group?: string | undefined;
}

/** What one API of models takes of a tool's schema. */
export interface ApiLosses {
  api: string;
  losses: string[];
  refused: string;
}

/** The caller's artifacts, the newest first. */
export interface ArtifactList {
  artifacts: ListedArtifact[];
}

/** A stored artifact. */
export interface ArtifactView {
  id: string;
  size: number;
  media_type: string;
  name: string;
}

/** A part of a source that can't be used, such as a file or a tool, and the reason. The other parts work. */
export interface Broken {
  where: string;
  problem: string;
}

/** Money to add to a budget for today. */
export interface BudgetAddition {
  dollars: number;
  of?: string | undefined;
}

/** How many US dollars models may cost. Unset: as much as they do. */
export interface BudgetLimits {
  day: number | null;
  month: number | null;
}

/** The limits that the caller may see. Empty: there is no budget. */
export interface BudgetList {
  day: string;
  budgets: BudgetView[];
}

/** One limit, and how far it is used. */
export interface BudgetView {
  of: string;
  period: 'day' | 'month';
  limit: number;
  added: number;
  spent: number;
  reserved: number;
  left: number;
  free_on: string;
}

/** A person is asked. The call goes on when the question (`/api/questions`) is answered. */
export interface CallAsks {
  event: 'question';
  question: string;
  device: string;
}

/** The call begins. Its record is at `/api/calls/{call_id}` as soon as it is stored. */
export interface CallBegan {
  event: 'began';
  call_id: string;
}

/** The arguments, the agent and the session of a call. */
export interface CallBody {
  args?: JsonObject | undefined;
  agent?: string | undefined;
  session?: string | undefined;
}

/** The result of the call. It is the last event. */
export interface CallEnded {
  event: 'result';
  result: SucceededCall | FailedCall;
}

/** The key of a request that may be sent again, and what becomes of a call whose client leaves. */
export interface CallHeaders {
  'idempotency-key'?: string | undefined;
  prefer?: string | undefined;
}

/** Some progress was dropped: the client read too slowly. */
export interface CallMissed {
  event: 'missed';
  count: number;
}

/** Calls, the newest first. */
export interface CallPage {
  calls: ListedCall[];
  next: string | null;
}

/** Which calls to list. */
export interface CallQuery {
  session?: string | undefined;
  tool?: string | undefined;
  origin?: string | undefined;
  status?: '' | 'error' | 'open' | 'success' | 'approval_denied' | 'auth_required' | 'busy' | 'cancelled' | 'disconnected' | 'execution_failed' | 'file_not_found' | 'file_too_large' | 'hook_cancelled' | 'internal_error' | 'interrupted' | 'invalid_arguments' | 'invalid_path' | 'network_error' | 'permission_denied' | 'permission_denied_forever' | 'policy_denied' | 'question_expired' | 'rate_limited' | 'timeout' | 'tool_disabled' | 'tool_not_available' | 'tool_not_found' | 'unknown_outcome' | undefined;
  since?: string | undefined;
  until?: string | undefined;
  limit?: number | undefined;
  after?: string | undefined;
}

/** The whole record of one call. */
export interface CallRecordView {
  id: string;
  tool: string;
  origin: string;
  version: string;
  session: string;
  parent: string;
  agent: string;
  state: 'accepted' | 'done' | 'pending' | 'started';
  status: string;
  at: string;
  duration: number;
  waited: number;
  model: string;
  in_place_of: string;
  reason: string;
  arguments: Json;
  result: SucceededCall | FailedCall | null;
  true_result: SucceededCall | FailedCall | null;
  expires_at: string | null;
  notes: NoteView[];
  internal: boolean;
}

/** Progress of the tool while it runs. */
export interface CallReported {
  event: 'progress';
  value: Json;
}

/** A call that the model asked for. */
export interface CallView {
  id: string;
  name: string;
  arguments: string;
}

/** The result comes later, at `/api/calls/{call_id}`. It is the last event. */
export interface CallWaits {
  event: 'pending';
  call_id: string;
  questions: string[];
}

/** What a person set of the session, as it is now. */
export interface ChangedSession {
  session_id: string;
  name: string;
  kind: 'chat' | 'child' | 'one_shot' | 'run';
  pinned: boolean;
  archived: boolean;
  model: string;
}

/** A tool whose definition no person has accepted yet. */
export interface ChangedTool {
  tool: string;
  old: JsonObject | null;
  new: JsonObject;
  is_blocked: boolean;
}

/** The tools of a server that wait for a person (SPEC T5). */
export interface ChangedTools {
  name: string;
  tools: ChangedTool[];
}

/** All channels. */
export interface ChannelList {
  channels: ChannelView[];
}

/** Whether a channel works, and why not. */
export interface ChannelState {
  kind: 'apprise' | 'page' | 'telegram' | 'webhook';
  status: 'closed' | 'failed' | 'listening' | 'ready' | 'retrying';
  reason: string;
  delivered: number;
  received: number;
  retry_in: number | null;
}

/** A message to try a channel with. */
export interface ChannelTest {
  chat_id: string;
  content?: string | undefined;
}

/** The message was delivered. */
export interface ChannelTested {
  channel: string;
  chat_id: string;
  sent: boolean;
}

/** A channel and the people who may write there. */
export interface ChannelView {
  name: string;
  kind: 'apprise' | 'page' | 'telegram' | 'webhook';
  owner: string;
  agent: string;
  receives: boolean;
  state: ChannelState;
  allow: string[];
  senders: SenderView[];
}

/** One tool in the selection of an agent, without its parameters (SPEC A1). */
export interface Checkbox {
  name: string;
  origin: string;
  description: string;
  permissions: string[];
  selected: boolean;
  asks: boolean;
  refused: boolean;
  disabled_by: string | null;
  only_reads: boolean;
  unusable: string;
}

/** The model that answers. */
export interface ChosenModel {
  model: string;
  provider: string;
  why: string;
  models: ModelState[];
}

/** The version that is current now. */
export interface ChosenVersion {
  session_id: string;
  branch: number;
  message_count: number;
}

/** The name of the copy. */
export interface CloneName {
  name: string;
}

/** What the person wants to be in the summary. */
export interface CompactBody {
  keep?: string | undefined;
}

/** What the model sees of the session is shorter now. The session itself is as it was. */
export interface CompactedSession {
  session_id: string;
  before: number;
  after: number;
  summarized: number;
  summary: string;
  note: string;
}

/** How full the context of the session's model is (SPEC L3). */
export interface ContextUse {
  used: number;
  limit: number;
}

/** About how many tokens the next request of a session has, and for what. */
export interface ContextView {
  session_id: string;
  used: number;
  limit: number | null;
  instructions: number;
  tools: number;
  summary: number;
  history: number;
  results: number;
}

/** The agent whose tools are counted. */
export interface CostQuery {
  agent?: string | undefined;
}

/** How to delete. */
export interface DeleteQuery {
  undo?: boolean | undefined;
}

/** The answer to the removal of an agent. */
export interface DeletedAgent {
  deleted: boolean;
  name: string;
  sessions_moved: number;
}

/** The session was removed, with everything that belonged to it (SPEC S6). */
export interface DeletedSession {
  deleted: boolean;
  session_id: string;
  until?: string | undefined;
}

/** The caller's devices. */
export interface DeviceList {
  devices: DeviceView[];
}

/** A kind of data that a device has. */
export interface DeviceScope {
  name: string;
  description?: string | undefined;
}

/** A device, connected or not. */
export interface DeviceView {
  id: string;
  label: string;
  name: string;
  connected: boolean;
  last_seen: string | null;
  tools: string[];
  changed: string[];
  description: string;
  scopes: DeviceScope[];
  notes: string[];
  connected_as: string;
  notice: string;
  refused: RejectedTool[];
}

/** Whether everything works in the gateway, and what to do where it does not. */
export interface Diagnosis {
  findings: Finding[];
}

/** How a turn ended that did not end with a whole answer. */
export interface EndView {
  after: number;
  reason: 'aborted' | 'done' | 'error' | 'errors' | 'length' | 'limit' | 'pending' | 'refusal';
  at: string;
  model?: string | undefined;
  text?: string | undefined;
  fault?: TurnFault | undefined;
}

/** The body of every refusal. */
export interface ErrorBody {
  error: string;
  code: string;
  retry_after?: number | undefined;
}

/** A part of an excerpt. */
export interface ExcerptPart {
  text: string;
  found?: boolean | undefined;
}

/** The call failed. */
export interface FailedCall {
  status: 'error';
  error_type: 'execution_error' | 'permission_denied' | 'timeout' | 'validation_error';
  code: 'approval_denied' | 'auth_required' | 'busy' | 'cancelled' | 'disconnected' | 'execution_failed' | 'file_not_found' | 'file_too_large' | 'hook_cancelled' | 'internal_error' | 'interrupted' | 'invalid_arguments' | 'invalid_path' | 'network_error' | 'permission_denied' | 'permission_denied_forever' | 'policy_denied' | 'question_expired' | 'rate_limited' | 'timeout' | 'tool_disabled' | 'tool_not_available' | 'tool_not_found' | 'unknown_outcome';
  message: string;
}

/** A file or a folder. */
export interface FileEntry {
  name: string;
  is_folder: boolean;
}

/** What is in a folder, by name. */
export interface FileNames {
  entries: FileEntry[];
  total: number;
}

/** An image, a sound or a file of a message or a result. It is at `…/messages/{seq}/files/{index}`. */
export interface FileView {
  index: number;
  kind: 'audio' | 'file' | 'image';
  media_type: string;
  name: string;
}

/** A folder of the workspace. */
export interface FilesQuery {
  folder?: string | undefined;
  agent?: string | undefined;
}

/** The result of one check. */
export interface Finding {
  what: string;
  ok: boolean;
  found: string;
  remedy: string;
}

/** The device is forgotten. It has to be paired again, unless its token stays valid. */
export interface ForgottenDevice {
  revoked: boolean;
  label: string;
  still_valid: string;
  serves: string[];
  token_id: string;
}

/** The rules of a tool are forgotten. The person is asked again. */
export interface ForgottenRules {
  tool: string;
  forgotten: number;
}

/** A session with the words in its name or in what was said. */
export interface FoundSession {
  session: SessionView;
  seq: number;
  excerpt: string;
  marked: ExcerptPart[];
  branch?: number | undefined;
  in_result?: true | undefined;
}

/** The sessions that were found, the last active first. */
export interface FoundSessions {
  found: FoundSession[];
  unindexed: number;
}

/** The answer of a person. */
export interface GivenAnswer {
  decision: 'allow' | 'deny' | 'deny_forever';
  always?: boolean | undefined;
  arguments?: JsonObject | null | undefined;
  value?: Json | undefined;
  reason?: string | undefined;
}

/** The answer of `/health`: a constant, so that a client without a token learns nothing (SPEC S5). */
export interface Health {
  status: 'ok';
  paired: true;
  require_pairing: true;
  runtime: Record<string, string>;
}

/** The messages of a version that was left. Their `seq` counts from its first message. */
export interface LeftVersion {
  session_id: string;
  branch: number;
  messages: MessageView[];
}

/** An artifact in a list. */
export interface ListedArtifact {
  id: string;
  size: number;
  media_type: string;
  name: string;
  session: string;
  at: string;
}

/** One call in a list. */
export interface ListedCall {
  id: string;
  tool: string;
  origin: string;
  version: string;
  session: string;
  parent: string;
  agent: string;
  state: 'accepted' | 'done' | 'pending' | 'started';
  status: string;
  at: string;
  duration: number;
  waited: number;
  model: string;
  in_place_of: string;
  reason: string;
}

/** A model by its name. Its key is never shown. */
export interface ListedModel {
  name: string;
  api: string;
  model: string;
  base_url: string;
  key: 'none' | 'stored' | 'variable';
  key_variable: string;
  is_fixed: boolean;
}

/** One node. */
export interface ListedNode {
  id: string;
  name: string;
  address: string;
  version: string;
  role: string;
  started: string;
  lag: number;
  draining: boolean;
  load: Record<string, number>;
  here: boolean;
}

/** An answer to all questions of this kind, until the tool's definition changes. */
export interface ListedRule {
  tool: string;
  kind: 'approval' | 'input' | 'login' | 'permission' | 'trust';
  subject: string;
  answer: 'always' | 'never';
}

/** A pairing code. It works once, and for a short time. */
export interface MadeCode {
  code: string;
  scopes: string[];
  expires_in: number;
  url: string | null;
  link: string;
  qr: string | null;
  pin: string | null;
}

/** The new token. It is shown only this once. */
export interface MadeToken {
  token: string;
  id: string;
  scopes: string[];
  label: string;
}

/** The result of the call. */
export interface McpEnvelope {
  result: JsonObject;
}

/** The login at a server has begun: a person opens the address in a browser. */
export interface McpLoginPage {
  name: string;
  address: string;
  expires_in: number;
}

/** Where the login page sent a browser that can't reach the gateway. */
export interface McpLoginReturn {
  address: string;
}

/** How far a login is. */
export interface McpLoginState {
  name: string;
  status: string;
  reason: string;
}

/** The tokens of a server are removed. */
export interface McpLogout {
  name: string;
  had_login: boolean;
}

/** A prompt of a server. An agent gets it by the server's tool `get_prompt`. */
export interface McpPromptView {
  name: string;
  description: string;
  arguments: string[];
}

/** The fields of a server to change. Other fields stay. */
export interface McpServerChange {
  internal_only?: boolean | undefined;
  trusted?: boolean | undefined;
}

/** All MCP servers. */
export interface McpServerList {
  servers: McpServerView[];
}

/** A server and its state. Only an admin sees how it is started and why it failed. */
export interface McpServerView {
  name: string;
  status: string;
  tools: string[];
  internal_only: boolean;
  trusted: boolean;
  waiting: string[];
  can_change: boolean;
  where: string;
  reason: string;
  problems: string[];
  node: string;
  prompts: McpPromptView[];
}

/** A call of one tool of a server, by the server's own name for it. */
export interface McpToolCall {
  tool: string;
  args?: JsonObject | undefined;
}

/** The owner's long-term memory. */
export interface MemoryStatus {
  backend: string;
  count: number;
}

/** The messages of a session, the oldest first. */
export interface MessageList {
  session_id: string;
  messages: MessageView[];
  session_persistence: boolean;
  ends: EndView[];
  summaries: SummaryView[];
}

/** One message, or with `full` one result of a call. */
export interface MessageView {
  seq: number;
  role: 'assistant' | 'tool' | 'user';
  content: string;
  at: string;
  attachments?: number | undefined;
  files?: FileView[] | undefined;
  id?: string | undefined;
  turn?: string | undefined;
  model?: string | undefined;
  in_place_of?: string | undefined;
  reason?: string | undefined;
  agent?: string | undefined;
  thinking?: string | undefined;
  calls?: CallView[] | undefined;
  call_id?: string | undefined;
  name?: string | undefined;
}

/** Which messages to list. */
export interface MessagesQuery {
  after?: number | undefined;
  full?: boolean | undefined;
}

/** A kind of model that a person can add, with what is known of it. */
export interface ModelOffer {
  id: string;
  title: string;
  api: 'anthropic' | 'custom' | 'gemini' | 'openai-chat' | 'openai-responses';
  model: string;
  base_url: string;
  key_variable: string;
  is_key_set: boolean;
  is_found: boolean;
}

/** What can be added. */
export interface ModelOffers {
  offers: ModelOffer[];
}

/** Whether a model can be asked now. */
export interface ModelState {
  name: string;
  state: 'ready' | 'resting' | 'unusable';
  seconds?: number | undefined;
  reason?: string | undefined;
}

/** Whether the model answers. */
export interface ModelTest {
  ok: boolean;
  reason: string;
  seconds: number;
}

/** The model that answers where none is named. Empty: as the settings say. */
export interface ModelUse {
  model?: string | undefined;
}

/** The models of the settings and those that were added. */
export interface Models {
  models: string[];
  default: ChosenModel;
  listed: ListedModel[];
  chosen: string;
}

/** An agent to create. */
export interface NewAgent {
  name: string;
  description?: string | undefined;
  instructions?: string | undefined;
  model?: string | undefined;
  then?: string[] | null | undefined;
  mode?: 'ask_always' | 'ask_destructive' | 'automatic' | 'read_only' | undefined;
  tools?: string[] | null | undefined;
  deny?: string[] | undefined;
  skills?: string[] | undefined;
  max_tool_iterations?: number | null | undefined;
  nodes?: string[] | null | undefined;
  limits?: AgentLimits | undefined;
}

/** The scopes of the token that the code gives. */
export interface NewCode {
  scopes?: ('admin' | 'chat' | 'device' | 'tools')[] | undefined;
}

/** The new label of a device. */
export interface NewLabel {
  label: string;
}

/** How the gateway is known at the login of a server. */
export interface NewMcpOauth {
  client_id?: string | undefined;
  client_secret?: string | undefined;
  client_metadata_url?: string | undefined;
}

/** A server to add or to change: the fields of `tools.mcp_servers`. */
export interface NewMcpServer {
  command?: string | undefined;
  args?: string[] | undefined;
  env?: Record<string, string> | undefined;
  url?: string | undefined;
  headers?: Record<string, string> | undefined;
  oauth?: NewMcpOauth | undefined;
  internal_only?: boolean | undefined;
  trusted?: boolean | undefined;
  allow?: string[] | null | undefined;
  deny?: string[] | undefined;
  permissions?: string[] | undefined;
  timeout?: number | null | undefined;
  start_timeout?: number | undefined;
  idle_timeout?: number | null | undefined;
  concurrency?: number | undefined;
  most_tools?: number | undefined;
}

/** What happens to a server of the same name. */
export interface NewMcpServerQuery {
  replace?: boolean | undefined;
}

/** A model to add, to change or to try. An empty `key` keeps the stored one. */
export interface NewModel {
  api: 'anthropic' | 'custom' | 'gemini' | 'openai-chat' | 'openai-responses';
  model: string;
  base_url?: string | undefined;
  key?: string | undefined;
  key_variable?: string | undefined;
}

/** A schedule to make. */
export interface NewSchedule {
  when: string;
  text: string;
  zone?: string | undefined;
  name?: string | undefined;
  agent?: string | undefined;
  session?: string | undefined;
  deliver?: string | undefined;
  catch_up?: number | undefined;
}

/** A person who may write to agents from now on. */
export interface NewSender {
  sender: string;
  name?: string | undefined;
}

/** A session to create. */
export interface NewSession {
  name?: string | undefined;
  persona?: string | undefined;
  kind?: 'chat' | 'one_shot' | 'run' | undefined;
  model?: string | undefined;
}

/** A subscription as browsers make it (`PushSubscription.toJSON`), with a label for people. */
export interface NewSubscription {
  endpoint: string;
  keys: PushKeys;
  label?: string | undefined;
}

/** A token to create. */
export interface NewToken {
  scopes?: ('admin' | 'chat' | 'device' | 'tools')[] | undefined;
  label?: string | undefined;
  agents?: string[] | undefined;
  answers?: boolean | undefined;
}

/** All nodes that count as alive; none where the gateway is alone. */
export interface NodeList {
  nodes: ListedNode[];
}

/** A note on something that came after the call had ended. */
export interface NoteView {
  at: string;
  text: string;
}

/** What a login page sends back with the browser. */
export interface OauthQuery {
  state?: string | undefined;
  code?: string | undefined;
  iss?: string | null | undefined;
  error?: string | undefined;
}

/** Where a tool comes from. */
export interface OriginView {
  kind: 'browser' | 'builtin' | 'device' | 'mcp' | 'plugin' | 'remote';
  name: string;
}

/** The code, if no header has it, a name for people, and the scopes that the client needs. */
export interface PairBody {
  code?: string | undefined;
  label?: string | undefined;
  scopes?: string[] | null | undefined;
}

/** The header in which ClawSeed's clients send the code. */
export interface PairHeaders {
  'x-pairing-code'?: string | undefined;
}

/** The new token. It is shown only this once. */
export interface Paired {
  token: string;
  message: string;
  paired: true;
  persisted: true;
}

/** The tools of a switch: a name, a glob or an origin. */
export interface Pattern {
  pattern: string;
}

/** The call has no result yet. It will be at `/api/calls/{call_id}`. */
export interface PendingCall {
  status: 'pending';
  call_id: string;
  questions: string[];
  waiting_for: string[];
}

/** The answer of `/ping`: a constant, in the form of the graph API (graph.md 1.4). */
export interface Pong {
  status: 'ok';
  data: 'pong';
  metadata: PongMetadata;
}

/** Constants too: a client without a token does not even learn the time. */
export interface PongMetadata {
  request_id: 'ping';
  timestamp: '';
  message: 'OK';
}

/** The answer of a person who has pressed a button of a notification. */
export interface PushAnswer {
  subscription: string;
  question: string;
  decision: 'allow' | 'deny';
  token: string;
}

/** The keys of a browser's subscription, in base64url. */
export interface PushKeys {
  p256dh: string;
  auth: string;
}

/** What the person opens (`login`) or compares (`trust`) before the answer. */
export interface QuestionAction {
  url?: string | undefined;
  intent?: string | undefined;
  hint?: string | undefined;
  old?: JsonObject | null | undefined;
  new?: JsonObject | null | undefined;
}

/** The questions that the caller can answer now, the oldest first, and those that devices ask. */
export interface QuestionList {
  questions: QuestionView[];
  at_devices?: QuestionView[] | undefined;
}

/** The session of the questions. Empty: all sessions. */
export interface QuestionQuery {
  session?: string | undefined;
}

/** A question that waits for an answer. */
export interface QuestionView {
  id: string;
  kind: 'approval' | 'input' | 'login' | 'permission' | 'trust';
  call_id: string;
  tool: string;
  arguments: JsonObject;
  subject: string;
  session: string;
  expires_in: number;
  schema: JsonObject | null;
  action: QuestionAction | null;
  agent: string;
  device: string;
  parameters: JsonObject | null;
  change: string[];
}

/** The answer of `/ready`, when the gateway can do work. */
export interface Ready {
  status: 'ready';
}

/** One reason, for or against. */
export interface ReasonView {
  ok: boolean;
  text: string;
}

/** A tool that was refused, and why. */
export interface RejectedTool {
  name: string;
  reason: string;
}

/** The label that a person gave a device. */
export interface Relabelled {
  label: string;
  connected_as: string;
}

/** The settings as their files have them now are in force, as far as that needs no restart. */
export interface ReloadedSettings {
  applied: string[];
  needs_restart: string[];
  model: string;
}

/** The server is stopped, and its tools are gone. */
export interface RemovedMcpServer {
  name: string;
}

/** The model and its key are gone. */
export interface RemovedModel {
  name: string;
}

/** The answer to the removal of a schedule. */
export interface RemovedSchedule {
  removed: string;
}

/** The browser gets no more notifications. */
export interface RemovedSubscription {
  id: string;
  removed: true;
}

/** How the turn ended that answers the last message again. */
export interface RetriedTurn {
  session_id: string;
  reason: 'aborted' | 'done' | 'error' | 'errors' | 'length' | 'limit' | 'pending' | 'refusal';
  text: string;
  fault?: TurnFault | undefined;
}

/** The token is revoked, and its connections are closed. */
export interface RevokedToken {
  revoked: boolean;
  id: string;
}

/** The caller's rules, by tool and subject. */
export interface RuleList {
  rules: ListedRule[];
}

/** Sessions whose turn runs now. */
export interface RunningList {
  sessions: RunningSession[];
}

/** A session whose turn runs now. */
export interface RunningSession {
  session_id: string;
  created_at: string;
  last_activity: string;
  message_count: number;
  turn_id: string;
  turn_started_at: string;
}

/** A schedule with its runs, the newest first. */
export interface ScheduleDetails {
  schedule: ScheduleView;
  runs: ScheduleRunView[];
}

/** The caller's schedules, the next due one first. */
export interface ScheduleList {
  schedules: ScheduleView[];
}

/** One due time of a schedule, and what came of it. */
export interface ScheduleRunView {
  due: string;
  since: string;
  began: string;
  ended: string | null;
  session: string;
  state: 'delivering' | 'done' | 'running';
  end: 'aborted' | 'done' | 'error' | 'errors' | 'length' | 'limit' | 'pending' | 'refusal' | '' | 'missed';
  text: string;
  problem: string;
}

/** A schedule. */
export interface ScheduleView {
  id: string;
  name: string;
  when: string;
  zone: string;
  text: string;
  agent: string;
  session: string;
  deliver: string;
  catch_up: number;
  next: string | null;
  next_words: string[];
  paused: string;
  failures: number;
  tools: string[] | null;
  mode: 'ask_always' | 'ask_destructive' | 'automatic' | 'read_only';
  last: ScheduleRunView | null;
}

/** The callers that see a tool. */
export interface ScopeView {
  kind: 'global' | 'owner' | 'session' | 'turn';
  id: string;
}

/** The words to search for, in upper or lower case, with or without accents. */
export interface SearchQuery {
  query: string;
  limit?: number | undefined;
  left?: boolean | undefined;
  results?: boolean | undefined;
  kind?: string | undefined;
  archived?: boolean | undefined;
}

/** Its changed tools count as seen. */
export interface SeenDevice {
  label: string;
  looked: boolean;
}

/** Whether this person may write now. */
export interface SenderChanged {
  channel: string;
  sender: string;
  paired: boolean;
}

/** A person who was paired with a channel. */
export interface SenderView {
  sender: string;
  owner: string;
  name: string;
  paired: string;
}

/** Sessions, the last active first. */
export interface SessionList {
  sessions: SessionView[];
  next: string | null;
}

/** Which part of the list. The default is large, because old clients expect the whole list. */
export interface SessionQuery {
  limit?: number | undefined;
  after?: string | undefined;
  kind?: string | undefined;
  pinned?: boolean | undefined;
  archived?: boolean | undefined;
}

/** The skills that are on in a session, and the tools that its agent may call with them (SPEC A3). */
export interface SessionSkills {
  skills: string[];
  tools: UsableTool[];
  notes: string[];
}

/** The state of a session. */
export interface SessionStateView {
  session_id: string;
  state: 'idle' | 'running' | 'waiting';
  turn_id?: string | undefined;
  turn_started_at?: string | undefined;
}

/** What to change of a session. What is not named stays. */
export interface SessionUpdate {
  name?: string | undefined;
  kind?: 'chat' | 'one_shot' | 'run' | undefined;
  pinned?: boolean | undefined;
  archived?: boolean | undefined;
  model?: string | undefined;
}

/** A session without its messages. */
export interface SessionView {
  session_id: string;
  created_at: string;
  last_activity: string;
  message_count: number;
  state: string;
  kind: 'chat' | 'child' | 'one_shot' | 'run';
  name?: string | undefined;
  persona?: string | undefined;
  parent?: string | undefined;
  pinned?: boolean | undefined;
  archived?: boolean | undefined;
  model?: string | undefined;
  ended?: EndView | undefined;
  context?: ContextUse | undefined;
}

/** One setting. */
export interface SettingView {
  key: string;
  value: Json;
  source: string;
}

/** The settings with which the gateway runs. */
export interface SettingsInForce {
  file: string | null;
  is_changed: boolean;
  settings: SettingView[];
  reloadable: string[];
  needs_restart: string[];
  problem: string;
}

/** A link that signs one browser in. It works once, and for a short time. */
export interface SignInLink {
  url: string;
  expires_in: number;
}

/** The code of a sign-in link. */
export interface SignInQuery {
  code?: string | undefined;
}

/** The signature over time and body. */
export interface SignatureHeaders {
  'x-handspan-timestamp'?: string | undefined;
  'x-handspan-signature'?: string | undefined;
}

/** What came of the message. The agent's answer comes to the channel's own address. */
export interface SignedAnswer {
  status: 'accepted' | 'answered' | 'duplicate';
  id: string;
  text: string;
}

/** Whether a skill of the workspace may be used. */
export interface SkillConsent {
  enabled: boolean;
  fingerprint?: string | undefined;
}

/** All skills that were found. */
export interface SkillList {
  skills: SkillView[];
}

/** What a consent came to. */
export interface SkillState {
  name: string;
  enabled: boolean;
  changed: boolean;
}

/** A skill to switch on or off in a session. */
export interface SkillSwitch {
  name: string;
  on?: boolean | undefined;
  agent?: string | undefined;
}

/** A skill as a model would get it, usable or not. */
export interface SkillText {
  name: string;
  instructions: string;
  fingerprint: string;
  allowed_tools: string[] | null;
}

/** A skill, usable or not (SPEC A3). */
export interface SkillView {
  name: string;
  description: string;
  version: string;
  enabled: boolean;
  where: string;
  problems: string[];
  triggers: string[];
  permissions: string[];
  path: string;
  fingerprint: string;
  allowed_tools: string[] | null;
}

/** The sources of tools, by name. Only `admin` tokens see the details of an error. */
export interface SourceList {
  sources: Record<string, SourceState>;
}

/** The state of a source. */
export interface SourceState {
  status: 'closed' | 'failed' | 'opening' | 'ready';
  tools: number;
  reason: string;
  next_try: number | null;
  broken: Broken[];
}

/** The device was told to start the login. The question waits for the answer that it is done. */
export interface StartedLogin {
  id: string;
  started: true;
}

/** The state of the gateway. */
export interface Status {
  provider: string;
  model: string;
  temperature: number;
  paired: boolean;
  gateway_port: number;
  memory: MemoryStatus;
  version: string;
  why: string;
  sandbox: boolean;
  tools: number;
  agent: string;
  sources: Record<string, SourceState>;
  channels: Record<string, ChannelState>;
}

/** The caller's browsers that get notifications. */
export interface SubscriptionList {
  public_key: string;
  subscriptions: SubscriptionView[];
}

/** A browser that gets notifications. */
export interface SubscriptionView {
  id: string;
  label: string;
  host: string;
  created: string;
  last_success: string | null;
  current: boolean;
}

/** The call succeeded. */
export interface SucceededCall {
  status: 'success';
  result: Json;
  attachments?: JsonObject[] | undefined;
  notice?: string | undefined;
}

/** A summary that a model got in place of messages. */
export interface SummaryView {
  after: number;
  at: string;
  text: string;
}

/** The tools that are off for all owners. */
export interface SwitchList {
  disabled: string[];
  by_settings: string[];
}

/** The effect of a switch. */
export interface Switched {
  pattern: string;
  changed: boolean;
  tools: string[];
}

/** The push service has accepted a notification. */
export interface TestedSubscription {
  id: string;
  accepted: true;
}

/** The tools to select and to deselect. */
export interface Ticks {
  on?: string[] | undefined;
  off?: string[] | undefined;
}

/** How long tools take, the most called one first. */
export interface TimingList {
  tools: ToolTiming[];
}

/** Which calls count; those without a result never do. */
export interface TimingQuery {
  session?: string | undefined;
  tool?: string | undefined;
  origin?: string | undefined;
}

/** The caller's tokens, the oldest first. */
export interface TokenList {
  tokens: TokenView[];
}

/** A token in a list, without the token itself. */
export interface TokenView {
  id: string;
  label: string;
  scopes: string[];
  created: string;
  last_seen: string | null;
  revoked: string | null;
  current: boolean;
}

/** One tool of the agent. */
export interface ToolCost {
  name: string;
  tokens: number;
  shown: boolean;
}

/** How many tokens the tools of an agent take in each request, as an estimate (SPEC R4). */
export interface ToolCosts {
  agent: string;
  tokens_shown: number;
  tokens_all: number;
  tools: ToolCost[];
}

/** All tools that the caller's sessions can have. */
export interface ToolList {
  tools: ToolView[];
}

/** What each API of models loses of a tool's schema (SPEC M3). */
export interface ToolLosses {
  tool: string;
  apis: ApiLosses[];
}

/** Which tools to list. */
export interface ToolQuery {
  session?: string | undefined;
}

/** How long the finished calls of one tool took: seconds, without those for a person (SPEC E8). */
export interface ToolTiming {
  tool: string;
  calls: number;
  failed: number;
  p50: number;
  p95: number;
}

/** A tool, switched off or not. */
export interface ToolView {
  name: string;
  description: string;
  parameters: JsonObject;
  enabled: boolean;
  source_type: string;
  source: string;
  origin: OriginView;
  scope: ScopeView;
  permissions: string[];
  annotations: Annotations;
  version: string;
  timeout: number | null;
  fingerprint: string;
  agents: string[];
  shown_to: string[];
  disabled_by: string | null;
  internal: boolean;
  definition: 'agreed' | 'changed' | 'changed_blocked' | 'new';
  missing: string;
  refused_to: string[];
}

/** A sum of known counts, and the number of replies without a count (SPEC M6). */
export interface Total {
  known: number | null;
  unknown: number;
}

/** The tools whose definitions are accepted now. */
export interface TrustedTools {
  name: string;
  tools: string[];
}

/** Why a turn has failed, for programs; `Ended.text` is for people. */
export interface TurnFault {
  of: 'call' | 'inside' | 'model';
  code: string;
}

/** The last message of the person is left, and all that followed it. Both are a version now. */
export interface UndoneTurn {
  session_id: string;
  removed: number;
}

/** The name and the session of an upload. */
export interface UploadQuery {
  name?: string | undefined;
  session?: string | undefined;
}

/** A tool that the session's agent may call now. */
export interface UsableTool {
  name: string;
  description: string;
}

/** One sum for each session, model, agent or day. A count that the model did not report is null, never 0. */
export interface UsageList {
  by: string;
  usage: UsageSum[];
}

/** What to sum. */
export interface UsageQuery {
  by?: 'agent' | 'day' | 'model' | 'session' | undefined;
  session?: string | undefined;
  since?: string | undefined;
}

/** What the replies of one session, model, agent or day used. */
export interface UsageSum {
  of: string;
  replies: number;
  input: Total;
  output: Total;
  cached: Total;
  reasoning: Total;
  cost: Total;
}

/** The versions of a session, in the order in which they began. A conversation that never went back has none. */
export interface VersionList {
  session_id: string;
  versions: VersionView[];
}

/** A version: what follows one message of the conversation, now or before somebody went back. */
export interface VersionView {
  branch: number;
  fork: number;
  seq: number | null;
  length: number;
  text: string;
  at: string;
  is_current: boolean;
  left_at: string | null;
}

/** How long to wait for a call that is still open. */
export interface WaitQuery {
  wait?: number | undefined;
}

/** The turn waits for a person or a device, and goes on without a new request. */
export interface WaitingAnswer {
  status: 'pending';
  session_id: string;
}

/** The answer of the agent. With `status` it is the stored answer to an earlier request. */
export interface WebhookAnswer {
  response: string;
  model: string;
  session_id: string;
  status?: 'duplicate' | undefined;
  idempotent?: true | undefined;
}

/** The message, and the agent that answers it. */
export interface WebhookBody {
  message: string;
  persona?: string | null | undefined;
}

/** The session of the message. Without one, a new session begins. */
export interface WebhookHeaders {
  'x-session-id'?: string | undefined;
  'x-persona'?: string | undefined;
  'x-idempotency-key'?: string | undefined;
}

/** The name of a model, or of an agent whose model is meant. */
export interface WhichModel {
  model?: string | undefined;
  agent?: string | undefined;
  session?: string | undefined;
  at_once?: boolean | undefined;
}

/** The caller, as the gateway knows it. */
export interface WhoAmI {
  owner: string;
  scopes: string[];
  is_browser: boolean;
}

/** Whether an agent can use a tool, and every reason for it. */
export interface Why {
  tool: string;
  agent: string;
  usable: boolean;
  reasons: ReasonView[];
}

/** The agent and the session of the question. */
export interface WhyQuery {
  agent?: string | undefined;
  session?: string | undefined;
}

/** What each route of REST takes and answers. */
export interface Operations {
  'GET /api/status': { path: undefined; query: undefined; body: undefined; answer: Status };
  'GET /api/sources': { path: undefined; query: undefined; body: undefined; answer: SourceList };
  'POST /api/sources/reload': { path: undefined; query: undefined; body: undefined; answer: SourceList };
  'GET /api/nodes': { path: undefined; query: undefined; body: undefined; answer: NodeList };
  'GET /api/settings': { path: undefined; query: undefined; body: undefined; answer: SettingsInForce };
  'POST /api/settings/reload': { path: undefined; query: undefined; body: undefined; answer: ReloadedSettings };
  'GET /api/doctor': { path: undefined; query: undefined; body: undefined; answer: Diagnosis };
  'POST /pair': { path: undefined; query: undefined; body: PairBody; answer: Paired };
  'GET /api/me': { path: undefined; query: undefined; body: undefined; answer: WhoAmI };
  'POST /api/signout': { path: undefined; query: undefined; body: undefined; answer: RevokedToken };
  'POST /api/signin': { path: undefined; query: undefined; body: undefined; answer: SignInLink };
  'GET /api/tokens': { path: undefined; query: undefined; body: undefined; answer: TokenList };
  'POST /api/tokens': { path: undefined; query: undefined; body: NewToken; answer: MadeToken };
  'DELETE /api/tokens/{token_id}': { path: { token_id: string }; query: undefined; body: undefined; answer: RevokedToken };
  'POST /api/pairing': { path: undefined; query: undefined; body: NewCode; answer: MadeCode };
  'GET /api/tools': { path: undefined; query: { session?: string | undefined }; body: undefined; answer: ToolList };
  'GET /api/tools/cost': { path: undefined; query: { agent?: string | undefined }; body: undefined; answer: ToolCosts };
  'GET /api/tools/{name}/why': { path: { name: string }; query: { agent?: string | undefined; session?: string | undefined }; body: undefined; answer: Why };
  'GET /api/tools/{name}/losses': { path: { name: string }; query: { session?: string | undefined }; body: undefined; answer: ToolLosses };
  'GET /api/switches': { path: undefined; query: undefined; body: undefined; answer: SwitchList };
  'POST /api/switches/disable': { path: undefined; query: undefined; body: Pattern; answer: Switched };
  'POST /api/switches/enable': { path: undefined; query: undefined; body: Pattern; answer: Switched };
  'POST /api/tools/{name}/call': { path: { name: string }; query: undefined; body: CallBody; answer: SucceededCall | FailedCall | PendingCall };
  'GET /api/sessions': { path: undefined; query: { limit?: number | undefined; after?: string | undefined; kind?: string | undefined; pinned?: boolean | undefined; archived?: boolean | undefined }; body: undefined; answer: SessionList };
  'POST /api/sessions': { path: undefined; query: undefined; body: NewSession; answer: SessionView };
  'GET /api/sessions/running': { path: undefined; query: undefined; body: undefined; answer: RunningList };
  'GET /api/sessions/search': { path: undefined; query: { query: string; limit?: number | undefined; left?: boolean | undefined; results?: boolean | undefined; kind?: string | undefined; archived?: boolean | undefined }; body: undefined; answer: FoundSessions };
  'GET /api/sessions/{session_id}': { path: { session_id: string }; query: undefined; body: undefined; answer: SessionView };
  'PUT /api/sessions/{session_id}': { path: { session_id: string }; query: undefined; body: SessionUpdate; answer: ChangedSession };
  'DELETE /api/sessions/{session_id}': { path: { session_id: string }; query: { undo?: boolean | undefined }; body: undefined; answer: DeletedSession };
  'GET /api/sessions/{session_id}/messages': { path: { session_id: string }; query: { after?: number | undefined; full?: boolean | undefined }; body: undefined; answer: MessageList };
  'GET /api/sessions/{session_id}/messages/{seq}/files/{index}': { path: { session_id: string; seq: string; index: string }; query: undefined; body: undefined; answer: Blob };
  'GET /api/sessions/{session_id}/state': { path: { session_id: string }; query: undefined; body: undefined; answer: SessionStateView };
  'POST /api/sessions/{session_id}/restore': { path: { session_id: string }; query: undefined; body: undefined; answer: SessionView };
  'POST /api/sessions/{session_id}/undo': { path: { session_id: string }; query: undefined; body: undefined; answer: UndoneTurn };
  'GET /api/sessions/{session_id}/context': { path: { session_id: string }; query: undefined; body: undefined; answer: ContextView };
  'POST /api/sessions/{session_id}/compact': { path: { session_id: string }; query: undefined; body: CompactBody; answer: CompactedSession };
  'GET /api/sessions/{session_id}/versions': { path: { session_id: string }; query: undefined; body: undefined; answer: VersionList };
  'GET /api/sessions/{session_id}/versions/{branch}': { path: { session_id: string; branch: string }; query: undefined; body: undefined; answer: LeftVersion };
  'POST /api/sessions/{session_id}/versions/{branch}': { path: { session_id: string; branch: string }; query: undefined; body: undefined; answer: ChosenVersion };
  'POST /api/sessions/{session_id}/retry': { path: { session_id: string }; query: undefined; body: undefined; answer: RetriedTurn };
  'POST /api/sessions/{session_id}/abort': { path: { session_id: string }; query: undefined; body: undefined; answer: AbortStatus };
  'GET /api/agents': { path: undefined; query: undefined; body: undefined; answer: AgentList };
  'POST /api/agents': { path: undefined; query: undefined; body: NewAgent; answer: AgentView };
  'GET /api/agents/{name}': { path: { name: string }; query: undefined; body: undefined; answer: AgentView };
  'PATCH /api/agents/{name}': { path: { name: string }; query: undefined; body: AgentChange; answer: AgentView };
  'DELETE /api/agents/{name}': { path: { name: string }; query: undefined; body: undefined; answer: DeletedAgent };
  'POST /api/agents/{name}/clone': { path: { name: string }; query: undefined; body: CloneName; answer: AgentView };
  'GET /api/agents/{name}/tools': { path: { name: string }; query: undefined; body: undefined; answer: AgentTools };
  'PATCH /api/agents/{name}/tools': { path: { name: string }; query: undefined; body: Ticks; answer: AgentTools };
  'GET /api/calls': { path: undefined; query: { session?: string | undefined; tool?: string | undefined; origin?: string | undefined; status?: '' | 'error' | 'open' | 'success' | 'approval_denied' | 'auth_required' | 'busy' | 'cancelled' | 'disconnected' | 'execution_failed' | 'file_not_found' | 'file_too_large' | 'hook_cancelled' | 'internal_error' | 'interrupted' | 'invalid_arguments' | 'invalid_path' | 'network_error' | 'permission_denied' | 'permission_denied_forever' | 'policy_denied' | 'question_expired' | 'rate_limited' | 'timeout' | 'tool_disabled' | 'tool_not_available' | 'tool_not_found' | 'unknown_outcome' | undefined; since?: string | undefined; until?: string | undefined; limit?: number | undefined; after?: string | undefined }; body: undefined; answer: CallPage };
  'GET /api/calls/timings': { path: undefined; query: { session?: string | undefined; tool?: string | undefined; origin?: string | undefined }; body: undefined; answer: TimingList };
  'GET /api/calls/{call_id}': { path: { call_id: string }; query: { wait?: number | undefined }; body: undefined; answer: CallRecordView };
  'GET /api/calls/{call_id}/files/{index}': { path: { call_id: string; index: string }; query: undefined; body: undefined; answer: Blob };
  'POST /api/calls/{call_id}/cancel': { path: { call_id: string }; query: undefined; body: undefined; answer: CallRecordView };
  'GET /api/usage': { path: undefined; query: { by?: 'agent' | 'day' | 'model' | 'session' | undefined; session?: string | undefined; since?: string | undefined }; body: undefined; answer: UsageList };
  'GET /api/budgets': { path: undefined; query: undefined; body: undefined; answer: BudgetList };
  'POST /api/budgets/add': { path: undefined; query: undefined; body: BudgetAddition; answer: BudgetList };
  'GET /api/schedules': { path: undefined; query: undefined; body: undefined; answer: ScheduleList };
  'POST /api/schedules': { path: undefined; query: undefined; body: NewSchedule; answer: ScheduleView };
  'GET /api/schedules/{schedule_id}': { path: { schedule_id: string }; query: undefined; body: undefined; answer: ScheduleDetails };
  'DELETE /api/schedules/{schedule_id}': { path: { schedule_id: string }; query: undefined; body: undefined; answer: RemovedSchedule };
  'POST /api/schedules/{schedule_id}/pause': { path: { schedule_id: string }; query: undefined; body: undefined; answer: ScheduleView };
  'POST /api/schedules/{schedule_id}/resume': { path: { schedule_id: string }; query: undefined; body: undefined; answer: ScheduleView };
  'POST /api/schedules/{schedule_id}/run': { path: { schedule_id: string }; query: undefined; body: undefined; answer: ScheduleView };
  'GET /api/questions': { path: undefined; query: { session?: string | undefined }; body: undefined; answer: QuestionList };
  'POST /api/questions/{question_id}/answer': { path: { question_id: string }; query: undefined; body: GivenAnswer; answer: AcceptedAnswer };
  'POST /api/questions/{question_id}/start': { path: { question_id: string }; query: undefined; body: undefined; answer: StartedLogin };
  'GET /api/rules': { path: undefined; query: undefined; body: undefined; answer: RuleList };
  'DELETE /api/rules/{tool}': { path: { tool: string }; query: undefined; body: undefined; answer: ForgottenRules };
  'GET /api/skills': { path: undefined; query: undefined; body: undefined; answer: SkillList };
  'GET /api/skills/{name}': { path: { name: string }; query: undefined; body: undefined; answer: SkillText };
  'PUT /api/skills/{name}': { path: { name: string }; query: undefined; body: SkillConsent; answer: SkillState };
  'GET /api/sessions/{session_id}/skills': { path: { session_id: string }; query: { agent?: string | undefined }; body: undefined; answer: SessionSkills };
  'POST /api/sessions/{session_id}/skills': { path: { session_id: string }; query: undefined; body: SkillSwitch; answer: SessionSkills };
  'GET /api/devices': { path: undefined; query: undefined; body: undefined; answer: DeviceList };
  'PUT /api/devices/{label}': { path: { label: string }; query: undefined; body: NewLabel; answer: Relabelled };
  'DELETE /api/devices/{label}': { path: { label: string }; query: undefined; body: undefined; answer: ForgottenDevice };
  'POST /api/devices/{label}/looked': { path: { label: string }; query: undefined; body: undefined; answer: SeenDevice };
  'POST /api/artifacts': { path: undefined; query: { name?: string | undefined; session?: string | undefined }; body: Blob; answer: ArtifactView };
  'GET /api/artifacts': { path: undefined; query: undefined; body: undefined; answer: ArtifactList };
  'GET /api/artifacts/{artifact_id}': { path: { artifact_id: string }; query: undefined; body: undefined; answer: Blob };
  'GET /api/files': { path: undefined; query: { folder?: string | undefined; agent?: string | undefined }; body: undefined; answer: FileNames };
  'GET /api/live': { path: undefined; query: undefined; body: undefined; answer: Blob };
  'GET /api/mcp': { path: undefined; query: undefined; body: undefined; answer: McpServerList };
  'PUT /api/mcp/{name}': { path: { name: string }; query: { replace?: boolean | undefined }; body: NewMcpServer; answer: McpServerView };
  'PATCH /api/mcp/{name}': { path: { name: string }; query: undefined; body: McpServerChange; answer: McpServerView };
  'DELETE /api/mcp/{name}': { path: { name: string }; query: undefined; body: undefined; answer: RemovedMcpServer };
  'POST /api/mcp/{name}/test': { path: { name: string }; query: undefined; body: undefined; answer: McpServerView };
  'GET /api/mcp/{name}/changes': { path: { name: string }; query: undefined; body: undefined; answer: ChangedTools };
  'POST /api/mcp/{name}/trust': { path: { name: string }; query: undefined; body: undefined; answer: TrustedTools };
  'POST /api/mcp/{name}/call': { path: { name: string }; query: undefined; body: McpToolCall; answer: McpEnvelope };
  'POST /api/mcp/{name}/login': { path: { name: string }; query: undefined; body: undefined; answer: McpLoginPage };
  'POST /api/mcp/{name}/login/wait': { path: { name: string }; query: undefined; body: undefined; answer: McpLoginState };
  'POST /api/mcp/{name}/login/return': { path: { name: string }; query: undefined; body: McpLoginReturn; answer: McpLoginState };
  'POST /api/mcp/{name}/logout': { path: { name: string }; query: undefined; body: undefined; answer: McpLogout };
  'GET /api/models': { path: undefined; query: undefined; body: undefined; answer: Models };
  'GET /api/models/which': { path: undefined; query: { model?: string | undefined; agent?: string | undefined; session?: string | undefined; at_once?: boolean | undefined }; body: undefined; answer: ChosenModel };
  'GET /api/models/offers': { path: undefined; query: undefined; body: undefined; answer: ModelOffers };
  'POST /api/models/test': { path: undefined; query: undefined; body: NewModel; answer: ModelTest };
  'PUT /api/models/{name}': { path: { name: string }; query: undefined; body: NewModel; answer: Models };
  'DELETE /api/models/{name}': { path: { name: string }; query: undefined; body: undefined; answer: RemovedModel };
  'POST /api/models/use': { path: undefined; query: undefined; body: ModelUse; answer: ChosenModel };
  'GET /api/channels': { path: undefined; query: undefined; body: undefined; answer: ChannelList };
  'POST /api/channels/{name}/test': { path: { name: string }; query: undefined; body: ChannelTest; answer: ChannelTested };
  'POST /api/channels/{name}/senders': { path: { name: string }; query: undefined; body: NewSender; answer: SenderChanged };
  'DELETE /api/channels/{name}/senders/{sender}': { path: { name: string; sender: string }; query: undefined; body: undefined; answer: SenderChanged };
  'GET /api/push': { path: undefined; query: undefined; body: undefined; answer: SubscriptionList };
  'POST /api/push': { path: undefined; query: undefined; body: NewSubscription; answer: AddedSubscription };
  'DELETE /api/push/{subscription_id}': { path: { subscription_id: string }; query: undefined; body: undefined; answer: RemovedSubscription };
  'POST /api/push/{subscription_id}/test': { path: { subscription_id: string }; query: undefined; body: undefined; answer: TestedSubscription };
}
