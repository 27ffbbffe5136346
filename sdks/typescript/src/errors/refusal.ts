import { AuthenticationError } from './authentication-error.js';
import { GraphError } from './graph-error.js';
import { type ErrorFacts, HandspanError } from './handspan-error.js';
import { NotFoundError } from './not-found-error.js';
import { PermissionError } from './permission-error.js';
import { RateLimitError } from './rate-limit-error.js';
import { ServerError } from './server-error.js';
import { ValidationError } from './validation-error.js';

const KINDS: Record<number, typeof HandspanError> = {
  400: ValidationError,
  401: AuthenticationError,
  403: PermissionError,
  404: NotFoundError,
  413: ValidationError,
  422: ValidationError,
};

/** The error that an answer with this status means, whatever its body is: our envelope, half of it, or a proxy's page. */
export function refusal(url: string, status: number, headers: Headers, body: string): HandspanError {
  const { error, metadata } = envelope(body);
  const said = typeof error?.message === 'string' ? error.message : strange(url, status, body);
  const facts = {
    status,
    code: typeof error?.code === 'string' ? error.code : '',
    details: Array.isArray(error?.details) ? (error.details as NonNullable<ErrorFacts['details']>) : [],
    requestId: String(metadata?.request_id ?? headers.get('x-request-id') ?? ''),
  };
  if (facts.code.startsWith('GRAPH_')) return new GraphError(said, facts);
  if (status === 429) return new RateLimitError(said, seconds(headers.get('retry-after')), facts);
  const Kind = KINDS[status] ?? (status >= 500 ? ServerError : HandspanError);
  return new Kind(said, facts);
}

/** What came from a proxy, from another server, or from a gateway that has its API elsewhere. */
function strange(url: string, status: number, body: string): string {
  const quoted = body && `: '${body.slice(0, 200)}'`;
  return `${url} answered with status ${status}, and not as a gateway does${quoted}. Is \`baseUrl\` the gateway's address?`;
}

type Fields = Record<string, unknown> | undefined;

function envelope(body: string): { error: Fields; metadata: Fields } {
  let read: unknown;
  try {
    read = JSON.parse(body);
  } catch {
    // Not ours: the status has to do.
  }
  const { error, code, metadata } = (fields(read) ?? {}) as Record<string, unknown>;
  // REST has the sentence and the code side by side, the graph API has both in one object.
  return { error: typeof error === 'string' ? { message: error, code } : fields(error), metadata: fields(metadata) };
}

function fields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

function seconds(header: string | null): number | undefined {
  const count = Number(header ?? Number.NaN);
  return Number.isFinite(count) ? count : undefined;
}
