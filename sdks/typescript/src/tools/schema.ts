import { codedError } from '../errors/coded-error.js';

/** What a schema library offers by the Standard Schema convention, zod among them; nothing of it is imported here. */
export interface StandardSchema<Output = unknown> {
  readonly '~standard': {
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly jsonSchema?: { readonly input: (options: { target: string }) => object };
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined;
  };
}

interface Issue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

/** Makes JSON Schema of a library's own schema, as `z.toJSONSchema` does. */
// biome-ignore lint/suspicious/noExplicitAny: each library's function takes its own kinds of schema and options
export type ToJsonSchema = (schema: any, options?: any) => object;

/** What a handler's arguments are: known for a schema of a library, anything for JSON Schema. */
export type ArgumentsOf<Parameters> = Parameters extends { '~standard': { types?: infer Types } }
  ? NonNullable<Types> extends { output: infer Output }
    ? Output
    : // biome-ignore lint/suspicious/noExplicitAny: the seed's public type
      any
  : // biome-ignore lint/suspicious/noExplicitAny: the seed's public type
    any;

/** Whether this is a library's schema, and not JSON Schema. */
export function isStandard(parameters: object): parameters is StandardSchema {
  return '~standard' in parameters;
}

/** The JSON Schema of a tool's parameters. */
export function jsonSchema(parameters: object, convert?: ToJsonSchema): object {
  if (!isStandard(parameters)) return parameters;
  // `input`, since that is what the model writes: there a field with a default may be missing.
  if (convert !== undefined) return convert(parameters, { io: 'input' });
  const standard = parameters['~standard'].jsonSchema;
  if (standard !== undefined) return standard.input({ target: 'draft-2020-12' });
  // zod before 4.2 has only a method of its own.
  const own = (parameters as { toJSONSchema?: (options: object) => object }).toJSONSchema;
  if (typeof own === 'function') return own.call(parameters, { io: 'input' });
  throw new TypeError(
    'This is no JSON Schema. Give the client one: new HandspanClient({ toJSONSchema: z.toJSONSchema }).',
  );
}

/** The arguments as the schema's library gives them, with its defaults; throws what is wrong with them. */
export async function validate(parameters: object | undefined, args: unknown): Promise<unknown> {
  if (parameters === undefined || !isStandard(parameters)) return args; // the gateway validated them: graph.md 5.7
  const found = await parameters['~standard'].validate(args);
  if (found.issues === undefined) return found.value;
  const said = found.issues.map((issue) => `${place(issue)}${issue.message}`).join('; ');
  throw codedError(`The arguments are not valid: ${said}`, 'invalid_arguments');
}

function place(issue: Issue): string {
  const path = (issue.path ?? []).map((step) => String(typeof step === 'object' ? step.key : step));
  return path.length === 0 ? '' : `${path.join('.')}: `;
}
