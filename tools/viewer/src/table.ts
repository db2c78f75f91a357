// Tables that sort by a click on a header, and a bar for a share.
import { h } from "./dom";

export interface Column<Row> {
  name: string;
  title: string;
  cell: (row: Row) => Node | string;
  value?: (row: Row) => number | string;  // what to sort by
  numeric?: boolean;
}

export interface Sort { by: string; down: boolean }

export function parseSort(text: string | undefined, by: string): Sort {
  if (text === undefined || text === "") return { by, down: true };
  return { by: text.replace(/^-/, ""), down: !text.startsWith("-") };
}

function sorted<Row>(rows: Row[], columns: Column<Row>[], sort: Sort): Row[] {
  const value = columns.find((column) => column.name === sort.by)?.value;
  if (value === undefined) return rows;
  const sign = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const first = value(a);
    const second = value(b);
    if (typeof first === "number" && typeof second === "number") return sign * (first - second);
    return -sign * String(first).localeCompare(String(second));
  });
}

// `most`: rows that are drawn at once; a button shows the others.
export function table<Row>(caption: string, rows: Row[], columns: Column<Row>[], sort: Sort,
                           onSort: (sort: Sort) => void, most = 100): HTMLElement {
  let current = sort;
  const body = h("tbody");
  const head = h("tr");
  const rest = h("p", { class: "rest" });
  let shown = most;

  const draw = () => {
    const all = sorted(rows, columns, current);
    body.replaceChildren(...all.slice(0, shown).map((row) => h("tr", {}, ...columns.map((column, i) =>
      i === 0 ? h("th", { scope: "row" }, column.cell(row)) : h("td", { class: column.numeric ? "number" : undefined }, column.cell(row))))));
    rest.replaceChildren();
    if (all.length > shown) {
      rest.append(h("button", { type: "button", onclick: () => { shown = Infinity; draw(); } }, `Show all ${all.length.toLocaleString("en-US")} rows`));
    }
    head.replaceChildren(...columns.map((column) => {
      const isCurrent = current.by === column.name;
      const cell = h("th", {
        scope: "col", class: column.numeric ? "number" : undefined,
        "aria-sort": isCurrent ? (current.down ? "descending" : "ascending") : undefined,
      });
      if (column.value === undefined) {
        cell.append(column.title);
      } else {
        cell.append(h("button", {
          type: "button", class: "sort", "data-sort": column.name,
          onclick: () => {
            current = { by: column.name, down: isCurrent ? !current.down : column.numeric === true };
            onSort(current);
            draw();
            head.querySelector<HTMLElement>(`[data-sort="${column.name}"]`)?.focus();
          },
        }, column.title, h("span", { "aria-hidden": "true", class: "arrow" }, isCurrent ? (current.down ? "▾" : "▴") : "")));
      }
      return cell;
    }));
  };
  draw();
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
           h("table", {}, h("caption", { class: "hidden" }, caption), h("thead", {}, head), body), rest);
}

export function sortText(sort: Sort, by: string): string {
  return sort.by === by && sort.down ? "" : `${sort.down ? "" : "-"}${sort.by}`;
}

// A share as a bar with its text; the text is what screen readers say.
export function bar(share: number, text: string, color = "var(--used)"): HTMLElement {
  const width = Math.max(0, Math.min(100, 100 * share));
  return h("span", { class: "bar" },
           h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar-fill", style: `width:${width}%;background:${color}` })),
           h("span", { class: "bar-text" }, text));
}

export function filterField(label: string, value: string, onInput: (text: string) => void): HTMLElement {
  const input = h("input", { type: "search", value, placeholder: label, "aria-label": label, autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => onInput(input.value));
  return h("div", { class: "filter" }, input);
}
