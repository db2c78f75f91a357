// What grew between snapshots, by owner, type, stack, size and more.
import type { Data, DiffRow, DiffSection } from "./data";
import { h, svg } from "./dom";
import { counted, fileName, signedSize, size, time } from "./format";
import { linkTo, note, type Params } from "./route";
import { bar, filterField, parseSort, sortText, table } from "./table";
import { rowTexts } from "./vocabulary";
import type { View } from "./views";

// Of all that heapsnap diff adds up by, and why it may not: the words of its JSON (docs/json.md).
const titles: Record<string, string> = {
  owner: "Owners", type: "Types", stack: "Functions and stacks", leak: "Leaks", size: "Sizes", arena: "Arenas", rss: "Account",
  class: "Classes", context: "Memory contexts",
};
const lacks: Record<string, string> = {
  "no-references": "a snapshot has no references", "not-tracked": "the process was not tracked", "residency-unknown": "what is resident is not known",
  "no-objects": "a snapshot has no objects of a language runtime", "no-contexts": "a snapshot has no memory contexts of PostgreSQL",
};

export function sparkline(values: number[], label: string): SVGElement {
  const known = values.map((value, i): [number, number] => [i, value]).filter(([, value]) => value >= 0);
  const most = Math.max(1, ...known.map(([, value]) => value));
  const least = Math.min(...known.map(([, value]) => value));
  const range = Math.max(1, most - least);
  const width = 90;
  const points = known.map(([i, value]) => `${(values.length < 2 ? 0.5 : i / (values.length - 1)) * (width - 4) + 2},${18 - 14 * (value - least) / range}`);
  return svg("svg", { class: "spark", width, height: 20, viewBox: `0 0 ${width} 20`, role: "img", "aria-label": label },
    svg("polyline", { points: points.join(" "), fill: "none" }));
}

interface Line { row: DiffRow; depth: number; label: string }

function lines(rows: DiffRow[], by: string): Line[] {
  const list: Line[] = [];
  const add = (row: DiffRow, depth: number) => {
    list.push({ row, depth, label: by === "rss" ? rowTexts[row.name]?.title ?? row.name : row.name });
    if (depth < 3) for (const held of row.holds ?? []) add(held, depth + 1);
  };
  for (const row of rows) add(row, 0);
  return list;
}

function last(values: number[]): number {
  return values[values.length - 1] ?? -1;
}

function known(bytes: number): string {
  return bytes < 0 ? "–" : size(bytes);
}

function draw(data: Data, params: Params): HTMLElement {
  const diff = data.diff!;
  const shown = diff.sections.filter((section) => section.comparable);
  const section: DiffSection | undefined = shown.find((each) => each.by === params.by) ?? shown[0];
  const first = diff.snapshots[0]!;
  const newest = diff.snapshots[diff.snapshots.length - 1]!;
  const head = h("p", {}, `From ${fileName(first.snapshot)} (${time(first.taken_at)}) to ${fileName(newest.snapshot)} (${time(newest.taken_at)}), ${counted(diff.snapshots.length, "snapshot", "snapshots")} of `,
    diff.same_process ? "one process" : diff.same_build ? "several processes of one build" : "different builds of the program", ": memory in use ",
    h("strong", {}, signedSize(diff.in_use.growth)), ` to ${size(last(diff.in_use.bytes))}`,
    last(diff.resident.bytes) >= 0 ? `, resident memory ${signedSize(diff.resident.growth)} to ${size(last(diff.resident.bytes))}.` : ".");
  if (section === undefined) return h("div", {}, head, h("p", { class: "missing" }, "Nothing can be compared."));
  const all = lines(section.rows, section.by);
  const most = Math.max(1, ...all.map((line) => Math.abs(line.row.growth)));
  const state = { ...params };
  const sort = parseSort(params.sort, "rank");
  const listed = h("div");
  const list = (filter: string) => listed.replaceChildren(table(`Growth by ${section.by}`, all.filter((line) => line.label.toLowerCase().includes(filter.toLowerCase())), [
    { name: "name", title: "what", value: (line) => line.label, cell: (line) => h("span", { class: "clamped", title: line.label, style: `padding-left:${line.depth * 1.2}em` }, line.label,
      line.row.only_grows ? h("span", { class: "tag" }, "only grows") : null) },
    { name: "trend", title: "trend", cell: (line) => sparkline(line.row.bytes, `${known(line.row.bytes[0] ?? -1)} to ${known(last(line.row.bytes))}`) as unknown as Node },
    { name: "first", title: "first", numeric: true, value: (line) => line.row.bytes[0] ?? -1, cell: (line) => known(line.row.bytes[0] ?? -1) },
    { name: "last", title: "last", numeric: true, value: (line) => last(line.row.bytes), cell: (line) => known(last(line.row.bytes)) },
    { name: "growth", title: "growth", numeric: true, value: (line) => line.row.growth,
      cell: (line) => bar(Math.abs(line.row.growth) / most, signedSize(line.row.growth), line.row.growth >= 0 ? "var(--grew)" : "var(--shrank)") },
  ], sort, (next) => { state.sort = sortText(next, "rank"); note("growth", state); }));
  list(params.q ?? "");
  const missing = diff.sections.filter((each) => !each.comparable && each.lacks.some((lack) => lack !== ""))
    .map((each) => `${titles[each.by] ?? each.by}: ${lacks[each.lacks.find((lack) => lack !== "") ?? ""] ?? "not known"}`);
  return h("div", {}, head,
    h("nav", { "aria-label": "What to add up by", class: "tabs" }, h("ul", {}, ...shown.map((each) => h("li", {}, h("a", {
      href: linkTo("growth", { ...params, by: each.by, q: undefined }), "data-focus": `by-${each.by}`, "aria-current": each === section ? "true" : undefined,
    }, titles[each.by] ?? each.by, h("span", { class: "number" }, ` ${signedSize(each.total.growth)}`)))))),
    filterField("Filter by name", params.q ?? "", (text) => { state.q = text; note("growth", state); list(text); }),
    all.length === 0 ? h("p", {}, "Nothing changed.") : listed,
    section.unchanged > 0 ? h("p", { class: "muted" }, `${counted(section.unchanged, "row", "rows")} did not change.`) : null,
    missing.length === 0 ? null : h("p", { class: "muted" }, `Not compared: ${missing.join("; ")}.`));
}

export const growthView: View = {
  name: "growth", title: "Growth", draw, missing: (data) => data.diff !== undefined ? "" : "There is one snapshot: growth needs two. heapsnap view OLD NEW -o FILE",
};
