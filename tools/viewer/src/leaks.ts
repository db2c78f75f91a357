// Blocks that nothing leads to any more, by what allocated them or what they are.
import type { Data, LeakGroup, LeakStep } from "./data";
import { h } from "./dom";
import { count, counted, hex, percent, size } from "./format";
import { frameLabel, sizeRange } from "./labels";
import { linkTo, note, type Params } from "./route";
import { filterField } from "./table";
import type { View } from "./views";

function groupTitle(group: LeakGroup): string {
  const sizes = sizeRange(group.least_size, group.most_size);
  if (group.kind === "cycle") return `${counted(group.count, "cycle", "cycles")} with ${group.type ?? "blocks"} of ${sizes}`;
  return `${count(group.count)} × ${group.type === undefined ? "" : `${group.type} of `}${sizes}`;
}

// What the largest one leads to, as a tree: where in a block the next one is held.
function trailElement(trail: LeakStep[], all: number): HTMLElement | null {
  if (trail.length < 2) return null;
  const branch = (at: number): HTMLElement => {
    const step = trail[at]!;
    const below = trail.map((each, i): [LeakStep, number] => [each, i]).filter(([each, i]) => i > 0 && each.from === at);
    return h("li", {}, at === 0 ? null : h("code", {}, `+${hex(step.held_at)}${step.interior ? ", past its first byte" : ""} → `),
      h("a", { href: linkTo("map", { at: step.addr }) }, step.addr), ` ${step.type ?? "block"} of ${sizeRange(step.bytes, step.bytes)}`,
      below.length === 0 ? null : h("ul", {}, ...below.map(([, i]) => branch(i))));
  };
  return h("div", {}, h("h4", {}, "What it leads to"), h("ul", { class: "trail" }, branch(0)),
    trail.length < all ? h("p", { class: "muted" }, `The first ${count(trail.length)} blocks.`) : null);
}

function groupElement(group: LeakGroup, charged: string, trail: LeakStep[], index: number, isOpen: boolean, onToggle: (index: number, open: boolean) => void): HTMLElement {
  const frames = group.frames ?? [];
  const charge = frames.find((frame) => frame.function === charged);
  const place = charge === undefined ? charged : frameLabel(charge);
  const element = h("details", { class: "leak", open: isOpen },
    h("summary", {}, h("strong", {}, size(group.retained_bytes)), ` in ${counted(group.retained_blocks, "block", "blocks")}: ${groupTitle(group)}`,
      place === "" ? null : h("span", { class: "muted" }, ` from ${place}`)),
    h("p", {}, group.count === 1 ? "It is at " : "The largest is at ", h("a", { href: linkTo("map", { at: group.largest }) }, group.largest), ". ",
      group.kind === "cycle" ? "The blocks of a cycle point to each other, and nothing outside of it points to them." : `No other leaked block points to ${group.count === 1 ? "it" : "these"}.`,
      group.retained_blocks > group.count ? ` Through them, ${counted(group.retained_blocks, "block is", "blocks are")} leaked in all.` : ""),
    frames.length === 0 ? h("p", { class: "muted" }, "What allocated it is not known: the process was not tracked then.")
      : h("div", {}, h("h4", {}, "Allocated by"), h("ol", { class: "frames" }, ...frames.map((frame) => h("li", {}, frameLabel(frame))))),
    trailElement(trail, group.retained_blocks));
  element.addEventListener("toggle", () => onToggle(index, element.open));
  return element;
}

function draw(data: Data, params: Params): HTMLElement {
  const leaks = data.leaks!;
  if (leaks.leaked_blocks === 0) {
    return h("div", {}, h("p", { class: "verdict good" }, `Nothing is leaked: variables, stacks and other roots lead to all ${count(leaks.blocks_in_use)} blocks.`),
      h("p", {}, "Some may be leaked still: a word that holds an address by chance, or is left over on a stack or in memory that is used again, keeps a block from being listed. What only grows is seen in two snapshots: ",
        h("code", {}, "heapsnap view OLD NEW -o FILE"), "."));
  }
  const figure = (blocks: number, bytes: number, what: string) =>
    h("li", { class: "figure" }, h("span", { class: "value" }, size(bytes)), h("span", { class: "what" }, `${what}, ${counted(blocks, "block", "blocks")}`));
  const open = new Set((params.open ?? "").split(".").filter((text) => text !== "").map(Number));
  const state = { ...params };
  const list = h("div", { class: "leak-list" });
  const shown = (filter: string) => {
    const wanted = filter.toLowerCase();
    const groups = leaks.groups.map((group, i): [LeakGroup, number] => [group, i]).filter(([group]) =>
      `${groupTitle(group)} ${(group.frames ?? []).map(frameLabel).join(" ")}`.toLowerCase().includes(wanted));
    list.replaceChildren(...groups.map(([group, i]) => groupElement(group, data.view.leak_functions[i] ?? "", data.trails?.trails[i] ?? [], i, open.has(i), (index, isOpen) => {
      if (isOpen) open.add(index);
      else open.delete(index);
      state.open = [...open].join(".");
      note("leaks", state);
    })));
  };
  shown(params.q ?? "");
  return h("div", {},
    h("p", { class: "verdict bad" }, `${size(leaks.leaked_bytes)} in ${counted(leaks.leaked_blocks, "block", "blocks")} (${percent(leaks.leaked_bytes, leaks.bytes_in_use)} of what is in use) is leaked: no variable, stack, register or other root leads to it.`),
    h("ul", { class: "figures" },
      figure(leaks.direct_blocks, leaks.direct_bytes, "leaked directly"),
      figure(leaks.cycle_blocks, leaks.cycle_bytes, "in cycles"),
      figure(leaks.indirect_blocks, leaks.indirect_bytes, "held by these")),
    h("p", { class: "muted" }, "Each group is one cause to look at; its size is with all that only it leads to."),
    filterField("Filter by type or function", params.q ?? "", (text) => { state.q = text; note("leaks", state); shown(text); }),
    list,
    data.view.leak_groups_left_out > 0
      ? h("p", { class: "muted" }, `${count(data.view.leak_groups_left_out)} more groups with ${size(data.view.leak_groups_left_out_bytes)}; heapsnap leaks --limit 0 lists them.`) : null,
    leaks.held_by_several_blocks > 0
      ? h("p", { class: "muted" }, `${size(leaks.held_by_several_bytes)} in ${count(leaks.held_by_several_blocks)} more blocks is held by several of these.`) : null);
}

export const leaksView: View = {
  name: "leaks", title: "Leaks", draw,
  missing: (data) => data.leaks !== undefined ? ""
    : `Whether blocks are leaked is not known: ${data.report.why_no_references || "the snapshot has no references"}. Take a snapshot with heapsnap attach --references yes.`,
};
