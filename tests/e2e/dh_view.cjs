// What valgrind's DHAT viewer makes of a file, without a browser: node dh_view.cjs DH_VIEW_JS FILE
const fs = require('fs');
const vm = require('vm');

const [viewer, file] = process.argv.slice(2);
const page = {document: {title: '', location: {search: ''}}, window: {}, console, URLSearchParams, Intl};
vm.createContext(page);
vm.runInContext(fs.readFileSync(viewer, 'utf8'), page);
page.text = fs.readFileSync(file, 'utf8');
const sums = vm.runInContext(`
  gData = JSON.parse(text);
  gSelect = {childNodes: gSelectData.map(() => ({})), selectedIndex: 0};
  buildTree();
  ({totalBytes: gRoot._totalBytes, totalBlocks: gRoot._totalBlocks, atTGmaxBytes: gRoot._atTGmaxBytes,
    atTGmaxBlocks: gRoot._atTGmaxBlocks, atTEndBytes: gRoot._atTEndBytes, atTEndBlocks: gRoot._atTEndBlocks})`, page);
console.log(JSON.stringify(sums));
