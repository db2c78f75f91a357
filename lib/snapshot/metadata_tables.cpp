#include "snapshot/metadata_tables.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/error.h"
#include "base/most_mapped_bytes.h"
#include "snapshot/metadata_rows.h"
#include "snapshot/runtime_tables.h"
#include "snapshot/table_check.h"

namespace heapsnap {
namespace {

template <typename Row>
void write_row(const Row& row, SectionSink& sink) {
  write_table(std::span<const Row>(&row, 1), sink);
}

template <typename Row>
void write_rows(const std::vector<Row>& rows, SectionSink& sink) {
  write_table(std::span<const Row>(rows), sink);
}

template <typename Row>
void write_texts(const std::vector<std::string>& texts, SectionSink& sink) {
  std::vector<Row> rows;
  for (const auto& text : texts) rows.push_back({text});
  write_rows(rows, sink);
}

// Whether `index` is -1 (none) or below `count`.
bool names_one_of(int64_t index, size_t count) {
  return index >= -1 && (index < 0 || static_cast<uint64_t>(index) < count);
}

// A build-id is printed as it is, and compared with those of files.
bool is_build_id(const std::string& text) {
  return text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// How long a path of a mapping may be, so that all of them leave room for the rest: a process may
// have made 65,530 mappings of files whose paths are 4 KiB long.
size_t longest_path(const std::vector<Mapping>& mappings) {
  constexpr uint64_t kMost = format::kMaxMetadataSize / 4;
  size_t longest = format::kMaxTextSize;
  const auto is_too_much = [&] {
    uint64_t sum = 0;
    for (const Mapping& mapping : mappings) sum += std::min(mapping.path.size(), longest);
    return sum > kMost;
  };
  while (longest > 1 && is_too_much()) longest /= 2;
  return longest;
}

// The end of a path says more than its begin.
void shorten_path(std::string& path, size_t longest) {
  constexpr std::string_view kCut = "...";
  if (path.size() <= longest) return;
  path.erase(0, path.size() - longest);
  if (longest > kCut.size()) path.replace(0, kCut.size(), kCut);
}

// Whether all of one kind, together, may be in the memory of a process.
template <typename Rows, typename Bytes>
bool fit_in_memory(const Rows& rows, Bytes bytes) {
  uint64_t sum = 0;
  return std::all_of(rows.begin(), rows.end(), [&](const auto& row) {
    const uint64_t more = bytes(row);
    if (more > kMostMappedBytes - sum) return false;
    sum += more;
    return true;
  });
}

void check_sizes(const SnapshotMetadata& all, const std::string& source) {
  check_table(all.process.rss <= kMostMappedBytes && all.process.swap <= kMostMappedBytes, source,
              "the process has more memory than an address space can hold");
  check_table(fit_in_memory(all.mappings, [](const Mapping& row) { return row.range.size(); }),
              source, "the mappings are larger than an address space");
  for (const auto field : {&MappingUsage::rss, &MappingUsage::pss, &MappingUsage::anonymous,
                           &MappingUsage::swap, &MappingUsage::anon_huge, &MappingUsage::hugetlb}) {
    check_table(fit_in_memory(all.usage, [field](const MappingUsage& row) { return row.*field; }),
                source, "the mappings use more memory than an address space can hold");
  }
}

}  // namespace

void write_metadata(const SnapshotMetadata& metadata, SectionSink& sink) {
  const HeapModel& heap = metadata.heap;
  write_row(CaptureRow{metadata.writer, heap.foreign_allocator, heap.foreign_answers_malloc}, sink);
  write_row(metadata.process, sink);
  // Before the longer tables, for readers that want only these (snapshot_facts.h).
  if (metadata.collection) write_row(*metadata.collection, sink);
  if (metadata.memory_left) write_row(*metadata.memory_left, sink);
  write_row(metadata.freeze, sink);
  write_texts<FreezeNoteRow>(metadata.freeze.notes, sink);
  write_texts<NoteRow>(metadata.notes, sink);

  std::vector<ThreadRow> threads;
  for (const Thread& thread : metadata.threads) {
    threads.push_back({thread.tid, thread.name, thread.registers.has_value(),
                       thread.registers.value_or(Registers{})});
  }
  write_rows(threads, sink);

  std::vector<MappingRow> mappings;
  const size_t longest = longest_path(metadata.mappings);
  for (size_t i = 0; i < metadata.mappings.size(); ++i) {
    const bool has_usage = i < metadata.usage.size();
    mappings.push_back(
        {metadata.mappings[i], has_usage, has_usage ? metadata.usage[i] : MappingUsage{}});
    shorten_path(mappings.back().mapping.path, longest);
  }
  write_rows(mappings, sink);

  write_rows(heap.instances, sink);
  std::vector<InstanceNoteRow> notes;
  for (size_t i = 0; i < heap.instances.size(); ++i) {
    for (const auto& note : heap.instances[i].notes) {
      notes.push_back({static_cast<uint32_t>(i), note});
    }
  }
  write_rows(notes, sink);
  write_rows(heap.arenas, sink);
  write_rows(heap.segments, sink);
  write_rows(heap.thread_caches, sink);
  write_rows(heap.corruptions, sink);
  if (metadata.references) write_row(ReferenceRow(*metadata.references), sink);
  write_runtimes(metadata.runtimes, sink);
  if (!metadata.tracker) return;
  write_row(*metadata.tracker, sink);
  write_texts<TrackerNoteRow>(metadata.tracker->notes, sink);
  write_rows(metadata.tracker->modules, sink);
  write_rows(metadata.tracker->threads, sink);
  write_rows(metadata.tracker->memory, sink);
}

template <typename Row, typename Receive>
bool MetadataBuilder::read(TableCursor& table, Receive receive) {
  if (table.name() != TableOf<Row>::kName) return false;
  for (Row row; table.next(row); row = Row{}) receive(std::move(row));
  return true;
}

void MetadataBuilder::add(std::span<const std::byte> bytes, const std::string& source) {
  TableCursor table(bytes, source);
  rows_ += table.rows();
  bytes_ += bytes.size();
  if (rows_ > format::kMaxMetadataRows || bytes_ > format::kMaxMetadataSize) {
    throw Error(ErrorKind::kBadInput, source + " is damaged",
                "it claims more metadata than a process can have");
  }
  SnapshotMetadata& to = metadata_;
  const auto append_to = [](auto& rows) {
    return [&rows](auto&& row) { rows.push_back(std::forward<decltype(row)>(row)); };
  };
  // Notes may stand before what they belong to, and a later row never wipes them out.
  const auto set_freeze = [&to](FreezeRecord&& row) {
    row.notes.swap(to.freeze.notes);
    to.freeze = std::move(row);
  };
  const auto set_capture = [&to](CaptureRow&& row) {
    to.writer = std::move(row.writer);
    to.heap.foreign_allocator = std::move(row.foreign_allocator);
    to.heap.foreign_answers_malloc = row.foreign_answers_malloc;
  };
  const auto set_process = [this](Process&& row) {
    metadata_.process = std::move(row);
    has_process_ = true;
  };
  const auto add_thread = [&to](ThreadRow&& row) {
    to.threads.push_back({row.tid, std::move(row.name), std::nullopt});
    if (row.has_registers) to.threads.back().registers = row.registers;
  };
  const auto add_mapping = [&to, &source](MappingRow&& row) {
    check_table(row.has_usage == (to.usage.size() == to.mappings.size()) || to.mappings.empty(),
                source, "some mappings have usage and some have none");
    to.mappings.push_back(std::move(row.mapping));
    if (row.has_usage) to.usage.push_back(row.usage);
  };
  const auto add_instance_note = [&to, &source](InstanceNoteRow&& row) {
    check_table(row.instance < to.heap.instances.size(), source,
                "a note on a malloc that does not exist");
    to.heap.instances[row.instance].notes.push_back(std::move(row.text));
  };
  // The first of its tables, whichever it is, says that the process was tracked.
  const auto tracker = [&to]() -> TrackerRecord& {
    if (!to.tracker) to.tracker.emplace();
    return *to.tracker;
  };
  const auto set_tracker = [&tracker](TrackerRecord&& row) {
    TrackerRecord& record = tracker();
    row.modules.swap(record.modules);
    row.threads.swap(record.threads);
    row.memory.swap(record.memory);
    row.notes.swap(record.notes);
    record = std::move(row);
  };
  read<CaptureRow>(table, set_capture) || read<Process>(table, set_process) ||
      read<Collection>(table, [&](Collection&& row) { to.collection = std::move(row); }) ||
      read<MemoryLeft>(table, [&](MemoryLeft&& row) { to.memory_left = std::move(row); }) ||
      read<ReferenceRow>(table, [&](ReferenceRow&& row) { to.references = row.record(); }) ||
      read<FreezeRecord>(table, set_freeze) ||
      read<FreezeNoteRow>(table, [&](auto&& r) { to.freeze.notes.push_back(std::move(r.text)); }) ||
      read<NoteRow>(table, [&](auto&& row) { to.notes.push_back(std::move(row.text)); }) ||
      read<ThreadRow>(table, add_thread) || read<MappingRow>(table, add_mapping) ||
      read<MallocInstance>(table, append_to(to.heap.instances)) ||
      read<InstanceNoteRow>(table, add_instance_note) ||
      read<Arena>(table, append_to(to.heap.arenas)) ||
      read<HeapSegment>(table, append_to(to.heap.segments)) ||
      read<ThreadCache>(table, append_to(to.heap.thread_caches)) ||
      read<Corruption>(table, append_to(to.heap.corruptions)) ||
      read_runtime_table(table, to.runtimes) || read<TrackerRecord>(table, set_tracker) ||
      read<TrackerNoteRow>(table,
                           [&](auto&& row) { tracker().notes.push_back(std::move(row.text)); }) ||
      read<TrackedModule>(
          table, [&](TrackedModule&& row) { tracker().modules.push_back(std::move(row)); }) ||
      read<TrackedThread>(
          table, [&](TrackedThread&& row) { tracker().threads.push_back(std::move(row)); }) ||
      read<AddressRange>(table, [&](AddressRange&& row) { tracker().memory.push_back(row); });
}

SnapshotMetadata MetadataBuilder::take(const std::string& source) {
  const SnapshotMetadata& all = metadata_;
  const HeapModel& heap = all.heap;
  check_table(has_process_, source, "it does not say which process it describes");
  check_table(std::has_single_bit(all.process.page_size) && all.process.page_size >= 512 &&
                  all.process.page_size <= (1U << 30),
              source, "the page size is not a power of two between 512 bytes and 1 GiB");
  constexpr const char* kNoBuildId = "a build-id is not in lower-case hexadecimal";
  check_table(is_build_id(all.process.build_id), source, kNoBuildId);
  for (const MallocInstance& instance : heap.instances) {
    check_table(is_build_id(instance.build_id), source, kNoBuildId);
  }
  for (size_t i = 0; i < all.mappings.size(); ++i) {
    const AddressRange& range = all.mappings[i].range;
    check_table(!range.is_empty(), source, "a mapping is empty");
    check_table(i == 0 || all.mappings[i - 1].range.end <= range.begin, source,
                "mappings overlap or are not in order");
  }
  check_sizes(all, source);
  for (const Arena& arena : heap.arenas) {
    check_table(arena.instance < heap.instances.size(), source,
                "an arena of a malloc that does not exist");
  }
  for (const HeapSegment& segment : heap.segments) {
    check_table(segment.arena >= 0 && names_one_of(segment.arena, heap.arenas.size()), source,
                "a heap segment of an arena that does not exist");
    check_table(segment.range.begin <= segment.range.end, source,
                "a heap segment ends before it begins");
  }
  for (const ThreadCache& cache : heap.thread_caches) {
    check_table(names_one_of(cache.arena, heap.arenas.size()), source,
                "a thread of an arena that does not exist");
  }
  for (const Corruption& corruption : heap.corruptions) {
    check_table(names_one_of(corruption.arena, heap.arenas.size()) &&
                    names_one_of(corruption.segment, heap.segments.size()),
                source, "a corruption of a segment that does not exist");
  }
  check_runtimes(all.runtimes, source);
  if (all.tracker) {
    for (const TrackedModule& module : all.tracker->modules) {
      check_table(module.range.begin <= module.range.end, source, "a module ends before it begins");
      check_table(is_build_id(module.build_id), source, kNoBuildId);
    }
    for (const AddressRange& range : all.tracker->memory) {
      check_table(range.begin <= range.end, source, "memory of the tracker ends before it begins");
    }
  }
  return std::move(metadata_);
}

}  // namespace heapsnap
