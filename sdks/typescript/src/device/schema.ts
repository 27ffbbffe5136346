import type { Json, JsonObject } from './frames.js';

type Schema = JsonObject | boolean;
type Fits = (schema: Json) => boolean;

/** Keywords that a value fits or not. What is not here passes: the gateway has checked every keyword before. */
const RULES: Record<string, (rule: never, value: Json, fits: Fits) => boolean> = {
  type: (rule: string | string[], value) => {
    const type = typeOf(value);
    return [rule].flat().some((one) => one === type || (one === 'number' && type === 'integer'));
  },
  enum: (rule: Json[], value) => rule.some((one) => sortKeys(one) === sortKeys(value)),
  const: (rule: Json, value) => sortKeys(rule) === sortKeys(value),
  allOf: (rule: Json[], _, fits) => rule.every(fits),
  anyOf: (rule: Json[], _, fits) => rule.some(fits),
  oneOf: (rule: Json[], _, fits) => rule.filter(fits).length === 1,
  not: (rule: Json, _, fits) => !fits(rule),
  minimum: (rule: number, value) => !(number(value) < rule),
  maximum: (rule: number, value) => !(number(value) > rule),
  exclusiveMinimum: (rule: number, value) => !(number(value) <= rule),
  exclusiveMaximum: (rule: number, value) => !(number(value) >= rule),
  minLength: (rule: number, value) => !(length(value) < rule),
  maxLength: (rule: number, value) => !(length(value) > rule),
  minItems: (rule: number, value) => !(count(value) < rule),
  maxItems: (rule: number, value) => !(count(value) > rule),
  pattern: (rule: string, value) => typeof value !== 'string' || (matches(rule, value) ?? true),
  required: (rule: string[], value) => !isObject(value) || rule.every((key) => Object.hasOwn(value, key)),
};

/** What is wrong with a call's arguments, in words that a model can act on; empty when nothing is (ws.md 5.11). */
export function problemsOf(parameters: object, args: Json): string {
  try {
    const found = check(parameters as JsonObject, args, 'they', parameters as JsonObject);
    return found.length ? `Invalid arguments: ${found.slice(0, 20).join('; ')}.` : '';
  } catch (error) {
    return `Invalid arguments: they can't be checked (${error}).`;
  }
}

function check(schema: Schema, value: Json, where: string, root: JsonObject): string[] {
  if (!isObject(schema)) return schema ? [] : [`${where} is not allowed`];
  const fits: Fits = (inner) => !check(inner as Schema, value, where, root).length;
  const problems = Object.entries(schema)
    .filter(([word, rule]) => Object.hasOwn(RULES, word) && !RULES[word]?.(rule as never, value, fits))
    .map(([word, rule]) => `${where} must fit ${JSON.stringify({ [word]: rule }).slice(0, 500)}`);
  if (typeof schema.$ref === 'string') problems.push(...check(refer(schema.$ref, root), value, where, root));
  if (value && typeof value === 'object') {
    for (const [key, one] of Object.entries(value)) {
      for (const inner of schemasOf(schema, value, key)) problems.push(...check(inner, one, `'${key}'`, root));
    }
  }
  return problems;
}

/** The schemas for what an object has under this name, or an array at this place. */
function schemasOf(schema: JsonObject, value: Json, key: string): Schema[] {
  const { properties, patternProperties, additionalProperties, prefixItems, items } = schema;
  const own = Array.isArray(value) ? prefixItems : properties;
  const known = own && Object.hasOwn(own as object, key) ? [(own as JsonObject)[key]] : [];
  if (Array.isArray(value)) return (known.length ? known : [items ?? true]) as Schema[];
  for (const [pattern, inner] of Object.entries(patternProperties ?? {})) {
    const isFor = matches(pattern, key);
    if (isFor !== false) known.push(isFor ? (inner as Json) : true);
  }
  return (known.length ? known : [additionalProperties ?? true]) as Schema[];
}

/** Whether the text has the pattern; undefined for one that is not of this language, as the gateway's may be. */
function matches(pattern: string, text: string): boolean | undefined {
  for (const flags of ['u', '']) {
    try {
      return new RegExp(pattern, flags).test(text);
    } catch {
      // the other way, or none
    }
  }
  return undefined;
}

/** The schema at a place of the same document: `#/$defs/x`. */
function refer(ref: string, root: JsonObject): Schema {
  const steps = decodeURIComponent(ref).split('/').slice(1);
  return steps.reduce<Json>(
    (found, step) => (found as JsonObject)[step.replaceAll('~1', '/').replaceAll('~0', '~')] as Json,
    root,
  ) as Schema;
}

function isObject(value: Json): value is JsonObject {
  return typeOf(value) === 'object';
}

function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

// NaN is neither more nor less than any bound: what is of another type passes.

function number(value: Json): number {
  return typeof value === 'number' ? value : Number.NaN;
}

function length(value: Json): number {
  return typeof value === 'string' ? [...value].length : Number.NaN;
}

function count(value: Json): number {
  return Array.isArray(value) ? value.length : Number.NaN;
}

/** JSON text in which the order of an object's fields does not matter. */
function sortKeys(value: Json): string {
  return JSON.stringify(value, (_, one) => (isObject(one) ? Object.fromEntries(Object.entries(one).sort()) : one));
}
