// Puts the page together: head, list of views, and the view that the fragment names.
import { readData, type Data } from "./data";
import { h } from "./dom";
import { fileName, time } from "./format";
import { linkTo, parseRoute } from "./route";
import { themeSwitch } from "./theme";
import type { View } from "./views";
import { accountView } from "./account";
import { arenasView } from "./arenas";
import { flameView } from "./flame";
import { growthView } from "./growth";
import { leaksView } from "./leaks";
import { mapView } from "./map";
import { ownersView } from "./owners";
import { sizesView } from "./sizes";
import { timelineView } from "./timeline";

const views: View[] = [accountView, ownersView, flameView, leaksView, mapView, sizesView, arenasView, growthView, timelineView];

function place(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`no element ${id}`);
  return element;
}

function drawHead(data: Data, redraw: () => void): void {
  const { comm, pid, host, taken_at: taken } = data.report;
  document.title = `${comm} (${pid}), heapsnap`;
  const copy = h("button", { type: "button", id: "copy" }, "Copy link");
  copy.addEventListener("click", () => {
    navigator.clipboard?.writeText(location.href).then(() => { copy.textContent = "Copied"; }, () => { copy.textContent = "Copy it from the address bar"; });
    setTimeout(() => { copy.textContent = "Copy link"; }, 2000);
  });
  place("top").append(
    h("div", { class: "title" },
      h("p", { class: "mark" }, "heapsnap"),
      h("h1", {}, comm, h("span", { class: "pid" }, ` process ${pid}`)),
      h("p", { class: "sub" }, `on ${host}, ${time(taken)}`)),
    h("div", { class: "tools" }, copy, themeSwitch(redraw)));
  place("foot").append(h("p", {}, `${data.report.writer}, from ${fileName(data.report.snapshot)}. This page is complete in itself: it loads nothing and sends nothing.`));
}

function drawNav(data: Data, current: string): void {
  place("views").replaceChildren(h("ul", {}, ...views.filter((view) => view.missing(data) === "" || view.name === "leaks" || view.name === "owners")
    .map((view) => h("li", {}, h("a", { href: linkTo(view.name), "aria-current": view.name === current ? "page" : undefined }, view.title)))));
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
}

function start(): void {
  const main = place("main");
  let data: Data;
  try {
    data = readData();
  } catch (error) {
    main.replaceChildren(h("p", { role: "alert" }, String(error)));
    return;
  }
  let shown = "";
  const draw = () => {
    const route = parseRoute(location.hash);
    if (route.view === "main") return;  // the link that skips to the content
    const view = views.find((each) => each.name === route.view) ?? views[0]!;
    const focused = document.activeElement?.getAttribute("data-focus");
    drawNav(data, view.name);
    const missing = view.missing(data);
    main.replaceChildren(h("section", { "aria-labelledby": "heading", class: `view-${view.name}` }, h("h2", { id: "heading" }, view.title),
      missing === "" ? view.draw(data, route.params) : h("p", { class: "missing" }, missing)));
    main.dispatchEvent(new Event("drawn"));
    if (shown !== "" && shown !== view.name) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    } else if (focused !== null && focused !== undefined) {
      main.querySelector<HTMLElement>(`[data-focus="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
    shown = view.name;
  };
  drawHead(data, draw);
  addEventListener("hashchange", draw);
  draw();
}

start();
