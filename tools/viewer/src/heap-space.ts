// The regions of the heap one after the other, as if there were nothing between them: places of the map.
//
//   place     0 ......... | first_pixel * pixel_bytes ....... | ...
//   address   region 0    | region 1                        | ...
import type { HeapMap } from "./data";
import { lastNotAfter } from "./chunks";

export class HeapSpace {
  readonly end: number;
  readonly regions: { begin: number; end: number; place: number }[];
  private readonly begins: number[];
  private readonly places: number[];

  constructor(readonly map: HeapMap) {
    this.end = map.pixels * map.pixel_bytes;
    this.regions = map.regions.map((region) => ({ begin: Number(region.begin), end: Number(region.end), place: region.first_pixel * map.pixel_bytes }));
    this.begins = this.regions.map((region) => region.begin);
    this.places = this.regions.map((region) => region.place);
    const last = this.regions[this.regions.length - 1];
    if (last !== undefined) this.end = last.place + last.end - last.begin;
  }

  addressAt(place: number): number | undefined {
    const region = this.regions[lastNotAfter(this.places, place)];
    if (region === undefined) return undefined;
    const address = region.begin + place - region.place;
    return address < region.end ? address : undefined;
  }

  placeOf(address: number): number | undefined {
    const region = this.regions[lastNotAfter(this.begins, address)];
    return region === undefined || address >= region.end ? undefined : region.place + address - region.begin;
  }
}
