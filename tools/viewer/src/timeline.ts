// How memory went on over many snapshots.
import uPlot from "uplot";
import type { Data, Series } from "./data";
import { h, styled } from "./dom";
import { counted, signedSize, size, time } from "./format";
import { sparkline } from "./growth";
import { linkTo, type Params } from "./route";
import { parseSort, table } from "./table";
import { rowTexts } from "./vocabulary";
import type { View } from "./views";

const kinds: Record<string, string> = {
  resident: "resident memory", account: "account", size: "size", arena: "arena", function: "function", owner: "owner", type: "type", leaked: "leaked",
};

function nameOf(series: Series): string {
  if (series.of === "resident") return "resident memory";
  if (series.of === "account") return rowTexts[series.name]?.title ?? series.name;
  return `${kinds[series.of] ?? series.of}: ${series.name}`;
}

function lastOf(series: Series): number {
  return series.values[series.values.length - 1] ?? -1;
}

const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [1, 2], [12, 4], [3, 6]];

// Of two, so that labels are round in KiB and MiB.
const powers = Array.from({ length: 60 }, (_, i) => 2 ** i);

// In UTC, as exact as they must be to differ.
function timeTexts(ticks: number[]): string[] {
  const step = ticks.length < 2 ? 0 : ticks[1]! - ticks[0]!;
  return ticks.map((tick) => {
    const text = new Date(tick * 1000).toISOString();
    if (step >= 86400) return text.slice(5, 10);
    if (step >= 60) return ticks[ticks.length - 1]! - ticks[0]! > 86400 ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 16);
    return step >= 1 ? text.slice(11, 19) : text.slice(11, 21);
  });
}

function chart(host: HTMLElement, data: Data, chosen: number[]): void {
  const history = data.history!;
  const text = styled("--text");
  const line = styled("--line");
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "12px system-ui, sans-serif" };
  const values = [
    history.points.map((point) => new Date(point.time).getTime() / 1000),
    ...chosen.map((index) => history.series[index]!.values.map((value) => value < 0 ? null : value)),
  ];
  const plot = new uPlot({
    width: Math.max(280, host.clientWidth), height: 320, legend: { show: false }, cursor: { drag: { x: false, y: false } },
    axes: [{ ...axis, space: 80, values: (_plot: uPlot, ticks: number[]) => timeTexts(ticks) }, { ...axis, size: 84, incrs: powers, values: (_plot: uPlot, ticks: number[]) => ticks.map(size) }],
    scales: { x: { time: true }, y: { range: (_plot: uPlot, _least: number, most: number): [number, number] => [0, Math.max(1, most * 1.05)] } },
    series: [{}, ...chosen.map((index, i) => ({ label: nameOf(history.series[index]!), stroke: styled(`--line-${i % 8}`), width: 2, dash: dashes[i % 8], points: { show: history.points.length < 60 } }))],
  }, values as uPlot.AlignedData, host);
  new ResizeObserver(() => { if (host.isConnected) plot.setSize({ width: Math.max(280, host.clientWidth), height: 320 }); }).observe(host);
}

function draw(data: Data, params: Params): HTMLElement {
  const history = data.history!;
  const growth = (series: Series) => {
    const known = series.values.filter((value) => value >= 0);
    return known.length === 0 ? 0 : known[known.length - 1]! - known[0]!;
  };
  const usual = history.series.map((series, i): [Series, number] => [series, i]).filter(([series]) => series.of === "resident" || series.of === "account")
    .sort((a, b) => lastOf(b[0]) - lastOf(a[0])).slice(0, 4).map(([, i]) => i);
  const wanted = (params.show ?? "").split(".").filter((each) => each !== "").map(Number).filter((i) => history.series[i] !== undefined);
  const chosen = (params.show === undefined ? usual : wanted).slice(0, 8);
  const host = h("div", { class: "timeline", role: "img", "aria-label": `Bytes over time of ${chosen.map((i) => nameOf(history.series[i]!)).join(", ")}; the table below has the figures` });
  document.getElementById("main")?.addEventListener("drawn", () => chart(host, data, chosen), { once: true });
  const toggle = (index: number) => {
    const next = chosen.includes(index) ? chosen.filter((each) => each !== index) : [...chosen, index].slice(-8);
    return linkTo("timeline", { ...params, show: next.join(".") || "-" });
  };
  const rows = history.series.map((series, index) => ({ series, index }));
  return h("div", {},
    h("p", {}, `${counted(history.points.length, "snapshot", "snapshots")} from ${time(history.points[0]?.time ?? "")} to ${time(history.points[history.points.length - 1]?.time ?? "")}; resident memory ${signedSize(history.change)}.`,
      history.forecast === undefined ? "" : ` At this rate, ${history.forecast.limit} is reached at ${time(history.forecast.at)}.`),
    host,
    h("ul", { class: "keys" }, ...chosen.map((index, i) => h("li", {}, h("span", { class: "swatch", style: `background:var(--line-${i % 8})`, "aria-hidden": "true" }), ` ${nameOf(history.series[index]!)}`))),
    table("Figures over time", rows, [
      { name: "name", title: "what", value: (row) => nameOf(row.series), cell: (row) => h("a", { href: toggle(row.index), "data-focus": `series-${row.index}`,
        "aria-label": `${chosen.includes(row.index) ? "Hide" : "Show"} ${nameOf(row.series)}` }, chosen.includes(row.index) ? "☑ " : "☐ ", nameOf(row.series)) },
      { name: "trend", title: "trend", cell: (row) => sparkline(row.series.values, `${size(row.series.values.find((value) => value >= 0) ?? 0)} to ${size(Math.max(0, lastOf(row.series)))}`) as unknown as Node },
      { name: "last", title: "last", numeric: true, value: (row) => lastOf(row.series), cell: (row) => lastOf(row.series) < 0 ? "–" : size(lastOf(row.series)) },
      { name: "growth", title: "growth", numeric: true, value: (row) => growth(row.series), cell: (row) => signedSize(growth(row.series)) },
    ], parseSort(params.sort, "rank"), () => undefined, 30));
}

export const timelineView: View = {
  name: "timeline", title: "Timeline", draw, missing: (data) => data.history !== undefined ? "" : "There is one snapshot: a timeline needs more.",
};
