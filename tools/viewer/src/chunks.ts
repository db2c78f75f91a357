// The chunks of the heap, inflated slab by slab when they are looked at (lib/report/heap_map_data.h has the layout).
import { binary, inflated, type HeapMap, type Slab } from "./data";

export const states = ["used", "tcache", "fastbin", "unsorted", "smallbin", "largebin", "top", "fence", "mmapped", "unknown"];

export interface Chunks {
  begins: Float64Array;
  sizes: Float64Array;
  states: Uint8Array;
  types?: Uint32Array;   // by live chunk
  stacks?: Uint32Array;
  live: Int32Array;      // of each chunk its number among live ones, or -1
}

export interface Chunk { begin: number; size: number; state: string; type: number; stack: number }

export function isLive(state: number): boolean {
  return state === 0 || state === 8;
}

export function isFree(state: number): boolean {
  return state >= 1 && state <= 6;
}

class Varints {
  at = 0;
  constructor(private readonly bytes: Uint8Array) {}
  next(): number {
    let value = 0;
    for (let factor = 1; this.at < this.bytes.length; factor *= 128) {
      const byte = this.bytes[this.at++]!;
      value += (byte & 127) * factor;
      if (byte < 128) break;
    }
    return value;
  }
}

const kUnit = 8;
const kMostKept = 400;

export class ChunkStore {
  readonly slabs: { slab: Slab; begin: number; end: number; mapped: boolean }[];
  private bytes: Uint8Array | undefined;
  private readonly loaded = new Map<number, Promise<Chunks>>();

  constructor(map: HeapMap) {
    this.slabs = map.slabs.map((slab) => ({ slab, begin: Number(slab.begin), end: Number(slab.end), mapped: false }));
    if (map.mmapped.chunks > 0) this.slabs.push({ slab: map.mmapped, begin: Number(map.mmapped.begin), end: Number(map.mmapped.end), mapped: true });
  }

  // Of those that have chunks in the range and are in the page.
  within(begin: number, end: number): number[] {
    const found: number[] = [];
    this.slabs.forEach((each, i) => {
      if (each.begin < end && begin < each.end && each.slab.length[0]! > 0) found.push(i);
    });
    return found;
  }

  // Whether there are chunks in the range for which the page had no room.
  lacks(begin: number, end: number): boolean {
    return this.slabs.some((each) => each.begin < end && begin < each.end && each.slab.length[0] === 0);
  }

  chunksWithin(begin: number, end: number): number {
    return this.within(begin, end).reduce((sum, i) => sum + this.slabs[i]!.slab.chunks, 0);
  }

  load(index: number): Promise<Chunks> {
    let chunks = this.loaded.get(index);
    if (chunks === undefined) {
      if (this.loaded.size >= kMostKept) this.loaded.delete(this.loaded.keys().next().value!);
      chunks = this.decode(index);
      this.loaded.set(index, chunks);
    }
    return chunks;
  }

  async chunkAt(address: number): Promise<Chunk | undefined> {
    for (const index of this.within(address, address + 1)) {
      const chunks = await this.load(index);
      const i = lastNotAfter(chunks.begins, address);
      if (i < 0 || address >= chunks.begins[i]! + chunks.sizes[i]!) continue;
      const live = chunks.live[i]!;
      return {
        begin: chunks.begins[i]!, size: chunks.sizes[i]!, state: states[chunks.states[i]!] ?? "unknown",
        type: live < 0 ? 0 : chunks.types?.[live] ?? 0, stack: live < 0 ? 0 : chunks.stacks?.[live] ?? 0,
      };
    }
    return undefined;
  }

  private async column(slab: Slab, number: number): Promise<Uint8Array | undefined> {
    const length = slab.length[number]!;
    if (length === 0) return undefined;
    this.bytes ??= binary("chunks");
    return inflated(this.bytes.subarray(slab.at[number]!, slab.at[number]! + length));
  }

  private async decode(index: number): Promise<Chunks> {
    const { slab, begin, end, mapped } = this.slabs[index]!;
    const shape = await this.column(slab, 0) ?? new Uint8Array();
    const begins = new Float64Array(slab.chunks);
    const sizes = new Float64Array(slab.chunks);
    const live = new Int32Array(slab.chunks);
    const varints = new Varints(shape);
    let at = begin;
    for (let i = 0; i < slab.chunks; ++i) {
      if (mapped) at += varints.next() * kUnit;
      begins[i] = at;
      sizes[i] = varints.next() * kUnit;
      at += sizes[i]!;
    }
    if (!mapped && slab.chunks > 0) sizes[slab.chunks - 1] = end - begins[slab.chunks - 1]!;
    const found = shape.subarray(varints.at, varints.at + slab.chunks);
    let lives = 0;
    for (let i = 0; i < slab.chunks; ++i) live[i] = isLive(found[i] ?? 9) ? lives++ : -1;
    const numbers = async (number: number) => {
      const bytes = await this.column(slab, number);
      if (bytes === undefined) return undefined;
      const all = new Varints(bytes);
      return Uint32Array.from({ length: lives }, () => all.next());
    };
    return { begins, sizes, states: found, live, types: await numbers(1), stacks: await numbers(2) };
  }
}

// The index of the last of ascending values that is not greater; -1: none.
export function lastNotAfter(values: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
