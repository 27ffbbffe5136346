import { describe, expect, test } from 'vitest';
import { callTool, evaluate } from './support/calling.js';
import { Tabs } from './support/tabs.js';

const tabs = new Tabs();

async function pageWith(html: string) {
  const page = await tabs.open();
  await evaluate(page, `document.querySelector('main').innerHTML = ${JSON.stringify(html)}`);
  return page;
}

describe('read_dom', () => {
  test('refuses what is no selector', async () => {
    const page = await pageWith('');
    const { error } = await callTool(page, 'read_dom', { selector: 'p[' });
    expect(error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining("'p['") });
  });

  test('finds nothing without a fuss', async () => {
    const page = await pageWith('');
    expect((await callTool(page, 'read_dom', { selector: 'table' })).value).toEqual({ count: 0, elements: [] });
  });

  test('reads text as the person sees it, HTML and attributes', async () => {
    const page = await pageWith('<p class="a b" title="t">One <b>two</b><span style="display:none">three</span></p>');
    const read = async (what: string) => (await callTool(page, 'read_dom', { selector: 'main p', what })).value;
    expect(await read('text')).toEqual({ count: 1, elements: [{ tag: 'p', text: 'One two' }] });
    expect(await read('html')).toMatchObject({ elements: [{ html: expect.stringContaining('<b>two</b>') }] });
    expect(await read('attributes')).toEqual({
      count: 1,
      elements: [{ tag: 'p', attributes: { class: 'a b', title: 't' } }],
    });
  });

  test('keeps to the number of elements that it is asked for', async () => {
    const page = await pageWith('<i>x</i>'.repeat(150));
    const { value } = await callTool(page, 'read_dom', { selector: 'i', limit: 3 });
    expect(value).toEqual({ count: 150, elements: Array(3).fill({ tag: 'i', text: 'x' }), truncated: true });
    const most = await callTool(page, 'read_dom', { selector: 'i', limit: 1000 });
    expect(most.value).toMatchObject({ elements: Array(100).fill({ tag: 'i', text: 'x' }) });
  });

  test.each(['text', 'html', 'attributes'])('never reads more %s than an answer may hold', async (what) => {
    const page = await pageWith('');
    await evaluate(
      page,
      `document.querySelector('main').innerHTML = ('<p title="' + 'y'.repeat(30000) + '">' + 'x'.repeat(30000) + '</p>').repeat(9)`,
    );
    const { value } = await callTool(page, 'read_dom', { selector: 'main p', what });
    expect(value).toMatchObject({ count: 9, truncated: true });
    expect(JSON.stringify(value).length).toBeLessThan(51_000);
  });

  test('keeps passwords and hidden fields to the page', async () => {
    const form =
      '<form><input type="PASSWORD" value="s3cret"><input type=hidden value="t0ken"><input value="name"></form>';
    const page = await pageWith(form);
    const html = await callTool(page, 'read_dom', { selector: 'form', what: 'html' });
    expect(JSON.stringify(html)).not.toMatch(/s3cret|t0ken/);
    expect(JSON.stringify(html)).toContain('name');
    const attributes = await callTool(page, 'read_dom', { selector: 'input', what: 'attributes' });
    expect(JSON.stringify(attributes)).not.toMatch(/s3cret|t0ken/);
    expect(await evaluate(page, "document.querySelector('input').value")).toBe('s3cret');
  });
});

describe('page_selection', () => {
  test('is empty where nothing is marked', async () => {
    const page = await pageWith('<p>text</p>');
    expect((await callTool(page, 'page_selection')).value).toEqual({ text: '' });
  });

  test('is the text that the person has marked, in the page or in a field', async () => {
    const page = await pageWith('<p>Mark me</p><textarea>One two three</textarea>');
    await evaluate(page, "getSelection().selectAllChildren(document.querySelector('main p'))");
    expect((await callTool(page, 'page_selection')).value).toEqual({ text: 'Mark me' });
    await evaluate(
      page,
      "document.querySelector('textarea').focus(); document.querySelector('textarea').setSelectionRange(4, 7)",
    );
    expect((await callTool(page, 'page_selection')).value).toEqual({ text: 'two' });
  });

  test('never is what stands in a field for passwords', async () => {
    const page = await pageWith('<input type="password" value="s3cret">');
    await evaluate(page, "document.querySelector('input').focus(); document.querySelector('input').select()");
    expect(JSON.stringify(await callTool(page, 'page_selection'))).not.toContain('s3cret');
  });

  test('comes cut when it is long', async () => {
    const page = await pageWith(`<p>${'x'.repeat(60_000)}</p>`);
    await evaluate(page, "getSelection().selectAllChildren(document.querySelector('main p'))");
    const { value } = await callTool(page, 'page_selection');
    expect(value).toEqual({ text: 'x'.repeat(50_000), truncated: true, characters: 60_000 });
  });
});

describe('storage', () => {
  test('keeps notes under its own prefix, and sees no others', async () => {
    const page = await tabs.open();
    await evaluate(page, "localStorage.setItem('session', 'of the page')");
    await callTool(page, 'storage_write', { key: 'b', value: '2' });
    await callTool(page, 'storage_write', { key: 'a', value: '1' });
    expect((await callTool(page, 'storage_read')).value).toEqual({ keys: ['a', 'b'] });
    expect((await callTool(page, 'storage_read', { key: 'a' })).value).toEqual({ key: 'a', value: '1' });
    expect((await callTool(page, 'storage_read', { key: 'session' })).value).toEqual({ key: 'session', value: null });
    expect((await callTool(page, 'storage_write', { key: 'a' })).value).toEqual({ key: 'a', removed: true });
    expect(await evaluate(page, 'Object.keys(localStorage).sort()')).toEqual(['handspan:b', 'session']);
  });

  test('lists so many names and no more', async () => {
    const page = await tabs.open();
    await evaluate(page, "for (let n = 0; n < 201; n++) localStorage.setItem('handspan:' + n, '')");
    const { value } = await callTool(page, 'storage_read');
    expect(value).toMatchObject({ truncated: true });
    expect((value as { keys: string[] }).keys).toHaveLength(200);
  });

  test('refuses what is too long, and tells when it is full', async () => {
    const page = await tabs.open();
    const long = await callTool(page, 'storage_write', { key: 'a', value: 'x'.repeat(50_001) });
    expect(long.error?.code).toBe('invalid_arguments');
    await evaluate(page, "localStorage.setItem('rest', 'x'.repeat(5 * 1024 * 1024 - 100))");
    const full = await callTool(page, 'storage_write', { key: 'a', value: 'x'.repeat(500) });
    expect(full.error?.message).toContain('The storage of this page is full: remove notes');
  });

  test('that the browser does not give is a no', async () => {
    const page = await tabs.open();
    const script =
      "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError') } })";
    await evaluate(page, `${script}; undefined`);
    expect((await callTool(page, 'storage_read')).error?.code).toBe('permission_denied');
  });
});

test('page_title is the title and the address', async () => {
  const page = await tabs.open();
  expect((await callTool(page, 'page_title')).value).toEqual({
    title: 'A page of the tests',
    url: `${tabs.site.url}/`,
  });
});

test('get_browser_locale and device_info tell what the browser knows', async () => {
  const page = await tabs.open();
  const place = { locale: 'de-DE', time_zone: 'Europe/Berlin' };
  expect((await callTool(page, 'get_browser_locale')).value).toEqual({ ...place, languages: ['de-DE'] });
  expect((await callTool(page, 'device_info')).value).toMatchObject({ ...place, online: true, mobile: false });
});

test('battery tells its charge', async () => {
  const page = await tabs.open();
  const { value } = await callTool(page, 'battery');
  expect(value).toMatchObject({
    percent: expect.any(Number),
    charging: expect.any(Boolean),
    seconds_until_empty: null,
  });
});

test('vibrate works after a click, and refuses a pattern without end', async () => {
  const page = await tabs.open();
  const pressed = await callTool(page, 'vibrate', { pattern: [10, 5, 10] }, { gesture: true });
  expect(pressed.value).toEqual({ vibrating: true });
  for (const pattern of [[2001], [-1], Array(11).fill(1)]) {
    expect((await callTool(page, 'vibrate', { pattern })).error?.code, String(pattern)).toBe('invalid_arguments');
  }
});
