// What the page holds: the JSON of heapsnap's own commands (docs/json.md), and the columns of the heap map.

export interface Pages { resident: number; swapped: number; absent: number; unknown: number }
export interface Figures extends Pages { count: number; bytes: number }
export interface Amount { resident: number; swapped: number }
export interface Group extends Amount { kind: string; name: string; evidence: string; count: number; size: number }
export interface Tally { count: number; bytes: number }
export interface SizeClass { begin: number; end: number; used: Tally; free: Tally }
export interface LargeChunk { addr: string; size: number; state: string; arena: number }
export interface Arena {
  index: number; main: boolean; system_mem: number; attached_threads: number; states: Record<string, Figures>;
  own: Pages; trim: { resident: number }; largest_free: number; free_share: number; scatter: number;
}
export interface Root {
  root: string; kind: string; module?: string; module_offset?: number; tid?: number; addr?: string;
  threads?: number; thread_family?: string;  // in place of tid and addr: of how many threads it is one
}
export interface Owner extends Root {
  retained_bytes: number; retained_blocks: number; holds?: Blocks[];
  roots?: Root[]; root_count?: number;  // of kind "several": those that share the blocks
}
export interface Blocks {
  count: number; bytes: number; type?: string; least_size: number; most_size: number; held_at?: number;
  retained_bytes: number; retained_blocks: number; holds?: Blocks[];
}
export interface Advice { kind: string; saves_least: number; saves_most: number; finding: string; action: string }
export interface Report {
  writer: string; snapshot: string; taken_at: string; pid: number; comm: string; exe: string; host: string; threads: number;
  freeze: { method: string; why: string; pause_ns: number };
  mallocs: { module: string; glibc: string; discovery: string; layout: string }[];
  foreign_allocator: string; foreign_answers_malloc: boolean;
  rss: {
    basis: string; resident: number; swapped: number; process_rss: number; disagreement: number;
    rows: Record<string, Amount>; other_anonymous: Group[]; largest_files: Group[]; largest_file_data: Group[]; largest_shared: Group[];
  };
  advice: Advice[]; states: Record<string, Figures>;
  size_classes: SizeClass[]; common_sizes: SizeClass[]; largest_sizes: SizeClass[];
  largest_used: LargeChunk[]; largest_free: LargeChunk[]; arenas: Arena[];
  segments: { begin: string; end: string; arena: number; segment_kind: string; system_bytes: number }[];
  corruptions: { where: string; what: string }[]; notes: string[];
  tracking?: { live_bytes: number; live_blocks: number; without_stack: Tally };
  owners?: Owner[]; blocks_in_use?: number; bytes_in_use?: number; leaked_blocks?: number; leaked_bytes?: number;
  why_no_references?: string;
  next_step: { subject: string; why: string; commands: string[]; more: { text: string; commands: string[] }[] };
}
export interface Owners { blocks_in_use: number; bytes_in_use: number; leaked_blocks: number; leaked_bytes: number; owners: Owner[] }
export interface Frame { address?: string; module?: string; function?: string; file?: string; line?: number }
export interface LeakGroup {
  kind: string; count: number; type?: string; least_size: number; most_size: number; retained_blocks: number; retained_bytes: number;
  largest: string; stack?: number; frames?: Frame[];
}
export interface Leaks {
  blocks_in_use: number; bytes_in_use: number; leaked_blocks: number; leaked_bytes: number;
  direct_blocks: number; direct_bytes: number; indirect_blocks: number; indirect_bytes: number;
  cycle_blocks: number; cycle_bytes: number; held_by_several_blocks: number; held_by_several_bytes: number; groups: LeakGroup[];
}
export interface LeakStep { addr: string; bytes: number; type?: string; from: number; held_at: number; interior: boolean }
export interface FlameFrame { name: string; file?: string; line?: number; module?: string }
export interface Flame { by: string; bytes: number; blocks: number; nodes: number[][]; frames: FlameFrame[]; stacks: number[] }
export interface Slab { begin: string; end: string; chunks: number; at: number[]; length: number[] }
export interface HeapMap {
  pixel_bytes: number; pixels: number; regions: { begin: string; end: string; first_pixel: number }[];
  types: string[]; slabs: Slab[]; mmapped: Slab;
}
export interface DiffRow {
  name: string; bytes: number[]; blocks: number[]; growth: number; only_grows: boolean; steps_up: number; holds?: DiffRow[];
}
export interface DiffSection {
  by: string; comparable: boolean; steps: number; lacks: string[]; total: DiffRow; rows: DiffRow[]; unchanged: number;
}
export interface Diff {
  snapshots: { snapshot: string; taken_at: string; rss: number; pid: number }[]; same_process: boolean; same_build: boolean;
  in_use: DiffRow; resident: DiffRow; sections: DiffSection[];
}
export interface Series { of: string; name: string; values: number[]; slope: { per_day?: number; low_per_day?: number; high_per_day?: number } }
export interface History {
  name: string; trend: string; observed_seconds: number; change: number; points: { time: string; run: number; snapshot: string }[];
  series: Series[]; forecast?: { limit: string; at: string };
}
export interface Left {
  owners_left_out: number; owners_left_out_bytes: number; leak_groups_left_out: number; leak_groups_left_out_bytes: number;
  leak_functions: string[];  // of each group of leaks, whom its call stack is charged to; "": not known
}

export interface Data {
  report: Report; view: Left; owners?: Owners; leaks?: Leaks; trails?: { trails: LeakStep[][] }; flame?: Flame; map?: HeapMap; diff?: Diff; history?: History;
}

// What cannot be seen, or moves the text around it: controls, zero-width characters, overrides of direction.
const kInvisible = /[\p{Cc}\p{Cf}\p{Co}\u2028\u2029\u115f\u1160\u3164\ufe00-\ufe0f\u{e0000}-\u{e0fff}]/gu;

// As heapsnap's text writes such characters: "\x1b", "\u202e".
function visible(text: string): string {
  return text.replace(kInvisible, (character) => {
    const code = character.codePointAt(0)!;
    return code < 0xa0 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

// Every name in it can be shown: nothing of it moves what stands beside it.
function parsed<T>(id: string): T | undefined {
  const script = document.getElementById(id);
  const readable = (_: string, value: unknown) => typeof value === "string" ? visible(value) : value;
  return script === null ? undefined : JSON.parse(script.textContent ?? "", readable) as T;
}

export function readData(): Data {
  const report = parsed<Report>("report");
  const view = parsed<Left>("view");
  if (report === undefined || view === undefined) throw new Error("this page was not written by heapsnap view: it has no data");
  return {
    report, view, owners: parsed("owners"), leaks: parsed("leaks"), trails: parsed("trails"), flame: parsed("flame"), map: parsed("map"),
    diff: parsed("diff"), history: parsed("history"),
  };
}

// The bytes of a script of base64.
export function binary(id: string): Uint8Array {
  const text = atob(document.getElementById(id)?.textContent ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export async function inflated(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
