import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** The path of a file with this content, filled up with zeros to this size; it is removed after the test. */
export function fileOf(name: string, content: string, size = content.length): string {
  const folder = mkdtempSync(join(tmpdir(), 'handspan-file-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  writeFileSync(path, content);
  truncateSync(path, size);
  return path;
}
