// d3-flame-graph has no types of its own. Of what it offers, this is what the page uses.
declare module "d3-flame-graph" {
  import type { Selection } from "d3-selection";
  export interface FlameNode<Datum> { data: Datum; id: number; parent: FlameNode<Datum> | null; children?: FlameNode<Datum>[]; value: number; depth: number }
  export interface FlameGraph<Datum> {
    (selection: Selection<any, any, any, any>): void;
    width(pixels: number): this;
    cellHeight(pixels: number): this;
    minFrameSize(pixels: number): this;
    transitionDuration(ms: number): this;
    inverted(root_is_on_top: boolean): this;
    sort(on: boolean): this;
    setColorMapper(mapper: (node: FlameNode<Datum>, original: string) => string): this;
    setLabelHandler(handler: (node: FlameNode<Datum>) => string): this;
    setSearchMatch(matches: (node: FlameNode<Datum>, term: string, ignoreCase: boolean) => boolean): this;
    setDetailsHandler(handler: (text: string | null) => void): this;
    onClick(handler: (node: FlameNode<Datum>) => void): this;
    onHover(handler: (node: FlameNode<Datum>) => void): this;
    zoomTo(node: FlameNode<Datum>): void;
    resetZoom(): void;
    search(term: string): void;
    clear(): void;
    destroy(): void;
  }
  export default function flamegraph<Datum>(): FlameGraph<Datum>;
}
