// Pictures of pages of `heapsnap view`, by Chromium:  node page_pictures.cjs CHROMIUM < SHOTS
//
// SHOTS: JSON, a list of {page, fragment, width, height, theme, picture}; a picture that ends in .pdf is what is printed.
const fs = require('fs');
const { chromium } = require('playwright-core');

async function main() {
  const browser = await chromium.launch({ executablePath: process.argv[2], args: ['--no-sandbox'] });
  for (const shot of JSON.parse(fs.readFileSync(0, 'utf8'))) {
    const page = await browser.newPage({ viewport: { width: shot.width, height: shot.height }, colorScheme: shot.theme, reducedMotion: 'reduce' });
    page.setDefaultTimeout(120000);
    await page.goto(`file://${shot.page}#${shot.fragment}`);
    await page.waitForSelector('#heading');
    if (shot.fragment.startsWith('map')) await page.waitForSelector('canvas[data-drawn]');
    if (shot.fragment.includes('at=')) await page.waitForSelector('.chunk dl');
    if (shot.picture.endsWith('.pdf')) await page.pdf({ path: shot.picture, format: 'A4', printBackground: true });
    else await page.screenshot({ path: shot.picture });
    await page.close();
  }
  await browser.close();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
