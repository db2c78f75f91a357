// Numbers as people read them, the same as in heapsnap's text (lib/base, lib/report/number_text).

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function size(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  // In tenths, as printed: what rounds up to 1024 is one of the next unit.
  while ((unit === 0 ? value : Math.round(value * 10) / 10) >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  const sign = bytes < 0 ? "−" : "";
  return unit === 0 ? `${sign}${count(Math.round(value))} B` : `${sign}${value.toFixed(1)} ${units[unit]}`;
}

export function signedSize(bytes: number): string {
  return bytes > 0 ? `+${size(bytes)}` : size(bytes);
}

export function count(number: number): string {
  return Math.round(number).toLocaleString("en-US");
}

export function counted(number: number, one: string, many: string): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// With a space that does not end a line.
export function percent(part: number, whole: number): string {
  if (part === 0) return "0\u00a0%";
  if (whole === 0) return "–";
  const share = 100 * part / whole;
  return share < 0.1 ? "<0.1\u00a0%" : `${share.toFixed(1)}\u00a0%`;
}

export function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}

export function time(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function duration(ns: number): string {
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 999950) return `${(ns / 1e3).toFixed(1)} µs`;
  return ns < 999950000 ? `${(ns / 1e6).toFixed(1)} ms` : `${(ns / 1e9).toFixed(1)} s`;
}
