// The arenas of malloc: what each holds, used and free.
import type { Arena, Data } from "./data";
import { h } from "./dom";
import { count, percent, size } from "./format";
import { linkTo, note, type Params } from "./route";
import { parseSort, sortText, table } from "./table";
import type { View } from "./views";

const parts: [string, string[], string][] = [
  ["used", ["used"], "in use"], ["tcache", ["tcache"], "free in tcache"], ["bins", ["fastbin", "unsorted", "smallbin", "largebin"], "free in bins"], ["top", ["top"], "top"],
];

function bytesOf(arena: Arena, states: string[]): number {
  return states.reduce((sum, state) => sum + (arena.states[state]?.bytes ?? 0), 0);
}

function residentOf(arena: Arena): number {
  return Object.values(arena.states).reduce((sum, state) => sum + state.resident, arena.own.resident);
}

function arenaName(arena: Arena): string {
  return arena.main ? `${arena.index} (main)` : String(arena.index);
}

function draw(data: Data, params: Params): HTMLElement {
  const { arenas, segments } = data.report;
  const most = Math.max(1, ...arenas.map((arena) => arena.system_mem));
  const sort = parseSort(params.sort, "arena");
  return h("div", {},
    h("p", {}, "An arena is a pool of malloc with a lock of its own. What is free in one cannot be used by the threads of another."),
    h("ul", { class: "keys" }, ...parts.map(([name, , text]) => h("li", {}, h("span", { class: `swatch fill-${name}` }), ` ${text}`))),
    h("div", { class: "histogram", "aria-hidden": "true" }, ...arenas.slice(0, 64).map((arena) => h("div", { class: "histogram-row" },
      h("span", { class: "histogram-name" }, arenaName(arena)),
      h("span", { class: "arena-bar" }, ...parts.map(([name, states]) => h("span", { class: `fill-${name}`, style: `width:${100 * bytesOf(arena, states) / most}%` })))))),
    table("Table of arenas", arenas, [
      { name: "arena", title: "arena", value: (row) => -row.index, cell: arenaName },
      { name: "system", title: "from the system", numeric: true, value: (row) => row.system_mem, cell: (row) => size(row.system_mem) },
      ...parts.map(([name, states, text]) => ({ name, title: text, numeric: true, value: (row: Arena) => bytesOf(row, states), cell: (row: Arena) => size(bytesOf(row, states)) })),
      { name: "share", title: "free below top", numeric: true, value: (row: Arena) => row.free_share, cell: (row: Arena) => percent(row.free_share, 1) },
      { name: "resident", title: "resident", numeric: true, value: residentOf, cell: (row: Arena) => size(residentOf(row)) },
      { name: "trim", title: "malloc_trim(0) gives back", numeric: true, value: (row: Arena) => row.trim.resident, cell: (row: Arena) => size(row.trim.resident) },
      { name: "threads", title: "threads", numeric: true, value: (row: Arena) => row.attached_threads, cell: (row: Arena) => count(row.attached_threads) },
    ], sort, (next) => note("arenas", { ...params, sort: sortText(next, "arena") })),
    h("h3", {}, "Segments"),
    table("Segments", segments, [
      { name: "begin", title: "begins at", cell: (row) => h("a", { href: linkTo("map", { at: row.begin }) }, row.begin) },
      { name: "arena", title: "arena", numeric: true, value: (row) => row.arena, cell: (row) => String(row.arena) },
      { name: "kind", title: "kind", value: (row) => row.segment_kind, cell: (row) => row.segment_kind },
      { name: "bytes", title: "from the system", numeric: true, value: (row) => row.system_bytes, cell: (row) => size(row.system_bytes) },
    ], { by: "", down: true }, () => undefined));
}

export const arenasView: View = {
  name: "arenas", title: "Arenas", draw, missing: (data) => data.report.arenas.length > 0 ? "" : "No arena of glibc's malloc was found.",
};
