// What the rows of the metadata tables consist of. The names are stored in files: they never change
// their meaning, new ones are appended.
#pragma once

#include <cstdint>
#include <string>

#include "snapshot/metadata.h"
#include "snapshot/table.h"

namespace heapsnap {

template <>
struct EnumRange<Machine> {
  static constexpr auto kFirst = Machine::kX86_64;
  static constexpr auto kLast = Machine::kI386;
};
template <>
struct EnumRange<FreezeMethod> {
  static constexpr auto kFirst = FreezeMethod::kNone;
  static constexpr auto kLast = FreezeMethod::kCore;
};
template <>
struct EnumRange<SegmentKind> {
  static constexpr auto kFirst = SegmentKind::kBrk;
  static constexpr auto kLast = SegmentKind::kMapped;
};
template <>
struct EnumRange<DiscoveryStrategy> {
  static constexpr auto kFirst = DiscoveryStrategy::kNone;
  static constexpr auto kLast = DiscoveryStrategy::kStructuralScan;
  static constexpr auto kUnknown = DiscoveryStrategy::kNone;
};

// Rows that are no type of their own elsewhere.
struct CaptureRow {
  std::string writer;
  std::string foreign_allocator;
  bool foreign_answers_malloc = false;
};
struct NoteRow {
  std::string text;
};
struct FreezeNoteRow {
  std::string text;
};
struct InstanceNoteRow {
  uint32_t instance = 0;
  std::string text;
};
struct ThreadRow {
  int tid = 0;
  std::string name;
  bool has_registers = false;
  Registers registers;
};
// A reader that knows of no slots would number blocks wrongly: to it, there are no references.
struct ReferenceRow : ReferenceRecord {
  ReferenceRow() = default;
  explicit ReferenceRow(const ReferenceRecord& record) : ReferenceRecord(record) {
    if (slots == 0 || !is_complete) return;
    is_complete = false;
    is_complete_with_slots = true;
    why_not = "objects of a language runtime are among its blocks, which needs a newer heapsnap";
  }
  ReferenceRecord record() const {
    ReferenceRecord record(static_cast<const ReferenceRecord&>(*this));
    if (!is_complete_with_slots) return record;
    record.is_complete = true;
    record.why_not.clear();
    return record;
  }
  bool is_complete_with_slots = false;
};
struct TrackerNoteRow {
  std::string text;
};
struct MappingRow {
  Mapping mapping;
  bool has_usage = false;
  MappingUsage usage;
};

template <>
struct TableOf<CaptureRow> {
  static constexpr const char* kName = "capture";
  static void columns(auto& column, auto& row) {
    column("writer", row.writer);
    column("foreign_allocator", row.foreign_allocator);
    column("foreign_answers_malloc", row.foreign_answers_malloc);
  }
};

template <>
struct TableOf<NoteRow> {
  static constexpr const char* kName = "notes";
  static void columns(auto& column, auto& row) { column("text", row.text); }
};

template <>
struct TableOf<FreezeNoteRow> {
  static constexpr const char* kName = "freeze_notes";
  static void columns(auto& column, auto& row) { column("text", row.text); }
};

template <>
struct TableOf<InstanceNoteRow> {
  static constexpr const char* kName = "malloc_instance_notes";
  static void columns(auto& column, auto& row) {
    column("instance", row.instance);
    column("text", row.text);
  }
};

template <>
struct TableOf<Process> {
  static constexpr const char* kName = "process";
  static void columns(auto& column, auto& row) {
    column("pid", row.pid);
    column("comm", row.comm);
    column("exe", row.exe);
    column("command_line", row.command_line);
    column("hostname", row.hostname);
    column("boot_id", row.boot_id);
    column("start_time_ticks", row.start_time_ticks);
    column("uid", row.uid);
    column("machine", row.machine);
    column("page_size", row.page_size);
    column("rss", row.rss);
    column("swap", row.swap);
    column("taken_at_ns", row.taken_at_ns);
    column("fatal_signal", row.fatal_signal);
    column("build_id", row.build_id);
  }
};

template <>
struct TableOf<Collection> {
  static constexpr const char* kName = "collection";
  static void columns(auto& column, auto& row) { column("place", row.place); }
};

template <>
struct TableOf<MemoryLeft> {
  static constexpr const char* kName = "memory_left";
  static void columns(auto& column, auto& row) {
    column("bytes", row.bytes);
    column("limit", row.limit);
  }
};

template <>
struct TableOf<ReferenceRow> {
  static constexpr const char* kName = "references";
  static void columns(auto& column, auto& row) {
    column("is_complete", row.is_complete);
    column("why_not", row.why_not);
    column("is_complete_with_slots", row.is_complete_with_slots);
    column("blocks", row.blocks);
    column("slots", row.slots);
    column("references", row.references);
    column("roots", row.roots);
    column("scanned_bytes", row.scanned_bytes);
    column("bytes_in_swap", row.bytes_in_swap);
    column("bytes_unreadable", row.bytes_unreadable);
    column("scan_ns", row.scan_ns);
  }
};

template <>
struct TableOf<FreezeRecord> {
  static constexpr const char* kName = "freeze";
  static void columns(auto& column, auto& row) {
    column("method", row.method);
    column("why", row.why);
    column("pause_ns", row.pause_ns);
    column("reap_pause_ns", row.reap_pause_ns);
    column("threads", row.threads);
    column("threads_in_malloc", row.threads_in_malloc);
    column("steps", row.steps);
    column("syscalls_restarted", row.syscalls_restarted);
  }
};

template <>
struct TableOf<ThreadRow> {
  static constexpr const char* kName = "threads";
  static void columns(auto& column, auto& row) {
    column("tid", row.tid);
    column("name", row.name);
    column("has_registers", row.has_registers);
    column("instruction_pointer", row.registers.instruction_pointer);
    column("stack_pointer", row.registers.stack_pointer);
    column("thread_pointer", row.registers.thread_pointer);
  }
};

template <>
struct TableOf<TrackerRecord> {
  static constexpr const char* kName = "tracker";
  static void columns(auto& column, auto& row) {
    column("version", row.version);
    column("directory", row.directory);
    column("recording", row.recording);
    column("pid", row.pid);
    column("generation", row.generation);
    column("start_count", row.start_count);
    column("started_ns", row.started_ns);
    column("recorded_ns", row.recorded_ns);
    column("sample_bytes", row.sample_bytes);
    column("max_frames", row.max_frames);
    column("memory_limit", row.memory_limit);
    column("memory_reserved", row.memory_reserved);
    column("memory_used", row.memory_used);
    column("limits", row.limits);
    column("dropped_slots", row.dropped_slots);
    column("dropped_stacks", row.dropped_stacks);
    column("nested_events", row.nested_events);
    column("dropped_threads", row.dropped_threads);
    column("slow_unwinds", row.slow_unwinds);
    column("full_unwinds", row.full_unwinds);
    column("limit_reached_ns", row.limit_reached_ns);
    column("unrecorded", row.unrecorded);
  }
};

template <>
struct TableOf<TrackerNoteRow> {
  static constexpr const char* kName = "tracker_notes";
  static void columns(auto& column, auto& row) { column("text", row.text); }
};

template <>
struct TableOf<TrackedModule> {
  static constexpr const char* kName = "tracker_modules";
  static void columns(auto& column, auto& row) {
    column("path", row.path);
    column("build_id", row.build_id);
    column("bias", row.bias);
    column("begin", row.range.begin);
    column("end", row.range.end);
    column("loaded", row.loaded);
    column("unloaded", row.unloaded);
  }
};

template <>
struct TableOf<TrackedThread> {
  static constexpr const char* kName = "tracker_threads";
  static void columns(auto& column, auto& row) {
    column("tid", row.tid);
    column("name", row.name);
    column("exited", row.exited);
    column("allocations", row.allocations);
    column("frees", row.frees);
    column("allocated_bytes", row.allocated_bytes);
    column("freed_bytes", row.freed_bytes);
    column("without_stack", row.without_stack);
    column("truncated", row.truncated);
  }
};

template <>
struct TableOf<AddressRange> {
  static constexpr const char* kName = "tracker_memory";
  static void columns(auto& column, auto& row) {
    column("begin", row.begin);
    column("end", row.end);
  }
};

template <>
struct TableOf<MappingRow> {
  static constexpr const char* kName = "mappings";
  static void columns(auto& column, auto& row) {
    column("begin", row.mapping.range.begin);
    column("end", row.mapping.range.end);
    column("readable", row.mapping.readable);
    column("writable", row.mapping.writable);
    column("executable", row.mapping.executable);
    column("shared", row.mapping.shared);
    column("file_offset", row.mapping.file_offset);
    column("device_major", row.mapping.device_major);
    column("device_minor", row.mapping.device_minor);
    column("inode", row.mapping.inode);
    column("path", row.mapping.path);
    column("deleted", row.mapping.deleted);
    column("has_usage", row.has_usage);
    column("rss", row.usage.rss);
    column("pss", row.usage.pss);
    column("anonymous", row.usage.anonymous);
    column("swap", row.usage.swap);
    column("anon_huge", row.usage.anon_huge);
    column("hugetlb", row.usage.hugetlb);
  }
};

template <>
struct TableOf<MallocInstance> {
  static constexpr const char* kName = "malloc_instances";
  static void columns(auto& column, auto& row) {
    column("module", row.module);
    column("build_id", row.build_id);
    column("version_major", row.version.major);
    column("version_minor", row.version.minor);
    column("strategy", row.strategy);
    column("layout_source", row.layout_source);
    column("main_arena", row.main_arena);
    column("malloc_par", row.malloc_par);
    column("n_mmaps", row.n_mmaps);
    column("mmapped_mem", row.mmapped_mem);
    column("tcache_count", row.tcache_count);
  }
};

template <>
struct TableOf<Arena> {
  static constexpr const char* kName = "arenas";
  static void columns(auto& column, auto& row) {
    column("address", row.address);
    column("instance", row.instance);
    column("is_main", row.is_main);
    column("is_noncontiguous", row.is_noncontiguous);
    column("was_locked", row.was_locked);
    column("system_mem", row.system_mem);
    column("max_system_mem", row.max_system_mem);
    column("attached_threads", row.attached_threads);
    column("top", row.top);
    column("walked", row.walked);
  }
};

template <>
struct TableOf<HeapSegment> {
  static constexpr const char* kName = "segments";
  static void columns(auto& column, auto& row) {
    column("begin", row.range.begin);
    column("end", row.range.end);
    column("arena", row.arena);
    column("kind", row.kind);
    column("system_bytes", row.system_bytes);
  }
};

template <>
struct TableOf<ThreadCache> {
  static constexpr const char* kName = "thread_caches";
  static void columns(auto& column, auto& row) {
    column("tid", row.tid);
    column("tcache", row.tcache);
    column("arena", row.arena);
    column("chunks", row.chunks);
    column("bytes", row.bytes);
  }
};

template <>
struct TableOf<Corruption> {
  static constexpr const char* kName = "corruptions";
  static void columns(auto& column, auto& row) {
    column("where", row.where);
    column("arena", row.arena);
    column("segment", row.segment);
    column("what", row.what);
  }
};

}  // namespace heapsnap
