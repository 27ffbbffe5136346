import { describe, expect, test } from 'vitest';
import type { Json } from '../../src/device/frames.js';
import { problemsOf } from '../../src/device/schema.js';

/** The schema of one parameter `x`, and what is said of a value. */
function of(schema: object | boolean, value: Json): string {
  return problemsOf({ type: 'object', properties: { x: schema } }, { x: value });
}

describe('what does not fit is named with the rule that it breaks', () => {
  test.each<[object | boolean, Json, string]>([
    [false, 1, "'x' is not allowed"],
    [{ type: 'string' }, 1, `'x' must fit {"type":"string"}`],
    [{ type: ['string', 'null'] }, 1, `'x' must fit {"type":["string","null"]}`],
    [{ type: 'integer' }, 1.5, 'integer'],
    [{ type: 'object' }, [], 'object'],
    [{ type: 'object' }, null, 'object'],
    [{ enum: ['low', 'high'] }, 'best', `'x' must fit {"enum":["low","high"]}`],
    [{ const: { a: 1 } }, { a: 2 }, 'const'],
    [{ minimum: 1 }, 0, `{"minimum":1}`],
    [{ maximum: 1 }, 2, 'maximum'],
    [{ exclusiveMinimum: 1 }, 1, 'exclusiveMinimum'],
    [{ exclusiveMaximum: 1 }, 1, 'exclusiveMaximum'],
    [{ minLength: 2 }, '😀', 'minLength'],
    [{ maxLength: 1 }, 'ab', 'maxLength'],
    [{ pattern: '^a' }, 'b', 'pattern'],
    [{ pattern: '^\\d\\-\\d$' }, '12', 'pattern'],
    [{ minItems: 1 }, [], 'minItems'],
    [{ maxItems: 1 }, [1, 2], 'maxItems'],
    [{ items: { type: 'number' } }, [1, 'two'], `'1' must fit {"type":"number"}`],
    [{ prefixItems: [{ type: 'number' }], items: false }, [1, 2], "'1' is not allowed"],
    [{ required: ['a'] }, {}, `{"required":["a"]}`],
    [{ additionalProperties: false }, { a: 1 }, "'a' is not allowed"],
    [{ patternProperties: { '^a': { type: 'string' } } }, { ab: 1 }, `'ab' must fit {"type":"string"}`],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, 4, 'allOf'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 1, 'anyOf'],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, 'oneOf'],
    [{ not: { type: 'string' } }, 'a', 'not'],
  ])('%j and %j', (schema, value, said) => {
    expect(of(schema, value)).toContain(said);
  });

  test('all problems are told at once', () => {
    const schema = { type: 'object', properties: { a: { type: 'string' }, b: { minimum: 1 } }, required: ['c'] };
    expect(problemsOf(schema, { a: 1, b: 0 })).toBe(
      `Invalid arguments: they must fit {"required":["c"]}; 'a' must fit {"type":"string"}; 'b' must fit {"minimum":1}.`,
    );
  });

  test('a schema without end is a problem, not a crash', () => {
    expect(problemsOf({ $ref: '#' }, {})).toContain("can't be checked");
  });
});

describe('what fits has no problems', () => {
  test.each<[object | boolean, Json]>([
    [true, 1],
    [{}, null],
    [{ type: 'number' }, 1],
    [{ type: 'integer' }, 2],
    [{ enum: [{ a: 1, b: [2] }] }, { b: [2], a: 1 }],
    [{ minimum: 1, minLength: 1, minItems: 1, required: ['a'], pattern: 'a' }, null],
    [{ maximum: 1 }, '7'],
    [{ maxLength: 1 }, '😀'],
    [{ exclusiveMinimum: 1 }, 1.1],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, null],
    [{ properties: { toString: { type: 'string' } } }, { a: 1 }],
    [{ additionalProperties: { type: 'number' } }, { a: 1 }],
    [{ format: 'email', unknownWord: 1 }, 'anything'],
    [{ pattern: '^\\d\\-\\d$' }, '1-2'], // which JavaScript has only without `u`
    [{ pattern: '(?P<a>b)' }, 'anything'], // and this not at all: the gateway has checked it
    [{ patternProperties: { '(?P<a>b)': false }, additionalProperties: false }, { b: 1 }],
  ])('%j and %j', (schema, value) => {
    expect(of(schema, value)).toBe('');
  });

  test('a reference to another place of the schema', () => {
    const tree = { type: 'object', properties: { next: { $ref: '#/$defs/a~1b' } }, required: ['next'] };
    const schema = { $defs: { 'a/b': { anyOf: [{ type: 'null' }, { $ref: '#/$defs/tree' }] }, tree }, ...tree };
    expect(problemsOf(schema, { next: { next: { next: null } } })).toBe('');
    expect(problemsOf(schema, { next: { next: 1 } })).toContain('anyOf');
  });
});
