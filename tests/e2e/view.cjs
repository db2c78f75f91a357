// What a person does with the page of `heapsnap view`, in one run of a browser:
//
//   node view.cjs CHROMIUM EXPECTED [LATE]
//
// EXPECTED: a file of JSON, which view.py writes. LATE: milliseconds between a change of the fragment and the drawing of what it names; a step
// that does not wait for the page then fails each time, and not once in a hundred runs on a busy machine.
//
// Ends with 0 and says what it did, or with the first thing that is wrong.
const assert = require('assert');
const fs = require('fs');
const { chromium } = require('playwright-core');

const [program, expectedFile, late] = process.argv.slice(2);
const expected = JSON.parse(fs.readFileSync(expectedFile, 'utf8'));
const axe = fs.readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const views = ['account', 'owners', 'flame', 'leaks', 'map', 'sizes', 'arenas', 'growth', 'timeline'];
const done = [];

// As heapsnap's text has sizes; written anew, so that a fault of the page's own is seen.
function size(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  for (; (unit === 0 ? bytes : Math.round(bytes * 10) / 10) >= 1024 && unit < 3; ++unit) bytes /= 1024;
  return unit === 0 ? `${bytes.toLocaleString('en-US')} B` : `${bytes.toFixed(1)} ${units[unit]}`;
}

const text = async (page, selector) => (await page.locator(selector).first().innerText()).replace(/\s+/g, ' ');
const fragment = (page) => page.evaluate(() => location.hash);

// As a link from elsewhere: nothing is left of what the page showed before.
async function openLink(page, url) {
  await page.goto('about:blank');
  await page.goto(url);
  await page.waitForSelector('#heading');
}

const open = (page, file, hash) => openLink(page, `file://${file}#${hash}`);

const fragmentIs = (page, wanted) => page.waitForFunction((pattern) => new RegExp(pattern).test(location.hash), wanted.source);

// The page changes its fragment first, and draws what it names when the browser says so: a moment later.
async function redrawn(page, wanted, step) {
  await page.evaluate(() => { document.querySelector('main > section').dataset.old = ''; });
  await step();
  await page.waitForFunction((pattern) => document.querySelector('main > section:not([data-old])') !== null && new RegExp(pattern).test(location.hash), wanted.source);
}

// To another view of a page that is open.
async function turnTo(page, view) {
  if (await fragment(page) !== `#${view}`) await redrawn(page, new RegExp(`^#${view}$`), () => page.evaluate((name) => { location.hash = name; }, view));
  await page.waitForSelector(`section.view-${view}`);
  if (view === 'map') await page.waitForSelector('canvas[data-drawn]');
}

// A link to what is shown now shows it again.
async function sameAgain(page) {
  const before = await text(page, 'main');
  await openLink(page, page.url());
  await page.waitForFunction((shown) => document.querySelector('main').innerText.replace(/\s+/g, ' ') === shown, before);
}

async function violations(page, options) {
  const found = await page.evaluate((how) => window.axe.run(document, { resultTypes: ['violations'], ...how }), options);
  return found.violations.map((each) => `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`).join('\n');
}

async function account(page, { file, report, owners }) {
  await open(page, file, '');
  assert((await page.title()).includes(String(report.pid)));
  assert.equal(await text(page, '.figure.total .value'), size(report.rss.resident));
  for (const [name, amount] of Object.entries(report.rss.rows)) {
    const row = page.locator(`#row-${name}`);
    assert.equal(await row.count(), amount.resident + amount.swapped > 0 ? 1 : 0, name);
    if (await row.count() === 1) assert.equal(await row.locator('.row-head .number').innerText(), size(amount.resident), name);
  }
  for (const advice of report.advice) assert((await text(page, 'main')).toLowerCase().includes(advice.finding.replace(/\s+/g, ' ').toLowerCase()), advice.finding);
  assert((await text(page, 'main')).includes(size(owners.owners[0].retained_bytes)));
  await redrawn(page, /^#account\?row=used$/, () => page.locator('.part.fill-used').click());
  assert.equal(await page.locator('.row.chosen').getAttribute('id'), 'row-used');
  done.push('account');
}

async function ownersTable(page) {
  return page.locator('.view-owners tbody tr').evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())));
}

async function owners(page, { file, owners: said }) {
  await redrawn(page, /^#owners$/, () => page.getByRole('link', { name: 'Owners', exact: true }).click());
  const swatches = await page.locator('.keys .swatch').evaluateAll((all) => all.map((swatch) => getComputedStyle(swatch).backgroundColor));
  assert.equal(new Set(swatches).size, swatches.length, `kinds of owners share a color: ${swatches}`);
  const rows = await ownersTable(page);
  said.owners.slice(0, 20).forEach((owner, i) => {
    assert.equal(rows[i][1], size(owner.retained_bytes), `owner ${i}`);
    assert.equal(rows[i][3], owner.retained_blocks.toLocaleString('en-US'), `owner ${i}`);
    assert(owner.root === '' || rows[i][0].includes(owner.root), `${owner.root} in ${rows[i][0]}`);
  });
  const largest = said.owners.findIndex((owner) => owner.holds !== undefined);
  if (largest < 0) return;
  await redrawn(page, new RegExp(`^#owners\\?zoom=${largest}$`), () => page.locator(`[data-focus="tile-${largest}"]`).click({ position: { x: 20, y: 8 } }));
  const below = await ownersTable(page);
  said.owners[largest].holds.forEach((blocks, i) => {
    assert.equal(below[i][1], size(blocks.retained_bytes), `blocks ${i}`);
    assert(below[i][0].startsWith(`${blocks.count.toLocaleString('en-US')} × `), below[i][0]);
  });
  await page.keyboard.press('Shift+Tab');
  await redrawn(page, /^#owners$/, () => page.goBack());
  assert.deepEqual(await ownersTable(page), rows);
  await page.locator('[data-sort="blocks"]').click();
  const blocks = (await ownersTable(page)).map((row) => Number(row[3].replace(/,/g, '')));
  assert.deepEqual(blocks, [...blocks].sort((a, b) => b - a));
  await fragmentIs(page, /^#owners\?sort=blocks$/);
  await sameAgain(page);
  assert.equal(await page.locator('th[aria-sort="descending"]').innerText().then((head) => head.trim().startsWith('blocks')), true);
  await page.getByRole('searchbox').fill('no such owner');
  assert.equal((await ownersTable(page)).length, 0);
  done.push('owners');
}

async function flame(page, { file, stacks }) {
  await open(page, file, 'flame');
  await page.waitForSelector('g.frame');
  const rows = await page.locator('.view-flame tbody tr').evaluateAll((all) => all.map((row) => [row.children[0].innerText.trim(), row.children[2].innerText.trim()]));
  // What a function allocated itself is the sum over the stacks that it is innermost of.
  const own = new Map();
  for (const stack of stacks.stacks) {
    const name = stack.frames[0].function;
    own.set(name, (own.get(name) ?? 0) + Math.round(stack.live_bytes));
  }
  let compared = 0;
  for (const [name, bytes] of rows) if (own.has(name)) { assert.equal(bytes, size(own.get(name)), name); ++compared; }
  assert(compared > 0);
  const frame = page.locator('g.frame').nth(1);
  const label = await frame.getAttribute('aria-label');
  await page.locator('g.frame').first().focus();
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), label);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await fragmentIs(page, /^#flame\?node=\d+$/);
  await redrawn(page, /^#flame$/, () => page.goBack());
  await redrawn(page, /^#flame\?node=\d+$/, () => page.goForward());
  await sameAgain(page);
  await turnTo(page, 'flame');
  await page.getByRole('searchbox').fill(label.split(/[ (:]/)[0]);
  await fragmentIs(page, /^#flame\?q=/);
  done.push('flame graph');
}

// Of malloc; at 16 bytes a pixel, 10 MiB fit into the window.
function heapBytes(report) {
  return report.segments.reduce((sum, segment) => sum + Number(segment.end) - Number(segment.begin), report.states.mmapped.bytes);
}

async function map(page, { file, report }) {
  await open(page, file, 'map');
  await page.waitForSelector('canvas[data-drawn]');
  const colors = await page.locator('canvas').evaluate((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return new Set(Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3).join())).size;
  });
  assert(colors > 2, `the picture has ${colors} colors`);
  for (const chunk of [...report.largest_used.slice(0, 3), ...report.largest_free.slice(0, 1)]) {
    await page.getByLabel('Search an address').fill(chunk.addr);
    await redrawn(page, new RegExp(`at=${chunk.addr}`), () => page.getByRole('button', { name: 'Find' }).click());
    await page.waitForSelector('.chunk dl');
    const found = await text(page, '.chunk');
    const exact = chunk.size < 1024 ? '' : ` (${chunk.size.toLocaleString('en-US')} bytes)`;
    assert(found.includes(`size ${size(chunk.size)}${exact} state`), `${JSON.stringify(chunk)}: ${found}`);
    assert(found.includes(chunk.state === 'used' || chunk.state === 'mmapped' ? 'in use' : 'free'), found);
  }
  await sameAgain(page);
  if (heapBytes(report) < 16 << 20) {
    done.push('heap map');
    return;
  }
  await redrawn(page, /scale=64/, () => page.getByRole('button', { name: 'Zoom out' }).click());
  await page.waitForSelector('canvas[data-drawn="64"]');
  await redrawn(page, /color=stack/, () => page.getByLabel('Color by').selectOption('stack'));
  await page.waitForSelector('canvas[data-drawn="64"]');
  await page.waitForSelector('.chunk dl');
  const searched = await text(page, '.chunk');
  await page.locator('canvas').hover({ position: { x: 30, y: 5 } });
  await page.waitForFunction((chunk) => document.querySelector('.chunk dl') !== null && document.querySelector('.chunk').innerText.replace(/\s+/g, ' ') !== chunk, searched);
  await page.locator('canvas').focus();
  const before = await fragment(page);
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((hash) => location.hash !== hash, before);
  await page.getByLabel('Search an address').fill('1');
  await page.getByRole('button', { name: 'Find' }).click();
  await page.waitForFunction(() => document.querySelector('.problem').textContent.includes('not in malloc'));
  done.push('heap map');
}

async function growth(page, { file, diff }) {
  await open(page, file, 'growth');
  assert((await text(page, 'main')).includes(size(diff.in_use.bytes.at(-1))));
  const section = diff.sections.find((each) => each.by === 'size');
  await redrawn(page, /by=size/, () => page.locator('[data-focus="by-size"]').click());
  const rows = await page.locator('.view-growth tbody tr').evaluateAll((all) => all.map((row) => row.children[3].innerText.trim()));
  section.rows.slice(0, 20).forEach((row, i) => assert.equal(rows[i], size(row.bytes.at(-1)), row.name));
  await sameAgain(page);
  await open(page, file, 'timeline');
  await page.waitForSelector('.timeline canvas');
  await redrawn(page, /^#timeline\?show=/, () => page.locator('[data-focus="series-1"]').click());
  await sameAgain(page);
  done.push('growth and timeline');
}

async function leaks(page, { file, leaks: said }) {
  await open(page, file, 'leaks');
  if (said.leaked_blocks === 0) {
    assert((await text(page, '.verdict')).includes(`all ${said.blocks_in_use.toLocaleString('en-US')} blocks`));
    done.push('no leaks');
    return;
  }
  assert((await text(page, '.verdict')).startsWith(`${size(said.leaked_bytes)} in ${said.leaked_blocks.toLocaleString('en-US')} blocks`));
  const summaries = await page.locator('.leak summary').allInnerTexts();
  assert.equal(summaries.length, said.groups.length);
  said.groups.forEach((group, i) => assert(summaries[i].startsWith(`${size(group.retained_bytes)} in ${group.retained_blocks.toLocaleString('en-US')} block`), summaries[i]));
  await page.locator('.leak summary').first().click();
  await fragmentIs(page, /^#leaks\?open=0$/);
  await sameAgain(page);
  assert.equal(await page.locator('.leak').first().getAttribute('open'), '');
  await redrawn(page, /^#map/, () => page.locator('.leak[open] a').first().click());
  await page.waitForSelector('.chunk dl');
  assert((await text(page, '.chunk')).includes('in use'));
  done.push('leaks');
}

// What axe-core finds in both themes: all of its rules in the one, those of colors in the other.
async function accessible(page, file, shown) {
  await open(page, file, '');
  await page.evaluate(axe);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  for (const [theme, rules] of [['light', {}], ['dark', { runOnly: ['color-contrast'] }]]) {
    await page.getByLabel('Theme').selectOption(theme);
    for (const view of shown) {
      await turnTo(page, view);
      assert.equal(await violations(page, rules), '', `${view}, ${theme}`);
    }
  }
  assert.notEqual(await ground(), light);
  await openLink(page, page.url());
  assert.notEqual(await ground(), light, 'the theme is kept');
  await page.getByLabel('Theme').selectOption('system');
}

async function appearance(page, { file }) {
  await accessible(page, file, views);
  await page.setViewportSize({ width: 420, height: 800 });
  for (const view of views) {
    await turnTo(page, view);
    assert(await page.evaluate(() => document.documentElement.scrollWidth) <= 420, `${view} is wider than the window`);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  done.push('themes, axe-core, a narrow window');
}

// All that a page shows of a server that somebody else wrote.
async function server(page, given) {
  await account(page, given);
  await owners(page, given);
  if (given.stacks) await flame(page, given);
  else {
    await open(page, given.file, 'flame');
    assert((await text(page, 'main')).includes(`${size(given.owners.bytes_in_use)} in ${given.owners.blocks_in_use.toLocaleString('en-US')} blocks`));
  }
  await leaks(page, given);
  await map(page, given);
  // Of both pages of a server that which has more: what axe-core looks at is the same, and it takes most of the time.
  if (given.stacks) await accessible(page, given.file, ['account', 'owners', 'flame', 'leaks', 'map']);
  done.push(given.name);
}

async function programs(page) {
  await account(page, expected.grown);
  await owners(page, expected.grown);
  await flame(page, expected.grown);
  assert(heapBytes(expected.large.report) > 16 << 20);
  await map(page, expected.large);
  await growth(page, expected.grown);
  await leaks(page, expected.leaking);
  await appearance(page, expected.grown);
  // Names that are markup stay text, and what would turn the text around is written out.
  await open(page, expected.hostile.file, '');
  assert((await text(page, 'h1')).startsWith(expected.hostile.title));
  for (const view of views) await turnTo(page, view);
  assert.equal(await page.locator('img').count(), 0);
}

async function main() {
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light', reducedMotion: 'reduce' });
    const wrong = [];
    page.on('request', (request) => { if (!/^(file|data|blob):/.test(request.url())) wrong.push(`asks for ${request.url()}`); });
    page.on('pageerror', (error) => wrong.push(error.stack));
    page.on('console', (message) => { if (message.type() === 'error') wrong.push(message.text()); });
    page.on('dialog', (dialog) => { wrong.push(`dialog ${dialog.message()}`); void dialog.dismiss(); });
    page.setDefaultTimeout(60000);
    await page.addInitScript((milliseconds) => {
      const listen = window.addEventListener.bind(window);
      window.addEventListener = (name, listener, ...how) =>
        listen(name, name === 'hashchange' ? (event) => setTimeout(listener, milliseconds, event) : listener, ...how);
    }, Number(late ?? 20));
    for (const each of expected.servers) await server(page, each);
    if (expected.grown) await programs(page);
    // Nothing gets out, even if the page were to try.
    assert.deepEqual(wrong, []);
    const [, refused] = await Promise.all([page.waitForEvent('console', (message) => message.text().includes('Content Security Policy')),
      page.evaluate(() => fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused'))]);
    assert.equal(refused, 'refused');
    assert.deepEqual(wrong.filter((each) => !each.includes('Content Security Policy')), []);
  } finally {
    await browser.close();
  }
  console.log(done.join(', '));
}

main().catch((error) => {
  console.error(error.stack);
  process.exit(1);
});
