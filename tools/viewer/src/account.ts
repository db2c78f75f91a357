// Where the resident memory went: a bar whose parts explain themselves, and what can be done about it.
import type { Amount, Data, Group, Report } from "./data";
import { h } from "./dom";
import { count, counted, duration, fileName, percent, signedSize, size, time } from "./format";
import { ownerLabel } from "./labels";
import { linkTo, type Params } from "./route";
import { bar } from "./table";
import { groupTexts, rowTexts } from "./vocabulary";
import type { View } from "./views";

type Row = [string, Amount];

function rowsOf(report: Report): Row[] {
  return Object.keys(rowTexts).map((name): Row => [name, report.rss.rows[name] ?? { resident: 0, swapped: 0 }])
    .filter(([, amount]) => amount.resident !== 0 || amount.swapped !== 0);
}

function groupSum(rows: Row[], group: string): number {
  return rows.reduce((sum, [name, amount]) => sum + (rowTexts[name]?.group === group ? amount.resident : 0), 0);
}

function headline(data: Data, rows: Row[]): HTMLElement {
  const { report } = data;
  const total = report.rss.resident;
  const used = groupSum(rows, "used");
  const free = groupSum(rows, "free");
  const figure = (value: string, what: string, kind: string) =>
    h("li", { class: `figure ${kind}` }, h("span", { class: "value" }, value), h("span", { class: "what" }, what));
  const leaked = data.leaks === undefined ? null
    : figure(data.leaks.leaked_blocks === 0 ? "nothing" : size(data.leaks.leaked_bytes), "leaked", "leaked");
  return h("ul", { class: "figures" },
    figure(size(total), report.rss.basis === "resident" ? "resident memory" : "address space (what is resident is not known)", "total"),
    figure(size(used), `used through malloc, ${percent(used, total)}`, "used"),
    figure(size(free), `free, but kept by malloc, ${percent(free, total)}`, "free"),
    figure(size(total - used - free), `not malloc's, ${percent(total - used - free, total)}`, "other"),
    leaked);
}

function stackedBar(rows: Row[], total: number, chosen: string | undefined): HTMLElement {
  const parts = rows.filter(([, amount]) => amount.resident > 0).map(([name, amount]) => {
    const share = amount.resident / total;
    const title = rowTexts[name]!.title;
    return h("li", { style: `flex-grow:${Math.max(share, 0.002)}` },
      h("a", {
        href: linkTo("account", { row: name === chosen ? undefined : name }), class: `part fill-${name}`, "data-focus": `part-${name}`,
        title: `${title}: ${size(amount.resident)}, ${percent(amount.resident, total)}`, "aria-current": name === chosen ? "true" : undefined,
        "aria-label": `${title}: ${size(amount.resident)}, ${percent(amount.resident, total)}`,
      }, share > 0.1 ? h("span", { class: "part-text" }, percent(amount.resident, total)) : null));
  });
  return h("ul", { class: "stacked", "aria-label": "Resident memory by what it is used for" }, ...parts);
}

function groupList(groups: Group[]): HTMLElement | null {
  if (groups.length === 0) return null;
  const name = (group: Group) => {
    if (group.kind === "others") return `${counted(group.count, "other", "others")}`;
    const what = group.name !== "" ? group.name : group.evidence !== "" ? `${group.kind} (${group.evidence})` : group.kind;
    return group.count > 1 ? `${count(group.count)} × ${what}` : what;
  };
  return h("ul", { class: "groups" }, ...groups.map((group) => h("li", {}, h("span", { class: "number" }, size(group.resident)), ` ${name(group)}`)));
}

function rowDetails(report: Report, name: string): HTMLElement | null {
  if (name === "files") return groupList(report.rss.largest_files);
  if (name === "file_data") return groupList(report.rss.largest_file_data);
  if (name === "shared") return groupList(report.rss.largest_shared);
  if (name === "other_anonymous") return groupList(report.rss.other_anonymous);
  return null;
}

function legend(data: Data, rows: Row[], chosen: string | undefined): HTMLElement {
  const total = data.report.rss.resident;
  const hasSwap = data.report.rss.swapped !== 0;
  const list = (group: keyof typeof groupTexts) => {
    const own = rows.filter(([name]) => rowTexts[name]?.group === group);
    if (own.length === 0) return null;
    const sum = groupSum(rows, group);
    return h("section", { class: "legend-group" },
      h("h3", {}, groupTexts[group], h("span", { class: "number" }, ` ${size(sum)}`)),
      h("ul", {}, ...own.map(([name, amount]) => {
        const text = rowTexts[name]!;
        const canSee = text.see !== undefined && (text.see !== "owners" || data.owners !== undefined);
        return h("li", { class: name === chosen ? "row chosen" : "row", id: `row-${name}` },
          h("span", { class: `swatch fill-${name}`, "aria-hidden": "true" }),
          h("div", { class: "row-text" },
            h("p", { class: "row-head" }, h("span", { class: "row-title" }, text.title),
              h("span", { class: "number" }, size(amount.resident)), h("span", { class: "share" }, percent(amount.resident, total))),
            h("p", { class: "row-what" }, text.what, hasSwap && amount.swapped > 0 ? ` Besides, ${size(amount.swapped)} of it is in swap.` : "",
              canSee ? h("span", {}, " ", h("a", { href: linkTo(text.see!) }, `See ${text.seeTitle ?? ""}`), ".") : null),
            name === chosen || name === "other_anonymous" ? rowDetails(data.report, name) : null));
      })));
  };
  return h("div", { class: "legend" }, list("used"), list("free"), list("other"));
}

function ownersPart(data: Data): HTMLElement | null {
  const { report, owners } = data;
  if (owners === undefined) {
    return h("section", { class: "card" }, h("h3", {}, "What keeps the blocks in use"),
      h("p", {}, `Not known: ${report.why_no_references || "the snapshot was taken without references"}.`),
      h("p", {}, "Take a snapshot with references: ", h("code", {}, `heapsnap attach ${report.pid} --references yes -o a.hsnap`)));
  }
  const top = owners.owners.slice(0, 5);
  return h("section", { class: "card" }, h("h3", {}, "What keeps the blocks in use"),
    h("p", { class: "muted" }, "Variables and threads, each with what would be free if it let go."),
    h("ul", { class: "bars" }, ...top.map((owner, i) => h("li", {},
      h("a", { href: linkTo("owners", { zoom: String(i) }) }, ownerLabel(owner)),
      bar(owner.retained_bytes / owners.bytes_in_use, `${size(owner.retained_bytes)}, ${percent(owner.retained_bytes, owners.bytes_in_use)}`)))),
    h("p", {}, h("a", { href: linkTo("owners") }, `All owners`), ", ",
      h("a", { href: linkTo("leaks") }, owners.leaked_blocks === 0 ? "nothing is leaked" : `${size(owners.leaked_bytes)} leaked`)));
}

function growthPart(data: Data): HTMLElement | null {
  const { diff } = data;
  if (diff === undefined) return null;
  const row = (name: string, bytes: number[], growth: number) =>
    h("li", {}, h("span", {}, name), h("span", { class: "number" }, `${signedSize(growth)} to ${size(bytes[bytes.length - 1] ?? 0)}`));
  return h("section", { class: "card" }, h("h3", {}, `Growth over ${counted(diff.snapshots.length, "snapshot", "snapshots")}`),
    h("ul", { class: "bars" }, row("in use", diff.in_use.bytes, diff.in_use.growth),
      diff.resident.bytes.some((bytes) => bytes >= 0) ? row("resident", diff.resident.bytes, diff.resident.growth) : null),
    h("p", {}, h("a", { href: linkTo("growth") }, "What grew"), ", ", h("a", { href: linkTo("timeline") }, "over time")));
}

function advicePart(report: Report): HTMLElement | null {
  if (report.advice.length === 0) return null;
  // Names of commands and functions stay as they are.
  const sentence = (text: string) => /^(?!heapsnap )[a-z]+ /.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return h("section", { class: "card" }, h("h3", {}, "What can be done"),
    h("ol", { class: "advice" }, ...report.advice.map((advice) => h("li", {},
      h("p", {}, h("strong", {}, `${sentence(advice.finding)}.`)), h("p", {}, `${sentence(advice.action)}.`)))));
}

function nextPart(report: Report): HTMLElement {
  const commands = (list: string[]) => list.map((command) => h("pre", { tabindex: "0", "aria-label": "Command" }, command));
  return h("section", { class: "card" }, h("h3", {}, "What next"), h("p", {}, report.next_step.why), ...commands(report.next_step.commands),
    ...report.next_step.more.flatMap((more) => [h("p", {}, more.text), ...commands(more.commands)]));
}

function factsPart(report: Report): HTMLElement {
  const facts: [string, string][] = [
    ["program", report.exe], ["host", report.host], ["taken", time(report.taken_at)], ["threads", count(report.threads)],
    ["paused", report.freeze.pause_ns === 0 ? "not at all" : `${duration(report.freeze.pause_ns)} (${report.freeze.method})`],
    ["snapshot", fileName(report.snapshot)],
    ...report.mallocs.map((malloc): [string, string] => ["malloc", `glibc ${malloc.glibc} in ${malloc.module}, found by ${malloc.discovery}, ${malloc.layout}`]),
  ];
  if (report.foreign_allocator !== "") facts.push(["other allocator", report.foreign_allocator]);
  return h("details", { class: "card" }, h("summary", {}, "About the process and the snapshot"),
    h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    ...report.notes.map((note) => h("p", {}, note)));
}

function damagePart(report: Report): HTMLElement | null {
  if (report.corruptions.length === 0) return null;
  return h("section", { class: "card warning" }, h("h3", {}, "The heap is damaged"),
    h("ul", {}, ...report.corruptions.slice(0, 20).map((damage) => h("li", {}, h("code", {}, damage.where), ` ${damage.what}`))));
}

function draw(data: Data, params: Params): HTMLElement {
  const rows = rowsOf(data.report);
  const total = data.report.rss.resident;
  return h("div", {}, headline(data, rows),
    total === 0 ? null : stackedBar(rows, total, params.row),
    h("p", { class: "muted bar-note" }, "Striped parts are free memory. Choose a part to find it below."),
    damagePart(data.report),
    h("div", { class: "columns" }, legend(data, rows, params.row),
      h("div", { class: "cards" }, ownersPart(data), growthPart(data), advicePart(data.report), nextPart(data.report), factsPart(data.report))));
}

export const accountView: View = { name: "account", title: "Where the memory went", missing: () => "", draw };
