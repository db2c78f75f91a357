// The heap as a picture that can be zoomed down to single chunks.
import { ChunkStore, type Chunk } from "./chunks";
import { binary, inflated, type Data } from "./data";
import { h } from "./dom";
import { count, fileName, hex, size } from "./format";
import { HeapSpace } from "./heap-space";
import { MapPicture, type Coloring, type Window } from "./map-picture";
import { go, note, type Params } from "./route";
import type { View } from "./views";

const kFinest = 16;
const kStep = 4;
const colorings: Record<Coloring, string> = { state: "state", size: "size", type: "type", stack: "call stack" };
const stateTexts: Record<string, string> = {
  used: "in use", mmapped: "in use, mmapped", tcache: "free, in a thread's tcache", fastbin: "free, in a fastbin", unsorted: "free, in the unsorted bin",
  smallbin: "free, in a small bin", largebin: "free, in a large bin", top: "free, top of the arena", fence: "fence at the end of a segment", unknown: "not divided into chunks",
};

let shared: Promise<{ space: HeapSpace; store: ChunkStore; picture: MapPicture }> | undefined;

function heapOf(data: Data): NonNullable<typeof shared> {
  shared ??= inflated(binary("pixels")).then((sums) => {
    const space = new HeapSpace(data.map!);
    const store = new ChunkStore(data.map!);
    return { space, store, picture: new MapPicture(space, store, sums) };
  });
  return shared;
}

function regionName(data: Data, begin: number, end: number): string {
  const segments = data.report.segments.filter((segment) => Number(segment.begin) >= begin && Number(segment.begin) < end);
  const first = segments[0];
  if (first === undefined) return `mmapped chunks at ${hex(begin)}`;
  const name = first.arena === 0 ? "main arena" : `arena ${first.arena}`;
  return `${name} (${first.segment_kind}) at ${hex(begin)}`;
}

function stackNames(data: Data, stack: number): string[] {
  const { flame } = data;
  const names: string[] = [];
  if (flame === undefined || flame.by !== "stack") return names;
  for (let node = flame.stacks[stack] ?? 0; node !== 0 && names.length < 64; node = flame.nodes[node]![0]!) names.push(flame.frames[flame.nodes[node]![1]!]!.name);
  return names;
}

function chunkText(data: Data, address: number, chunk: Chunk | undefined): Node[] {
  if (chunk === undefined) return [h("p", {}, h("code", {}, hex(address)), ": the page has no chunk there.")];
  const type = data.map!.types[chunk.type] ?? "";
  const names = stackNames(data, chunk.stack);
  const segment = data.report.segments.find((each) => Number(each.begin) <= chunk.begin && chunk.begin < Number(each.end));
  const facts: [string, string][] = [
    ["address", hex(chunk.begin)], ["size", chunk.size < 1024 ? size(chunk.size) : `${size(chunk.size)} (${count(chunk.size)} bytes)`], ["state", stateTexts[chunk.state] ?? chunk.state],
    ["arena", segment === undefined ? "none" : segment.arena === 0 ? "0 (main)" : String(segment.arena)],
  ];
  if (type !== "") facts.push(["type", type]);
  return [
    h("dl", {}, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    names.length === 0 ? h("span") : h("div", {}, h("h4", {}, "Allocated by"), h("ol", { class: "frames" }, ...names.slice(0, 12).map((name) => h("li", {}, name)))),
  ];
}

function keysOf(coloring: Coloring): HTMLElement {
  const key = (variable: string, text: string) => h("li", {}, h("span", { class: "swatch", style: `background:var(${variable})`, "aria-hidden": "true" }), ` ${text}`);
  const rest = [key(coloring === "state" ? "--map-free" : "--map-idle", "free"), key("--map-absent", "never touched, or given back"), key("--map-swapped", "in swap"), key("--map-none", "no heap")];
  if (coloring === "state") return h("ul", { class: "keys" }, key("--map-used", "in use"), ...rest);
  if (coloring === "size") {
    return h("ul", { class: "keys" }, ...Array.from({ length: 8 }, (_, i) => key(`--size-${i}`, i === 0 ? "up to 64 B" : i === 7 ? "256 KiB and more" : `from ${size(2 ** (4 + 2 * i))}`)), ...rest);
  }
  return h("ul", { class: "keys" }, h("li", {}, `each ${coloring === "type" ? "type" : "call stack"} has one of eight colors`), key("--map-unknown", "not known"), ...rest);
}

class MapView {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": "Heap map. Arrow keys move the cursor, plus and minus zoom, Page Up and Page Down scroll.", class: "heap" });
  private readonly cursor = h("div", { class: "cursor", hidden: true, "aria-hidden": "true" });
  private readonly details = h("div", { class: "chunk", "aria-live": "polite", role: "status" });
  private readonly scaleText = h("p", { class: "scale-text" });
  private readonly slider = h("input", { type: "range", min: "0", max: "1000", value: "0", "aria-label": "Position in the heap" });
  private window: Window = { place: 0, scale: kFinest, width: 1, height: 1 };
  private at: number | undefined;
  private drawing = 0;

  constructor(private readonly data: Data, private readonly params: Params, private readonly coloring: Coloring) {
    this.element = h("div", { class: "map" }, h("div", { class: "map-picture" }, h("div", { class: "canvas-box" }, this.canvas, this.cursor), this.slider, this.scaleText), this.details);
    this.details.append(h("p", { class: "muted" }, "Point to the map, or search an address, to see the chunk there."));
  }

  async start(): Promise<void> {
    const { space } = await heapOf(this.data);
    this.window.width = Math.max(240, Math.floor(this.element.querySelector<HTMLElement>(".canvas-box")!.clientWidth));
    this.window.height = innerWidth < 700 ? 300 : 480;
    this.canvas.width = this.window.width;
    this.at = this.params.at === undefined ? undefined : Number(this.params.at);
    if (Number.isNaN(this.at)) this.at = undefined;
    this.window.height = Math.max(40, Math.min(this.window.height, Math.ceil(space.end / (this.fit(space) * this.window.width))));
    this.canvas.height = this.window.height;
    const scale = Number(this.params.scale ?? (this.at === undefined ? 0 : kFinest));
    this.window.scale = Math.min(this.fit(space), Math.max(kFinest, scale || this.fit(space)));
    const place = this.at === undefined ? undefined : space.placeOf(this.at);
    const wanted = this.params.place !== undefined ? Number(this.params.place) : place === undefined ? 0 : place - this.window.scale * this.pixels() / 2;
    this.window.place = this.allowed(space, wanted);
    await this.draw();
    if (this.at !== undefined) await this.show(this.at);
    this.listen(space);
  }

  private pixels(): number {
    return this.window.width * this.window.height;
  }

  // The finest scale at which all of the heap is in sight.
  private fit(space: HeapSpace): number {
    let scale = kFinest;
    while (scale * this.pixels() < space.end) scale *= 2;
    return scale;
  }

  private allowed(space: HeapSpace, place: number): number {
    const row = this.window.scale * this.window.width;
    const last = Math.max(0, space.end - this.window.scale * this.pixels());
    return Math.floor(Math.max(0, Math.min(last, Number.isFinite(place) ? place : 0)) / row) * row;
  }

  private async draw(): Promise<void> {
    const { picture, space } = await heapOf(this.data);
    const drawing = ++this.drawing;
    const image = await picture.image(this.window, this.coloring);
    if (drawing !== this.drawing) return;
    this.canvas.getContext("2d")?.putImageData(image, 0, 0);
    this.canvas.dataset.drawn = String(this.window.scale);
    const shown = Math.min(space.end, this.window.scale * this.pixels());
    const isCoarse = !picture.lacksChunks(this.window) && this.coloring !== "state" && !picture.showsChunks(this.window);
    this.scaleText.textContent = `A pixel is ${size(this.window.scale)}; in sight: ${size(shown)} of ${size(space.end)}.${isCoarse ? ` Zoom in to see the ${colorings[this.coloring]}: this far out, colors are by state.` : ""}${picture.lacksChunks(this.window) ? " The page has no room for all chunks that are in sight: sums are shown." : ""}`;
    const last = Math.max(1, space.end - this.window.scale * this.pixels());
    this.slider.value = String(Math.round(1000 * Math.min(1, this.window.place / last)));
    this.slider.disabled = shown >= space.end;
    this.placeCursor(space);
  }

  private placeCursor(space: HeapSpace): void {
    const place = this.at === undefined ? undefined : space.placeOf(this.at);
    const pixel = place === undefined ? -1 : Math.floor((place - this.window.place) / this.window.scale);
    this.cursor.hidden = pixel < 0 || pixel >= this.pixels();
    this.cursor.style.left = `${pixel % this.window.width}px`;
    this.cursor.style.top = `${Math.floor(pixel / this.window.width)}px`;
  }

  private async show(address: number): Promise<void> {
    const { store } = await heapOf(this.data);
    const drawing = this.drawing;
    const chunk = await store.chunkAt(address);
    if (drawing !== this.drawing) return;
    const isCut = chunk === undefined && store.lacks(address, address + 1);
    this.details.replaceChildren(...(isCut ? [h("p", {}, h("code", {}, hex(address)), ": the page had no room for the chunks here. To see this one: ",
      h("code", {}, `heapsnap report --at ${hex(address)} ${fileName(this.data.report.snapshot)}`))] : chunkText(this.data, address, chunk)));
  }

  private addressOf(space: HeapSpace, event: MouseEvent): number | undefined {
    const box = this.canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) * this.window.width / box.width);
    const y = Math.floor((event.clientY - box.top) * this.window.height / box.height);
    return space.addressAt(this.window.place + (y * this.window.width + x) * this.window.scale);
  }

  private state(more: Record<string, string | number | undefined>): Record<string, string | number | undefined> {
    return { ...this.params, ...(this.at === undefined ? {} : { at: hex(this.at) }), ...more };
  }

  private async choose(space: HeapSpace, address: number | undefined): Promise<void> {
    if (address === undefined) return;
    this.at = address;
    note("map", this.state({ place: this.window.place, scale: this.window.scale }));
    this.placeCursor(space);
    await this.show(address);
  }

  zoom(space: HeapSpace, factor: number): void {
    const scale = Math.min(this.fit(space), Math.max(kFinest, this.window.scale * factor));
    const center = this.at === undefined ? undefined : space.placeOf(this.at);
    const middle = center ?? this.window.place + this.window.scale * this.pixels() / 2;
    go("map", this.state({ scale, place: Math.max(0, Math.round(middle - scale * this.pixels() / 2)) }));
  }

  private async scroll(space: HeapSpace, place: number): Promise<void> {
    this.window.place = this.allowed(space, place);
    note("map", this.state({ place: this.window.place, scale: this.window.scale }));
    await this.draw();
  }

  private listen(space: HeapSpace): void {
    let last = "";
    this.canvas.addEventListener("pointermove", (event) => {
      const address = this.addressOf(space, event);
      const text = String(address);
      if (text === last) return;
      last = text;
      if (address !== undefined) void this.show(address);
    });
    this.canvas.addEventListener("click", (event) => void this.choose(space, this.addressOf(space, event)));
    this.canvas.addEventListener("dblclick", () => this.zoom(space, 1 / kStep));
    this.slider.addEventListener("input", () => void this.scroll(space, Number(this.slider.value) / 1000 * Math.max(0, space.end - this.window.scale * this.pixels())));
    this.canvas.addEventListener("keydown", (event) => {
      const row = this.window.scale * this.window.width;
      const here = (this.at === undefined ? undefined : space.placeOf(this.at)) ?? this.window.place;
      const steps: Record<string, number> = { ArrowLeft: -this.window.scale, ArrowRight: this.window.scale, ArrowUp: -row, ArrowDown: row };
      const move = steps[event.key];
      if (move !== undefined) {
        const next = Math.max(0, Math.min(space.end - 1, here + move));
        void this.choose(space, space.addressAt(next) ?? space.addressAt(next + Math.sign(move) * space.map.pixel_bytes * 2));
      } else if (event.key === "+" || event.key === "=") this.zoom(space, 1 / kStep);
      else if (event.key === "-") this.zoom(space, kStep);
      else if (event.key === "PageDown" || event.key === "PageUp") void this.scroll(space, this.window.place + (event.key === "PageDown" ? 1 : -1) * row * this.window.height * 0.9);
      else return;
      event.preventDefault();
    });
  }
}

function draw(data: Data, params: Params): HTMLElement {
  const coloring = (params.color !== undefined && params.color in colorings ? params.color : "state") as Coloring;
  const view = new MapView(data, params, coloring);
  document.getElementById("main")?.addEventListener("drawn", () => void view.start(), { once: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const input = h("input", { type: "search", placeholder: "0x55d0c8a00050", "aria-label": "Search an address", value: params.at ?? "", spellcheck: "false", autocomplete: "off" });
  const form = h("form", { class: "filter" }, input, h("button", { type: "submit" }, "Find"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const address = /^(0x)?[0-9a-f]+$/i.test(text) ? parseInt(text.replace(/^0x/i, ""), 16) : NaN;
    void heapOf(data).then(({ space }) => {
      if (Number.isNaN(address)) problem.textContent = `${text} is not a hexadecimal address.`;
      else if (space.placeOf(address) === undefined) problem.textContent = `${hex(address)} is not in malloc's heap.`;
      else go("map", { color: params.color, at: hex(address) });
    });
  });
  const regions = data.map!.regions.map((region, i) => ({ i, begin: Number(region.begin), end: Number(region.end) }));
  const jump = h("select", { "aria-label": "Go to a region" }, h("option", { value: "" }, `Go to one of ${count(regions.length)} regions`),
    ...regions.slice(0, 500).map((region) => h("option", { value: hex(region.begin) }, `${regionName(data, region.begin, region.end)}, ${size(region.end - region.begin)}`)));
  jump.addEventListener("change", () => { if (jump.value !== "") go("map", { color: params.color, at: jump.value, scale: params.scale }); });
  const choice = h("select", { "aria-label": "Color by", "data-focus": "color" }, ...Object.entries(colorings).map(([name, text]) => h("option", { value: name, selected: name === coloring }, `Color by ${text}`)));
  choice.addEventListener("change", () => go("map", { ...params, color: choice.value === "state" ? undefined : choice.value }));
  const zoom = (factor: number) => void heapOf(data).then(({ space }) => view.zoom(space, factor));
  return h("div", {},
    h("p", {}, `malloc's heap of ${fileName(data.report.exe)} in ascending order of address, row by row, like text: what is in use, what is free, and what takes no memory.`),
    h("div", { class: "controls" }, form, choice, jump,
      h("button", { type: "button", "data-focus": "in", onclick: () => zoom(1 / kStep) }, "Zoom in"),
      h("button", { type: "button", "data-focus": "out", onclick: () => zoom(kStep) }, "Zoom out"),
      h("button", { type: "button", "data-focus": "whole", onclick: () => go("map", { color: params.color }) }, "Whole heap")),
    problem, keysOf(coloring), view.element);
}

export const mapView: View = {
  name: "map", title: "Heap map", draw, missing: (data) => (data.map?.regions.length ?? 0) > 0 ? "" : "malloc's heap has no chunks.",
};
