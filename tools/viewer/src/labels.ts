// Names of owners and blocks, as heapsnap's text has them.
import type { Blocks, Frame, Owner, Root } from "./data";
import { count, fileName, size } from "./format";

const kMostNamed = 3;

function severalLabel(roots: Root[], total: number): string {
  if (roots.length === 0) return "several roots together";
  const named = roots.slice(0, kMostNamed).map(rootLabel);
  const more = total - named.length;
  const last = more > 0 ? `${count(more)} more` : named.pop()!;
  return `${named.join(", ")}${named.length === 0 ? "" : " and "}${last} together`;
}

export function ownerLabel(owner: Owner): string {
  if (owner.kind === "several") return severalLabel(owner.roots ?? [], owner.root_count ?? 0);
  return rootLabel(owner);
}

function rootLabel(owner: Root): string {
  const module = owner.module === undefined || owner.module === "" ? "" : fileName(owner.module);
  let name = owner.root;
  if (name === "" && module !== "") name = `${module}+0x${(owner.module_offset ?? 0).toString(16)}`;
  else if (name === "") name = `a ${owner.kind}`;
  else if (module !== "" && owner.kind !== "mapping" && owner.kind !== "global") name = `${name} in ${module}`;
  const isOfThread = owner.tid !== undefined && owner.kind !== "variable" && owner.kind !== "mapping";
  return isOfThread ? `thread ${owner.tid}, ${owner.kind === "stack" ? "in " : ""}${name}` : name;
}

export function sizeRange(least: number, most: number): string {
  const text = (bytes: number) => bytes < 1024 ? `${count(bytes)}` : size(bytes);
  if (least === most) return least < 1024 ? `${count(least)} bytes` : size(least);
  return most < 1024 ? `${text(least)} to ${text(most)} bytes` : `${least < 1024 ? `${count(least)} bytes` : size(least)} to ${size(most)}`;
}

export function blocksLabel(blocks: Blocks): string {
  return `${count(blocks.count)} × ${blocks.type ?? sizeRange(blocks.least_size, blocks.most_size)}`;
}

export function frameLabel(frame: Frame): string {
  const name = frame.function ?? (frame.module === undefined ? frame.address ?? "?" : `${fileName(frame.module)}+${frame.address ?? ""}`);
  return frame.file === undefined ? name : `${name} (${fileName(frame.file)}:${frame.line ?? 0})`;
}
