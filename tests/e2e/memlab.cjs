// What memlab counts in a heap snapshot: node memlab.cjs FILE
const {getFullHeapFromFile} = require('@memlab/heap-analysis');

getFullHeapFromFile(process.argv[2]).then((heap) => {
  const sums = {blocks: 0, bytes: 0, leaked: 0};
  heap.nodes.forEach((node) => {
    if (node.type === 'synthetic' && node.name === '(leaked)') sums.leaked = node.retainedSize;
    if (node.type === 'synthetic' || node.type === 'hidden') return;
    sums.blocks += 1;
    sums.bytes += node.self_size;
  });
  console.log('\n' + JSON.stringify(sums));
});
