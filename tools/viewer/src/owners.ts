// What keeps the memory: a treemap to zoom into, and the same as a table.
import { hierarchy, treemap, treemapSquarify, type HierarchyRectangularNode } from "d3-hierarchy";
import type { Blocks, Data, Owner } from "./data";
import { h } from "./dom";
import { count, hex, percent, size } from "./format";
import { blocksLabel, ownerLabel, sizeRange } from "./labels";
import { linkTo, note, type Params } from "./route";
import { bar, filterField, parseSort, sortText, table } from "./table";
import type { View } from "./views";

interface Item {
  label: string;
  kind: string;        // of a root, or "blocks"
  retained: number;
  blocks: number;
  own: number;         // bytes of the blocks themselves
  count: number;
  heldAt?: number;
  sizes: string;
  path: string;        // "0.2": which child of which
  children: Item[];
}

function blockItem(blocks: Blocks, path: string): Item {
  return {
    label: blocksLabel(blocks), kind: "blocks", retained: blocks.retained_bytes, blocks: blocks.retained_blocks, own: blocks.bytes,
    count: blocks.count, heldAt: blocks.held_at, sizes: sizeRange(blocks.least_size, blocks.most_size), path,
    children: (blocks.holds ?? []).map((each, i) => blockItem(each, `${path}.${i}`)),
  };
}

function rootItem(owner: Owner, path: string): Item {
  return {
    label: ownerLabel(owner), kind: owner.kind, retained: owner.retained_bytes, blocks: owner.retained_blocks, own: 0, count: 1, sizes: "", path,
    children: (owner.holds ?? []).map((each, i) => blockItem(each, `${path}.${i}`)),
  };
}

let all: Item | undefined;

function allItems(data: Data): Item {
  const owners = data.owners!;
  all ??= {
    label: "all blocks in use", kind: "all", retained: owners.bytes_in_use, blocks: owners.blocks_in_use, own: 0, count: 1, sizes: "", path: "",
    children: owners.owners.map((owner, i) => rootItem(owner, String(i))),
  };
  return all;
}

// The items from the top to the one at `path`, as far as there are such.
function trail(top: Item, path: string): Item[] {
  const items = [top];
  for (const step of path === "" ? [] : path.split(".")) {
    const next = items[items.length - 1]!.children[Number(step)];
    if (next === undefined) break;
    items.push(next);
  }
  return items;
}

const kLevels = 3;  // of the tree that are drawn at once

function depthOf(item: Item): number {
  return item.path === "" ? 0 : item.path.split(".").length;
}

const kindTexts: Record<string, string> = {
  variable: "variable", "thread-local": "thread-local variable", stack: "stack frame", register: "register", mapping: "mapping",
  global: "global of the language runtime", local: "local variable of the language runtime", several: "several roots", blocks: "blocks",
};

// Places are shares, as a page that is printed is narrower than the one that was laid out.
function share(part: number, whole: number): string {
  return `${(100 * part / whole).toFixed(4)}%`;
}

function map(item: Item, total: number, params: Params): HTMLElement {
  const box = h("div", { class: "treemap", role: "group", "aria-label": `Treemap of ${item.label}` });
  const place = () => {
    const width = box.clientWidth || 900;
    const height = Math.max(280, Math.min(460, width * 0.5));
    box.style.height = `${height}px`;
    const root = hierarchy<Item>(item, (each) => depthOf(each) - depthOf(item) < kLevels ? each.children : []);
    root.each((node) => { (node as { value?: number }).value = node.data.retained; });
    const tiles = treemap<Item>().tile(treemapSquarify).size([width, height]).paddingInner(2)
      .paddingOuter((node) => node.depth === 0 ? 0 : 3).paddingTop((node) => node.depth === 0 ? 0 : 20)
      .round(true)(root as unknown as HierarchyRectangularNode<Item>);
    const drawn = tiles.descendants().filter((node) => node.depth > 0 && node.x1 - node.x0 >= 3 && node.y1 - node.y0 >= 3);
    box.replaceChildren(...drawn.slice(0, 400).map((node) => {
      const wide = node.x1 - node.x0;
      const high = node.y1 - node.y0;
      const text = `${node.data.label} ${size(node.data.retained)}, ${percent(node.data.retained, total)} of what is in use`;
      return h("a", {
        class: `tile kind-${node.data.kind} depth-${Math.min(node.depth, 3)}`, href: linkTo("owners", { ...params, zoom: node.data.path }),
        style: `left:${share(node.x0, width)};top:${share(node.y0, height)};width:${share(wide, width)};height:${share(high, height)}`, title: text, "aria-label": text,
        "data-focus": `tile-${node.data.path}`, tabindex: wide * high < 900 ? "-1" : undefined,
      }, wide > 44 && high > 17 ? h("span", { class: "tile-name" }, node.data.label) : null, " ",
         wide > 60 && high > 36 && node.children === undefined ? h("span", { class: "tile-size" }, size(node.data.retained)) : null);
    }));
  };
  new ResizeObserver(() => { if (box.isConnected) place(); }).observe(box);
  return box;
}

function draw(data: Data, params: Params): HTMLElement {
  const owners = data.owners!;
  const path = trail(allItems(data), params.zoom ?? "");
  const item = path[path.length - 1]!;
  const sort = parseSort(params.sort, "retained");
  const state = { ...params };
  const crumbs = h("nav", { "aria-label": "Where in the tree", class: "crumbs" }, h("ol", {}, ...path.map((each, i) => h("li", {},
    i + 1 === path.length ? h("span", { "aria-current": "location" }, each.label)
      : h("a", { href: linkTo("owners", { ...params, zoom: each.path }), "data-focus": `crumb-${each.path}` }, each.label)))));

  const listed = h("div");
  const list = (filter: string) => {
    const rows = item.children.filter((each) => each.label.toLowerCase().includes(filter.toLowerCase()));
    listed.replaceChildren(item.children.length === 0
      ? h("p", { class: "muted" }, "Nothing that matters hangs on these: what they retain is themselves.")
      : table(`What ${item.label} holds`, rows, [
        { name: "label", title: item.kind === "all" ? "owner" : "blocks", value: (row) => row.label,
          cell: (row) => h("span", {}, h("span", { class: `swatch kind-${row.kind}`, "aria-hidden": "true" }), " ",
            h("a", { href: linkTo("owners", { ...state, q: undefined, zoom: row.path }) }, row.label)) },
        { name: "retained", title: "retained", numeric: true, value: (row) => row.retained, cell: (row) => size(row.retained) },
        { name: "share", title: "of what is in use", numeric: true, value: (row) => row.retained,
          cell: (row) => bar(row.retained / owners.bytes_in_use, percent(row.retained, owners.bytes_in_use)) },
        { name: "blocks", title: "blocks", numeric: true, value: (row) => row.blocks, cell: (row) => count(row.blocks) },
        ...(item.kind === "all" ? [
          { name: "kind", title: "kind", value: (row: Item) => row.kind, cell: (row: Item) => kindTexts[row.kind] ?? row.kind },
        ] : [
          { name: "own", title: "themselves", numeric: true, value: (row: Item) => row.own, cell: (row: Item) => size(row.own) },
          { name: "sizes", title: "size of each", cell: (row: Item) => row.sizes },
          { name: "held", title: "held at", numeric: true, value: (row: Item) => row.heldAt ?? -1, cell: (row: Item) => row.heldAt === undefined ? "" : `+${hex(row.heldAt)}` },
        ]),
      ], sort, (next) => { state.sort = sortText(next, "retained"); note("owners", state); }));
  };
  list(params.q ?? "");
  const left = data.view;
  return h("div", {},
    h("p", {}, "Each area is memory that would be free if its owner let go: what only it leads to. ",
      h("strong", {}, `${size(owners.bytes_in_use)} in ${count(owners.blocks_in_use)} blocks`), " are in use",
      owners.leaked_blocks === 0 ? "; nothing is leaked." : h("span", {}, "; ", h("a", { href: linkTo("leaks") }, `${size(owners.leaked_bytes)} of it is leaked`), ".")),
    path.length > 1 ? crumbs : null,
    h("p", { class: "zoomed" }, h("strong", {}, item.label), `: ${size(item.retained)}, ${percent(item.retained, owners.bytes_in_use)} of what is in use, in ${count(item.blocks)} blocks`,
      path.length > 1 ? h("a", { href: linkTo("owners", { ...params, zoom: path[path.length - 2]!.path }), class: "up", "data-focus": "up" }, " ↑ one level up") : null),
    map(item, owners.bytes_in_use, params),
    h("ul", { class: "keys" }, ...Object.entries(kindTexts).map(([kind, text]) => h("li", {}, h("span", { class: `swatch kind-${kind}`, "aria-hidden": "true" }), ` ${text}`))),
    filterField("Filter by name", params.q ?? "", (text) => { state.q = text; note("owners", state); list(text); }),
    listed,
    path.length === 1 && left.owners_left_out > 0
      ? h("p", { class: "muted" }, `${count(left.owners_left_out)} more owners retain ${size(left.owners_left_out_bytes)}; heapsnap owners --limit 0 lists them.`) : null);
}

export const ownersView: View = {
  name: "owners", title: "Owners", draw,
  missing: (data) => data.owners !== undefined ? ""
    : `What keeps the blocks alive is not known: ${data.report.why_no_references || "the snapshot has no references"}. Take a snapshot with heapsnap attach --references yes.`,
};
