// The pixels of the heap map: from the sums of the whole, or, where few enough chunks are in sight, from these.
import { isFree, isLive, lastNotAfter, type ChunkStore } from "./chunks";
import { styled } from "./dom";
import type { HeapSpace } from "./heap-space";

export type Coloring = "state" | "size" | "type" | "stack";
export interface Window { place: number; scale: number; width: number; height: number }

const kMostChunks = 600_000;
type Rgb = [number, number, number];

export function colorOf(variable: string): Rgb {
  const text = styled(variable).replace("#", "");
  return [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)) as Rgb;
}

export function sizeStep(bytes: number): number {
  return Math.max(0, Math.min(7, Math.floor((Math.log2(bytes) - 4) / 2)));
}

function mixed(from: Rgb, to: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => from[i]! + (to[i]! - from[i]!) * share) as Rgb;
}

// Of each pixel: bytes used and free, the largest chunk's, and what share of it is not in memory.
class Sums {
  readonly used: Float32Array;
  readonly free: Float32Array;
  readonly absent: Float32Array;
  readonly swapped: Float32Array;
  readonly best: Float32Array;
  readonly color: Uint8Array;
  readonly first: Uint8Array;

  constructor(readonly window: Window) {
    const pixels = window.width * window.height;
    [this.used, this.free, this.absent, this.swapped, this.best] = Array.from({ length: 5 }, () => new Float32Array(pixels)) as [Float32Array, Float32Array, Float32Array, Float32Array, Float32Array];
    this.color = new Uint8Array(pixels);
    this.first = new Uint8Array(pixels);
  }

  // Shares of its bytes, spread over the pixels that [begin, end) touches.
  each(begin: number, end: number, visit: (pixel: number, bytes: number) => void): void {
    const { place, scale } = this.window;
    const from = Math.max(0, Math.floor((begin - place) / scale));
    const to = Math.min(this.used.length, Math.ceil((end - place) / scale));
    for (let pixel = from; pixel < to; ++pixel) {
      const left = place + pixel * scale;
      visit(pixel, Math.min(end, left + scale) - Math.max(begin, left));
    }
  }
}

export class MapPicture {
  constructor(private readonly space: HeapSpace, private readonly store: ChunkStore, private readonly sums: Uint8Array) {}

  // Whether single chunks can be drawn there.
  showsChunks(window: Window): boolean {
    return this.chunkCount(window) <= kMostChunks && !this.lacksChunks(window);
  }

  // Whether the page had no room for some of them.
  lacksChunks(window: Window): boolean {
    return this.ranges(window).some(([begin, end]) => this.store.lacks(begin, end));
  }

  async image(window: Window, coloring: Coloring): Promise<ImageData> {
    const sums = new Sums(window);
    const isFine = this.showsChunks(window);
    this.addSums(sums, isFine);
    if (isFine) await this.addChunks(sums, coloring);
    return this.painted(sums, isFine ? coloring : "state");
  }

  // The stretches of addresses in the window.
  private ranges(window: Window): [number, number, number][] {
    const end = window.place + window.scale * window.width * window.height;
    return this.space.regions.filter((region) => region.place < end && window.place < region.place + region.end - region.begin)
      .map((region) => {
        const from = Math.max(region.place, window.place);
        const to = Math.min(end, region.place + region.end - region.begin);
        return [region.begin + from - region.place, region.begin + to - region.place, region.place - region.begin];
      });
  }

  private chunkCount(window: Window): number {
    const ranges = this.ranges(window);
    if (ranges.length > 4096) return Infinity;
    return ranges.reduce((sum, [begin, end]) => sum + this.store.chunksWithin(begin, end), 0);
  }

  private addSums(sums: Sums, onlyPages: boolean): void {
    const { pixel_bytes: bytes, pixels } = this.space.map;
    const { window } = sums;
    const first = Math.floor(window.place / bytes);
    const last = Math.min(pixels, Math.ceil((window.place + window.scale * window.width * window.height) / bytes));
    for (let at = first; at < last; ++at) {
      const used = this.sums[at]!;
      const free = this.sums[pixels + at]!;
      if (used === 0 && free === 0) continue;
      const absent = this.sums[2 * pixels + at]! / 255;
      const swapped = this.sums[3 * pixels + at]! / 255;
      sums.each(at * bytes, (at + 1) * bytes, (pixel, part) => {
        if (!onlyPages) {
          sums.used[pixel]! += part * used / 255;
          sums.free[pixel]! += part * free / 255;
        }
        sums.absent[pixel]! += part * absent;
        sums.swapped[pixel]! += part * swapped;
      });
    }
  }

  private async addChunks(sums: Sums, coloring: Coloring): Promise<void> {
    for (const [begin, end, shift] of this.ranges(sums.window)) {
      for (const index of this.store.within(begin, end)) {
        const chunks = await this.store.load(index);
        for (let i = Math.max(0, lastNotAfter(chunks.begins, begin)); i < chunks.begins.length; ++i) {
          const at = chunks.begins[i]!;
          const size = chunks.sizes[i]!;
          if (at >= end) break;
          if (at + size <= begin) continue;
          const state = chunks.states[i]!;
          const live = chunks.live[i]!;
          const target = isLive(state) ? sums.used : isFree(state) ? sums.free : null;
          let color = 0;
          if (coloring === "size") color = 1 + sizeStep(size);
          else if (coloring === "type") color = live < 0 ? 0 : hashed(chunks.types?.[live] ?? 0);
          else if (coloring === "stack") color = live < 0 ? 0 : hashed(chunks.stacks?.[live] ?? 0);
          let isFirst = at >= begin;
          sums.each(Math.max(at, begin) + shift, Math.min(at + size, end) + shift, (pixel, bytes) => {
            if (target !== null) target[pixel]! += bytes;
            if (bytes > sums.best[pixel]!) {
              sums.best[pixel] = bytes;
              sums.color[pixel] = live < 0 ? 0 : color;
              sums.first[pixel] = isFirst ? 1 : 0;
            }
            isFirst = false;
          });
        }
      }
    }
  }

  private painted(sums: Sums, coloring: Coloring): ImageData {
    const { width, height, scale } = sums.window;
    const image = new ImageData(width, height);
    const none = colorOf("--map-none");
    const [used, free, absent, swapped] = ["--map-used", coloring === "state" ? "--map-free" : "--map-idle", "--map-absent", "--map-swapped"].map(colorOf) as [Rgb, Rgb, Rgb, Rgb];
    const steps = Array.from({ length: 8 }, (_, i) => colorOf(coloring === "size" ? `--size-${i}` : `--line-${i}`));
    const unknown = colorOf("--map-unknown");
    for (let pixel = 0; pixel < sums.used.length; ++pixel) {
      const bytes = sums.used[pixel]! + sums.free[pixel]!;
      let color = none;
      if (bytes > 0) {
        const live = coloring === "state" ? used : sums.color[pixel] === 0 ? unknown : steps[sums.color[pixel]! - 1]!;
        color = mixed(free, live, Math.min(1, sums.used[pixel]! / bytes));
        color = mixed(color, absent, Math.min(1, sums.absent[pixel]! / bytes));
        color = mixed(color, swapped, Math.min(1, sums.swapped[pixel]! / bytes));
        if (scale <= 16 && sums.first[pixel] === 1) color = mixed(color, [0, 0, 0], 0.35);
      }
      image.data.set([color[0], color[1], color[2], 255], 4 * pixel);
    }
    return image;
  }
}

function hashed(number: number): number {
  return number === 0 ? 0 : 1 + (Math.imul(number, 2654435761) >>> 0) % 8;
}
