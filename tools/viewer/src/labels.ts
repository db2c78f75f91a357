// Names of owners and blocks, as heapsnap's text has them (lib/report/owner_labels, reference_labels).
import type { Blocks, Frame, Owner, Root } from "./data";
import { count, counted, fileName, size } from "./format";

const kMostNamed = 3;
// Of more roots than these the first one alone is named.
const kFew = 8;

function severalLabel(roots: Root[], total: number): string {
  if (roots.length === 0) return "several roots together";
  const isMany = total > kFew;
  const named = roots.slice(0, isMany ? 1 : kMostNamed).map((root) => rootLabel(root, false));
  const more = total - named.length;
  if (more <= 0) {
    const last = named.pop()!;
    return `${named.length === 0 ? "" : `${named.join(", ")} and `}${last} together`;
  }
  const areVariables = !isMany && roots.length === total && roots.slice(kMostNamed).every((root) => ["variable", "thread-local", "global", "local"].includes(root.kind));
  return `${named.join(", ")} and ${areVariables ? counted(more, "more variable", "more variables") : counted(more, "more root", "more roots")}, together`;
}

export function ownerLabel(owner: Owner): string {
  if (owner.kind === "several") return severalLabel(owner.roots ?? [], owner.root_count ?? 0);
  return rootLabel(owner, true);
}

// "thread 4711", or of all that share the root "64 threads (worker-*)".
function threadLabel(root: Root): string {
  if (root.threads === undefined) return `thread ${root.tid ?? "?"}`;
  return counted(root.threads, "thread", "threads") + (root.thread_family ? ` (${root.thread_family})` : "");
}

function rootLabel(root: Root, withModule: boolean): string {
  const module = root.module === undefined || root.module === "" ? "" : fileName(root.module);
  let name = root.root;
  if (name === "") name = module === "" ? root.addr ?? `a ${root.kind}` : `${module}+0x${(root.module_offset ?? 0).toString(16)}`;
  else if (withModule && module !== "" && root.kind !== "global" && root.kind !== "local") name = `${name} in ${module}`;
  switch (root.kind) {
    case "thread-local": return `${name}, thread-local of ${threadLabel(root)}`;
    case "local": return withModule && (root.threads !== undefined || root.tid !== undefined) ? `${name}, ${threadLabel(root)}` : name;
    case "stack": return root.root === "" ? `${threadLabel(root)}, on its stack` : `${threadLabel(root)}, in ${name}`;
    case "register": return `${threadLabel(root)}, in register ${root.root}`;
    case "mapping": return root.root === "" ? `anonymous memory at ${root.addr ?? "?"}` : root.root;
    default: return name;
  }
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
