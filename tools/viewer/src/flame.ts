// Flame graph of the memory in use, by call stack or by owner, and how it grew between two snapshots.
import flamegraph, { type FlameNode } from "d3-flame-graph";
import { select } from "d3-selection";
import type { Data, Flame, FlameFrame } from "./data";
import { h, styled } from "./dom";
import { count, fileName, percent, signedSize, size, time } from "./format";
import { linkTo, note, step, type Params } from "./route";
import { bar, filterField, parseSort, sortText, table } from "./table";
import type { View } from "./views";

interface Datum {
  node: number;
  name: string;
  frame?: FlameFrame;
  value: number;   // bytes with all above
  blocks: number;
  before: number;
  own: number;
  children: Datum[];
}

interface FunctionRow { name: string; own: number; total: number; blocks: number; growth: number }

const kCell = 20;
const kOwn = 2;       // columns of a node: parent, frame, bytes, blocks, and both of the snapshot before
const kBefore = 4;

// Children come after their parents.
function treeOf(flame: Flame): Datum[] {
  const all: Datum[] = flame.nodes.map((columns, node) => {
    const frame = node === 0 ? undefined : flame.frames[columns[1]!];
    return {
      node, frame, name: frame?.name ?? "all memory in use", value: columns[kOwn]!, blocks: columns[kOwn + 1]!, before: columns[kBefore] ?? 0,
      own: columns[kOwn]!, children: [],
    };
  });
  for (let i = all.length - 1; i > 0; --i) {
    const parent = all[flame.nodes[i]![0]!]!;
    parent.value += all[i]!.value;
    parent.blocks += all[i]!.blocks;
    parent.before += all[i]!.before;
    parent.children.push(all[i]!);
  }
  for (const datum of all) datum.children.sort((a, b) => b.value - a.value);
  return all;
}

// By name, a function counts once however often it occurs in a stack.
function functionsOf(root: Datum): FunctionRow[] {
  const rows = new Map<string, FunctionRow>();
  const open = new Map<string, number>();
  const visit = (datum: Datum) => {
    const row = rows.get(datum.name) ?? { name: datum.name, own: 0, total: 0, blocks: 0, growth: 0 };
    rows.set(datum.name, row);
    row.own += datum.own;
    const depth = open.get(datum.name) ?? 0;
    if (depth === 0) {
      row.total += datum.value;
      row.blocks += datum.blocks;
      row.growth += datum.value - datum.before;
    }
    open.set(datum.name, depth + 1);
    for (const child of datum.children) visit(child);
    open.set(datum.name, depth);
  };
  for (const child of root.children) visit(child);
  return [...rows.values()].filter((row) => row.total > 0 || row.growth !== 0);
}

// The same module always has the same of eight colors.
function moduleColor(datum: Datum): string {
  let hash = 0;
  for (const c of datum.frame?.module ?? datum.name) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
  return styled(`--flame-${hash % 8}`);
}

// By its share of the larger of both: what is new is as dark as can be, and so is what is gone.
function growthColor(datum: Datum): string {
  const growth = datum.value - datum.before;
  const share = Math.abs(growth) / Math.max(1, datum.value, datum.before);
  const [from, to] = [styled("--same"), styled(growth >= 0 ? "--grew" : "--shrank")];
  return `color-mix(in oklab, ${to} ${Math.round(100 * share)}%, ${from})`;
}

function describe(datum: Datum, flame: Flame, total: number): string {
  const place = datum.frame?.file === undefined ? "" : ` (${fileName(datum.frame.file)}:${datum.frame.line ?? 0})`;
  const module = datum.frame?.module === undefined ? "" : `, ${fileName(datum.frame.module)}`;
  const growth = isCompared(flame) ? `, ${signedSize(datum.value - datum.before)} since the first snapshot` : "";
  return `${datum.name}${place}${module}: ${size(datum.value)}, ${percent(datum.value, total)}, in ${count(datum.blocks)} blocks${growth}`;
}

// Which snapshot the growth is since: of several the first one, whatever lies between.
function baseline(data: Data): string {
  const snapshots = data.diff?.snapshots ?? [];
  const first = snapshots[0];
  if (first === undefined) return "the first snapshot";
  return `${fileName(first.snapshot)}, ${time(first.taken_at)}${snapshots.length > 2 ? `, the first of ${count(snapshots.length)} snapshots; Growth and Timeline show those between` : ""}`;
}

function isCompared(flame: Flame): boolean {
  return (flame.nodes[0]?.length ?? 0) > kBefore;
}

class Graph {
  readonly element = h("div", { class: "flame" });
  private readonly host = h("div");
  private readonly details = h("p", { class: "flame-details", "aria-live": "polite" });
  private readonly chart = flamegraph<Datum>();
  private readonly hint: string;
  private current = 0;

  constructor(private readonly flame: Flame, private readonly all: Datum[], byGrowth: boolean, private readonly onZoom: (node: number) => void) {
    const root = all[0]!;
    this.hint = isCompared(flame) && byGrowth ? "Width is memory in use now; color is how much of it is growth since the first snapshot." : "Point to a part to read it; choose it to zoom in.";
    this.chart.cellHeight(kCell).minFrameSize(1).sort(false).inverted(true)
      .transitionDuration(matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 200)
      .setColorMapper((node) => node.depth === 0 ? styled("--flame-root") : byGrowth ? growthColor(node.data) : moduleColor(node.data))
      .setLabelHandler((node) => describe(node.data, flame, root.value))
      .setDetailsHandler((text) => { this.details.textContent = text ?? this.idle(); })
      .setSearchMatch((node, term) => term !== "" && node.data.name.toLowerCase().includes(term.toLowerCase()))
      .onClick((node) => {
        this.current = node.data.node;
        this.onZoom(this.current);
        requestAnimationFrame(() => this.decorate());
      });
    this.element.append(this.details, this.host);
    this.host.addEventListener("keydown", (event) => this.onKey(event));
  }

  // To be called when the element is in the page, since it is as wide as that lets it be.
  draw(node: number, term: string): void {
    this.chart.width(Math.max(280, this.element.clientWidth));
    select(this.host).datum(this.all[0]!).call(this.chart);
    const found = this.find(node);
    if (node !== 0 && found !== undefined) this.chart.zoomTo(found);
    if (term !== "") this.chart.search(term);
    this.current = node;
    this.details.textContent = this.idle();
    this.decorate();
  }

  // What is said while nothing is pointed to: what is zoomed in on, or what can be done.
  private idle(): string {
    const zoomed = this.all[this.current];
    return this.current === 0 || zoomed === undefined ? this.hint : describe(zoomed, this.flame, this.all[0]!.value);
  }

  search(term: string): void {
    if (term === "") this.chart.clear();
    else this.chart.search(term);
    this.decorate();
  }

  reset(): void {
    this.chart.resetZoom();
  }

  private root(): FlameNode<Datum> {
    return select(this.host).datum() as FlameNode<Datum>;
  }

  private find(node: number): FlameNode<Datum> | undefined {
    const open = [this.root()];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (next.data.node === node) return next;
      open.push(...next.children ?? []);
    }
    return undefined;
  }

  private frames(): SVGGElement[] {
    return [...this.host.querySelectorAll<SVGGElement>("g.frame")];
  }

  // One frame is in the order of Tab; arrows lead to the others.
  private decorate(): void {
    const svg = this.host.querySelector("svg");
    svg?.setAttribute("role", "group");
    svg?.setAttribute("aria-label", "Flame graph; arrow keys move, Enter zooms in, Escape zooms out");
    svg?.querySelector("text.title")?.remove();
    // On paper it is narrower than it was drawn.
    svg?.setAttribute("viewBox", `0 0 ${svg.getAttribute("width")} ${svg.getAttribute("height")}`);
    for (const frame of this.frames()) {
      const datum = (select(frame).datum() as FlameNode<Datum>).data;
      frame.setAttribute("role", "button");
      frame.setAttribute("tabindex", datum.node === this.current ? "0" : "-1");
      frame.setAttribute("aria-label", describe(datum, this.flame, this.all[0]!.value));
      frame.dataset.node = String(datum.node);
    }
  }

  private focus(node: FlameNode<Datum> | undefined | null): void {
    const frame = node === undefined || node === null ? null : this.host.querySelector<SVGGElement>(`g.frame[data-node="${node.data.node}"]`);
    if (frame === null || node === undefined || node === null) return;
    for (const each of this.frames()) each.setAttribute("tabindex", each === frame ? "0" : "-1");
    frame.focus();
    this.details.textContent = describe(node.data, this.flame, this.all[0]!.value);
  }

  private onKey(event: KeyboardEvent): void {
    const frame = (event.target as Element).closest<SVGGElement>("g.frame");
    if (frame === null) return;
    const node = select(frame).datum() as FlameNode<Datum>;
    const siblings = node.parent?.children ?? [node];
    const at = siblings.indexOf(node);
    if (event.key === "ArrowDown") this.focus(node.children?.[0]);
    else if (event.key === "ArrowUp") this.focus(node.parent);
    else if (event.key === "ArrowRight") this.focus(siblings[at + 1]);
    else if (event.key === "ArrowLeft") this.focus(siblings[at - 1]);
    else if (event.key === "Enter" || event.key === " ") this.chart.zoomTo(node);
    else if (event.key === "Escape") this.chart.resetZoom();
    else return;
    event.preventDefault();
  }
}

function draw(data: Data, params: Params): HTMLElement {
  const flame = data.flame!;
  const all = treeOf(flame);
  const root = all[0]!;
  const compared = isCompared(flame);
  const byGrowth = compared && params.color !== "module";
  const state = { ...params };
  const isByStack = flame.by === "stack";
  const graph = new Graph(flame, all, byGrowth, (node) => {
    state.node = node === 0 ? "" : String(node);
    step("flame", state);
  });
  document.getElementById("main")?.addEventListener("drawn", () => graph.draw(Number(params.node ?? 0), params.q ?? ""), { once: true });
  const rows = functionsOf(root);
  const without = data.report.tracking?.without_stack;
  const sort = parseSort(params.sort, compared ? "growth" : "total");
  return h("div", {},
    h("p", {}, isByStack ? "Memory that is in use now, by the call stacks that allocated it: callers on top, what they call below. "
      : "Memory that is in use now, by what keeps it: owners on top, what they hold below. The process was not tracked, so that no call stacks are known. ",
      h("strong", {}, `${size(flame.bytes)} in ${count(flame.blocks)} blocks`), ".",
      isByStack && without !== undefined && without.bytes > 0 ? ` Another ${size(without.bytes)} in ${count(without.count)} blocks has no stack: it is older than the tracker, or was not sampled.` : ""),
    h("div", { class: "controls" },
      filterField(isByStack ? "Highlight functions" : "Highlight owners and types", params.q ?? "", (text) => { state.q = text; note("flame", state); graph.search(text); }),
      compared ? h("a", { class: "button", href: linkTo("flame", { ...params, color: byGrowth ? "module" : undefined }), "data-focus": "color" }, byGrowth ? "Color by module" : "Color by growth") : null,
      h("button", { type: "button", onclick: () => graph.reset() }, "Show all")),
    compared && byGrowth ? h("ul", { class: "keys" },
      h("li", {}, h("span", { class: "swatch", style: "background:var(--grew)" }), " grew"), h("li", {}, h("span", { class: "swatch", style: "background:var(--same)" }), " the same"),
      h("li", {}, h("span", { class: "swatch", style: "background:var(--shrank)" }), " shrank"),
      h("li", {}, `since ${baseline(data)}`)) : null,
    graph.element,
    h("h3", {}, isByStack ? "By function" : "By owner and type"),
    table(isByStack ? "Functions" : "Owners and types", rows, [
      { name: "name", title: isByStack ? "function" : "what", value: (row) => row.name, cell: (row) => h("span", { class: "clamped", title: row.name }, row.name) },
      { name: "total", title: isByStack ? "with what it calls" : "with what it holds", numeric: true, value: (row) => row.total,
        cell: (row) => bar(row.total / root.value, `${size(row.total)}, ${percent(row.total, root.value)}`) },
      { name: "own", title: "itself", numeric: true, value: (row) => row.own, cell: (row) => size(row.own) },
      { name: "blocks", title: "blocks", numeric: true, value: (row) => row.blocks, cell: (row) => count(row.blocks) },
      ...(compared ? [{ name: "growth", title: "growth", numeric: true, value: (row: FunctionRow) => row.growth, cell: (row: FunctionRow) => signedSize(row.growth) }] : []),
    ], sort, (next) => { state.sort = sortText(next, compared ? "growth" : "total"); note("flame", state); }, 50));
}

export const flameView: View = {
  name: "flame", title: "Flame graph", draw,
  missing: (data) => data.flame !== undefined && data.flame.nodes.length > 1 ? "" : "Neither call stacks nor owners are known.",
};
