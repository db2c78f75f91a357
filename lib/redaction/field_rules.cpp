#include "redaction/field_rules.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"

namespace heapsnap {

namespace {

using enum FieldRule;
using Kind = format::SectionKind;

// clang-format off
constexpr std::array kDecisions{
    FieldDecision{"capture", "writer", kWord},
    FieldDecision{"capture", "foreign_allocator", kWord},
    FieldDecision{"capture", "foreign_answers_malloc", kKeep},
    FieldDecision{"process", "pid", kThread},
    FieldDecision{"process", "comm", kProgramName},
    FieldDecision{"process", "exe", kPath},
    FieldDecision{"process", "command_line", kByRow},
    FieldDecision{"process", "hostname", kByRow},
    FieldDecision{"process", "boot_id", kByRow},
    FieldDecision{"process", "start_time_ticks", kByRow},
    FieldDecision{"process", "uid", kByRow},
    FieldDecision{"process", "machine", kKeep},
    FieldDecision{"process", "page_size", kKeep},
    FieldDecision{"process", "rss", kKeep},
    FieldDecision{"process", "swap", kKeep},
    FieldDecision{"process", "taken_at_ns", kKeep},
    FieldDecision{"process", "fatal_signal", kKeep},
    FieldDecision{"process", "build_id", kBuildId},
    FieldDecision{"collection", "place", kDrop},
    FieldDecision{"memory_left", "bytes", kKeep},
    FieldDecision{"memory_left", "limit", kSentence},
    FieldDecision{"freeze", "method", kKeep},
    FieldDecision{"freeze", "why", kByRow},
    FieldDecision{"freeze", "pause_ns", kKeep},
    FieldDecision{"freeze", "reap_pause_ns", kKeep},
    FieldDecision{"freeze", "threads", kKeep},
    FieldDecision{"freeze", "threads_in_malloc", kKeep},
    FieldDecision{"freeze", "steps", kKeep},
    FieldDecision{"freeze", "syscalls_restarted", kKeep},
    FieldDecision{"freeze_notes", "text", kDrop},
    FieldDecision{"references", "is_complete", kKeep},
    FieldDecision{"references", "why_not", kSentence},
    FieldDecision{"references", "blocks", kKeep},
    FieldDecision{"references", "references", kKeep},
    FieldDecision{"references", "roots", kKeep},
    FieldDecision{"references", "scanned_bytes", kKeep},
    FieldDecision{"references", "bytes_in_swap", kKeep},
    FieldDecision{"references", "bytes_unreadable", kKeep},
    FieldDecision{"references", "scan_ns", kKeep},
    FieldDecision{"threads", "tid", kThread},
    FieldDecision{"threads", "name", kThreadName},
    FieldDecision{"threads", "has_registers", kKeep},
    FieldDecision{"threads", "instruction_pointer", kRebase},
    FieldDecision{"threads", "stack_pointer", kRebase},
    FieldDecision{"threads", "thread_pointer", kRebase},
    FieldDecision{"mappings", "begin", kRebase},
    FieldDecision{"mappings", "end", kRebase},
    FieldDecision{"mappings", "readable", kKeep},
    FieldDecision{"mappings", "writable", kKeep},
    FieldDecision{"mappings", "executable", kKeep},
    FieldDecision{"mappings", "shared", kKeep},
    FieldDecision{"mappings", "file_offset", kKeep},
    FieldDecision{"mappings", "device_major", kDrop},
    FieldDecision{"mappings", "device_minor", kDrop},
    FieldDecision{"mappings", "inode", kByRow},
    FieldDecision{"mappings", "path", kPath},
    FieldDecision{"mappings", "deleted", kKeep},
    FieldDecision{"mappings", "has_usage", kKeep},
    FieldDecision{"mappings", "rss", kKeep},
    FieldDecision{"mappings", "pss", kKeep},
    FieldDecision{"mappings", "anonymous", kKeep},
    FieldDecision{"mappings", "swap", kKeep},
    FieldDecision{"mappings", "anon_huge", kKeep},
    FieldDecision{"mappings", "hugetlb", kKeep},
    FieldDecision{"malloc_instances", "module", kPath},
    FieldDecision{"malloc_instances", "build_id", kBuildId},
    FieldDecision{"malloc_instances", "version_major", kKeep},
    FieldDecision{"malloc_instances", "version_minor", kKeep},
    FieldDecision{"malloc_instances", "strategy", kKeep},
    FieldDecision{"malloc_instances", "layout_source", kWord},
    FieldDecision{"malloc_instances", "main_arena", kRebase},
    FieldDecision{"malloc_instances", "malloc_par", kRebase},
    FieldDecision{"malloc_instances", "n_mmaps", kKeep},
    FieldDecision{"malloc_instances", "mmapped_mem", kKeep},
    FieldDecision{"malloc_instances", "tcache_count", kKeep},
    FieldDecision{"malloc_instance_notes", "instance", kDrop},
    FieldDecision{"malloc_instance_notes", "text", kDrop},
    FieldDecision{"arenas", "address", kRebase},
    FieldDecision{"arenas", "instance", kKeep},
    FieldDecision{"arenas", "is_main", kKeep},
    FieldDecision{"arenas", "is_noncontiguous", kKeep},
    FieldDecision{"arenas", "was_locked", kKeep},
    FieldDecision{"arenas", "system_mem", kKeep},
    FieldDecision{"arenas", "max_system_mem", kKeep},
    FieldDecision{"arenas", "attached_threads", kKeep},
    FieldDecision{"arenas", "top", kRebase},
    FieldDecision{"arenas", "walked", kKeep},
    FieldDecision{"segments", "begin", kRebase},
    FieldDecision{"segments", "end", kRebase},
    FieldDecision{"segments", "arena", kKeep},
    FieldDecision{"segments", "kind", kKeep},
    FieldDecision{"segments", "system_bytes", kKeep},
    FieldDecision{"thread_caches", "tid", kThread},
    FieldDecision{"thread_caches", "tcache", kRebase},
    FieldDecision{"thread_caches", "arena", kKeep},
    FieldDecision{"thread_caches", "chunks", kKeep},
    FieldDecision{"thread_caches", "bytes", kKeep},
    FieldDecision{"corruptions", "where", kRebase},
    FieldDecision{"corruptions", "arena", kKeep},
    FieldDecision{"corruptions", "segment", kKeep},
    FieldDecision{"corruptions", "what", kSentence},
    FieldDecision{"notes", "text", kDrop},
    FieldDecision{"tracker", "version", kKeep},
    FieldDecision{"tracker", "directory", kRebase},
    FieldDecision{"tracker", "recording", kKeep},
    FieldDecision{"tracker", "pid", kThread},
    FieldDecision{"tracker", "generation", kKeep},
    FieldDecision{"tracker", "start_count", kKeep},
    FieldDecision{"tracker", "started_ns", kByRow},
    FieldDecision{"tracker", "recorded_ns", kKeep},
    FieldDecision{"tracker", "sample_bytes", kKeep},
    FieldDecision{"tracker", "max_frames", kKeep},
    FieldDecision{"tracker", "memory_limit", kKeep},
    FieldDecision{"tracker", "memory_reserved", kKeep},
    FieldDecision{"tracker", "memory_used", kKeep},
    FieldDecision{"tracker", "limits", kKeep},
    FieldDecision{"tracker", "dropped_slots", kKeep},
    FieldDecision{"tracker", "dropped_stacks", kKeep},
    FieldDecision{"tracker", "nested_events", kKeep},
    FieldDecision{"tracker", "dropped_threads", kKeep},
    FieldDecision{"tracker", "slow_unwinds", kKeep},
    FieldDecision{"tracker", "full_unwinds", kKeep},
    FieldDecision{"tracker", "limit_reached_ns", kByRow},
    FieldDecision{"tracker", "unrecorded", kKeep},
    FieldDecision{"tracker_notes", "text", kDrop},
    FieldDecision{"tracker_modules", "path", kPath},
    FieldDecision{"tracker_modules", "build_id", kBuildId},
    FieldDecision{"tracker_modules", "bias", kByRow},
    FieldDecision{"tracker_modules", "begin", kRebase},
    FieldDecision{"tracker_modules", "end", kRebase},
    FieldDecision{"tracker_modules", "loaded", kKeep},
    FieldDecision{"tracker_modules", "unloaded", kKeep},
    FieldDecision{"tracker_threads", "tid", kThread},
    FieldDecision{"tracker_threads", "name", kThreadName},
    FieldDecision{"tracker_threads", "exited", kKeep},
    FieldDecision{"tracker_threads", "allocations", kKeep},
    FieldDecision{"tracker_threads", "frees", kKeep},
    FieldDecision{"tracker_threads", "allocated_bytes", kKeep},
    FieldDecision{"tracker_threads", "freed_bytes", kKeep},
    FieldDecision{"tracker_threads", "without_stack", kKeep},
    FieldDecision{"tracker_threads", "truncated", kKeep},
    FieldDecision{"tracker_memory", "begin", kRebase},
    FieldDecision{"tracker_memory", "end", kRebase},
    FieldDecision{"mmapped_chunks", "mapping_begin", kRebase},
    FieldDecision{"mmapped_chunks", "chunk", kRebase},
    FieldDecision{"mmapped_chunks", "total", kKeep},
    FieldDecision{"mmapped_chunks", "size", kKeep},
    FieldDecision{"mmapped_chunks", "usable", kKeep},
    FieldDecision{"mmapped_chunks", "state", kKeep},
    FieldDecision{"mmapped_chunks", "instance", kKeep},
    FieldDecision{"mmapped_chunks", "stack", kKeep},
    FieldDecision{"mmapped_chunks", "slack", kKeep},
    FieldDecision{"stack_nodes", "parent", kKeep},
    FieldDecision{"stack_nodes", "module", kKeep},
    FieldDecision{"stack_nodes", "return_address", kRebase},
    FieldDecision{"stacks", "node", kKeep},
    FieldDecision{"stacks", "depth", kKeep},
    FieldDecision{"stacks", "sample_bytes", kKeep},
    FieldDecision{"stacks", "allocations", kKeep},
    FieldDecision{"stacks", "frees", kKeep},
    FieldDecision{"stacks", "allocated_bytes", kKeep},
    FieldDecision{"stacks", "freed_bytes", kKeep},
    FieldDecision{"strings", "text", kByRow},
    FieldDecision{"code_frames", "module", kKeep},
    FieldDecision{"code_frames", "return_address", kRebase},
    FieldDecision{"code_frames", "function", kFunction},
    FieldDecision{"code_frames", "file", kSourceFile},
    FieldDecision{"code_frames", "line", kByRow},
    FieldDecision{"code_frames", "offset", kKeep},
    FieldDecision{"code_frames", "inlined", kKeep},
    FieldDecision{"roots", "place", kKeep},
    FieldDecision{"roots", "offset", kKeep},
    FieldDecision{"roots", "target", kKeep},
    FieldDecision{"roots", "interior", kKeep},
    FieldDecision{"root_places", "kind", kKeep},
    FieldDecision{"root_places", "tid", kThread},
    FieldDecision{"root_places", "module", kPath},
    FieldDecision{"root_places", "name", kByRow},
    FieldDecision{"root_places", "begin", kRebase},
    FieldDecision{"root_places", "size", kKeep},
    FieldDecision{"root_places", "module_offset", kKeep},
    FieldDecision{"types", "name", kByRow},
    FieldDecision{"types", "module", kPath},
    FieldDecision{"types", "source", kKeep},
    // Columns of sections that are no tables, by their headings in docs/snapshot-format.md.
    FieldDecision{"Chunk blocks", "runs", kRebase},
    FieldDecision{"Chunk blocks", "size codes", kKeep},
    FieldDecision{"Chunk blocks", "large sizes", kKeep},
    FieldDecision{"Chunk blocks", "state bits", kKeep},
    FieldDecision{"Chunk blocks", "other states", kKeep},
    FieldDecision{"Chunk blocks", "stack ids", kKeep},
    FieldDecision{"Chunk blocks", "slacks", kKeep},
    FieldDecision{"Memory contents", "ranges", kDrop},
    FieldDecision{"Memory contents", "bytes", kDrop},
    FieldDecision{"References", "first block", kKeep},
    FieldDecision{"References", "counts", kKeep},
    FieldDecision{"References", "large counts", kKeep},
    FieldDecision{"References", "offsets", kKeep},
    FieldDecision{"References", "large offsets", kKeep},
    FieldDecision{"References", "targets", kKeep},
    FieldDecision{"References", "interior bits", kKeep},
};
// clang-format on

}  // namespace

std::span<const FieldDecision> field_decisions() {
  return kDecisions;
}

FieldRule rule_of(std::string_view table, std::string_view column) {
  const auto found =
      std::find_if(kDecisions.begin(), kDecisions.end(), [&](const FieldDecision& decision) {
        return decision.table == table && decision.column == column;
      });
  if (found != kDecisions.end()) return found->rule;
  throw Error(ErrorKind::kInternal, "cannot share a snapshot",
              "nobody has decided what becomes of " + std::string(column) + " of the table " +
                  std::string(table));
}

std::optional<bool> is_shared(format::SectionKind kind) {
  switch (kind) {
    case Kind::kChunks:
    case Kind::kPages:
    case Kind::kTable:
    case Kind::kMmappedChunks:
    case Kind::kIndex:
    case Kind::kCallStacks:
    case Kind::kReferences:
    case Kind::kRoots:
    case Kind::kTypeNames:
    case Kind::kBlockTypes: return true;
    case Kind::kContents: return false;
  }
  return std::nullopt;
}

}  // namespace heapsnap
