// The vectors of protocol/vectors/device: read, and compared as their README says.
import { readdirSync, readFileSync } from 'node:fs';
import type { Json, JsonObject } from '../../../src/device/frames.js';
import type { DeviceTool } from '../../../src/device/tool.js';

const PROTOCOL = new URL('../../../../../protocol/', import.meta.url);

export interface Case {
  name: string;
  clauses: string[];
  rows?: string[];
  client: { label?: string; concurrency?: number; state?: boolean; role?: 'device' | 'chat'; messages?: boolean };
  tools: (DeviceTool & { code?: boolean })[];
  steps: JsonObject[];
}

/** Every case, with a name to show. */
export function cases(): [string, Case][] {
  const folder = new URL('vectors/device/', PROTOCOL);
  return readdirSync(folder)
    .filter((name) => name.endsWith('.json'))
    .sort()
    .flatMap((name) => {
      const file: { cases: Case[] } = JSON.parse(readFileSync(new URL(name, folder), 'utf8'));
      return file.cases.map((one): [string, Case] => [`${name.replace('.json', '')}: ${one.name}`, one]);
    });
}

/** The frame of a client without the fields that have their default. */
export function lean(frame: Json): Json {
  if (!isObject(frame) || typeof frame.type !== 'string') return frame;
  const schema = JSON.parse(readFileSync(new URL(`schema/client/${frame.type}.json`, PROTOCOL), 'utf8'));
  const kept = Object.entries(frame).filter(([key, value]) => {
    const known = schema.properties[key] ?? {};
    return !('default' in known) || JSON.stringify(known.default) !== JSON.stringify(value);
  });
  return Object.fromEntries(kept);
}

/** Compares, and remembers what `$set` says. */
export class Matching {
  private readonly known = new Map<string, Json>();

  matches(pattern: Json, value: Json | undefined): boolean {
    if (value === undefined) return false;
    if (pattern === '$any' || pattern === '$optional') return true;
    if (pattern === '$text') return typeof value === 'string' && value !== '';
    if (typeof pattern === 'string' && pattern.startsWith('$set:')) {
      this.known.set(pattern.slice(5), value);
      return true;
    }
    const wanted = this.filled(pattern);
    if (Array.isArray(wanted)) {
      const isLong = Array.isArray(value) && value.length === wanted.length;
      return isLong && wanted.every((one, index) => this.matches(one, value[index]));
    }
    if (!isObject(wanted)) return wanted === value;
    if (Array.isArray(wanted.$has)) return Array.isArray(value) && wanted.$has.every((one) => value.includes(one));
    if (Array.isArray(wanted.$lacks)) return Array.isArray(value) && !wanted.$lacks.some((one) => value.includes(one));
    if (!isObject(value)) return false;
    const keys = Object.keys(wanted).filter((key) => wanted[key] !== '$optional' || key in value);
    if (keys.length !== Object.keys(value).length) return false;
    return keys.every((key) => this.matches(wanted[key] as Json, value[key]));
  }

  /** The value with what was remembered in place of `$get`. */
  filled(value: Json): Json {
    if (typeof value === 'string' && value.startsWith('$get:')) return this.known.get(value.slice(5)) as Json;
    if (Array.isArray(value)) return value.map((one) => this.filled(one));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, this.filled(inner)]));
  }
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
