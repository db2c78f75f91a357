// Chunks by size: used and free, and the largest ones.
import type { Data, LargeChunk, SizeClass } from "./data";
import { h } from "./dom";
import { count, percent, size } from "./format";
import { linkTo, note, type Params } from "./route";
import { bar, parseSort, sortText, table } from "./table";
import type { View } from "./views";

function rangeText(sizes: SizeClass): string {
  const text = (bytes: number) => bytes < 1024 ? count(bytes) : size(bytes);
  return sizes.end - sizes.begin <= 16 ? `${text(sizes.begin)}${sizes.begin < 1024 ? " B" : ""}` : `${text(sizes.begin)} – ${text(sizes.end)}${sizes.end <= 512 ? " B" : ""}`;
}

// At least a line wide where there is anything.
function histogramBar(fill: string, share: number): HTMLElement {
  return h("span", { class: share > 0 ? `histogram-bar ${fill}` : "histogram-bar none", style: `width:${100 * share}%` });
}

function histogram(classes: SizeClass[]): HTMLElement {
  const most = Math.max(1, ...classes.map((each) => Math.max(each.used.bytes, each.free.bytes)));
  return h("div", { class: "histogram", "aria-hidden": "true" }, ...classes.map((each) => h("div", { class: "histogram-row" },
    h("span", { class: "histogram-name" }, rangeText(each)),
    h("span", { class: "histogram-bars" },
      histogramBar("fill-used", each.used.bytes / most), histogramBar("fill-bins", each.free.bytes / most)))));
}

function chunkTable(caption: string, chunks: LargeChunk[]): HTMLElement {
  return table(caption, chunks, [
    { name: "addr", title: "address", cell: (row) => h("a", { href: linkTo("map", { at: row.addr }) }, row.addr) },
    { name: "size", title: "size", numeric: true, value: (row) => row.size, cell: (row) => size(row.size) },
    { name: "state", title: "state", value: (row) => row.state, cell: (row) => row.state === "used" ? "in use" : row.state },
    { name: "arena", title: "arena", numeric: true, value: (row) => row.arena, cell: (row) => row.arena < 0 ? "" : String(row.arena) },
  ], { by: "size", down: true }, () => undefined);
}

function draw(data: Data, params: Params): HTMLElement {
  const { report } = data;
  const used = report.size_classes.reduce((sum, each) => sum + each.used.bytes, 0);
  const sort = parseSort(params.sort, "size");
  return h("div", {},
    h("p", {}, "Chunks by size, malloc's header included: what is in use, and what is free. Many free chunks of a size that nobody asks for is fragmentation."),
    h("ul", { class: "keys" }, h("li", {}, h("span", { class: "swatch fill-used" }), " in use"), h("li", {}, h("span", { class: "swatch fill-bins" }), " free")),
    histogram(report.size_classes),
    table("Chunks by size", report.size_classes, [
      { name: "size", title: "size", value: (row) => -row.begin, cell: rangeText },
      { name: "used", title: "in use", numeric: true, value: (row) => row.used.count, cell: (row) => count(row.used.count) },
      { name: "bytes", title: "bytes in use", numeric: true, value: (row) => row.used.bytes, cell: (row) => bar(row.used.bytes / Math.max(1, used), `${size(row.used.bytes)}, ${percent(row.used.bytes, used)}`) },
      { name: "free", title: "free", numeric: true, value: (row) => row.free.count, cell: (row) => count(row.free.count) },
      { name: "free-bytes", title: "bytes free", numeric: true, value: (row) => row.free.bytes, cell: (row) => size(row.free.bytes) },
    ], sort, (next) => note("sizes", { ...params, sort: sortText(next, "size") })),
    h("h3", {}, "Exact sizes with the most bytes in use"),
    table("Exact sizes", report.largest_sizes, [
      { name: "exact", title: "size", value: (row) => -row.begin, cell: rangeText },
      { name: "used", title: "in use", numeric: true, value: (row) => row.used.count, cell: (row) => count(row.used.count) },
      { name: "bytes", title: "bytes in use", numeric: true, value: (row) => row.used.bytes, cell: (row) => bar(row.used.bytes / Math.max(1, used), `${size(row.used.bytes)}, ${percent(row.used.bytes, used)}`) },
      { name: "free", title: "free", numeric: true, value: (row) => row.free.count, cell: (row) => count(row.free.count) },
    ], { by: "bytes", down: true }, () => undefined),
    h("div", { class: "two" },
      h("section", {}, h("h3", {}, "Largest in use"), chunkTable("Largest chunks in use", report.largest_used)),
      h("section", {}, h("h3", {}, "Largest free"), chunkTable("Largest free chunks", report.largest_free))));
}

export const sizesView: View = {
  name: "sizes", title: "Sizes", draw,
  missing: (data) => data.report.size_classes.length > 0 ? "" : "malloc's heap has no chunks.",
};
