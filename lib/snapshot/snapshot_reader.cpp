#include "snapshot/snapshot_reader.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/most_mapped_bytes.h"
#include "base/page.h"
#include "snapshot/block_type_column.h"
#include "snapshot/chunk_block.h"
#include "snapshot/container_table.h"
#include "snapshot/contents.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/reference_block.h"
#include "snapshot/root_tables.h"
#include "snapshot/section_index.h"
#include "snapshot/section_view.h"
#include "snapshot/slack_words_table.h"
#include "snapshot/unused_words_table.h"

namespace heapsnap {

using format::SectionKind;

namespace {

// Of a mapped file: a long one that is read from front to back would else count as our memory. What
// is read again comes from the page cache.
void forget_pages(std::span<const std::byte> mapped) {
  const size_t before = reinterpret_cast<uintptr_t>(mapped.data()) % kPage;
  const size_t skipped = before == 0 ? 0 : kPage - before;
  if (mapped.size() < skipped + kPage) return;
  const std::span<const std::byte> whole =
      mapped.subspan(skipped, (mapped.size() - skipped) / kPage * kPage);
  // A failure costs memory only.
  ::madvise(const_cast<std::byte*>(whole.data()), whole.size(), MADV_DONTNEED);
}

}  // namespace

struct SnapshotReader::State {
  State(std::span<const std::byte> file_bytes, std::string file_name)
      : bytes(file_bytes), name(std::move(file_name)) {
    read_index();
    read_metadata();
  }
  State(MappedFile mapped, std::string file_name)
      : file(std::move(mapped)), bytes(file.bytes()), name(std::move(file_name)) {
    whole([this] {
      read_index();
      read_metadata();
    });
  }

  // Reads, and then says so if the file was truncated meanwhile: what looks damaged may be gone.
  template <typename Read>
  void whole(Read read) const {
    try {
      read();
    } catch (const Error&) {
      file.check_whole(name);
      throw;
    }
    file.check_whole(name);
  }

  void read_chunks(ChunkSink& sink) const;
  void read_pages(const std::function<void(const PageRun&)>& receive) const;
  void read_contents(const AddressRange& range, const ReceiveBytes& receive) const;
  RecordedStacks read_call_stacks() const;
  void read_slots(const ReceiveSlots& receive) const;
  void read_references(ReferenceSink& sink) const;
  void read_block_types(size_t types, const ReceiveTypes& receive) const;

  // The blocks that have numbers.
  BlockNumber blocks() const { return metadata.references ? metadata.references->blocks : 0; }
  // Gives the bytes of each table of a kind to `receive`.
  template <typename Receive>
  void each_table(SectionKind kind, Receive receive) const {
    Bytes buffer;
    each(kind, [&](const IndexEntry& entry, ColumnReader& columns) {
      const std::string source = place(entry.offset.value());
      receive(columns.read(view(entry), format::kTableRows, source, buffer), source);
    });
  }

  // All that `read` adds of the tables of a kind.
  template <typename Row, typename Read>
  std::vector<Row> rows_of(SectionKind kind, Read read) const {
    std::vector<Row> rows;
    whole([&] {
      each_table(kind, [&](auto table, const std::string& source) { read(table, source, rows); });
    });
    return rows;
  }

  std::string place(uint64_t offset) const {
    return name + ", section at " + std::to_string(offset);
  }

  std::span<const std::byte> section_bytes(const IndexEntry& entry) const {
    return bytes.subspan(static_cast<size_t>(entry.offset.value()),
                         static_cast<size_t>(entry.length));
  }

  // The section behind an index entry, if both agree.
  SectionView view(const IndexEntry& entry) const {
    const uint64_t offset = entry.offset.value();
    SectionView section(section_bytes(entry), place(offset));
    if (section.kind() != entry.kind || section.items() != entry.items ||
        section.length() != entry.length) {
      throw Error(ErrorKind::kBadInput, place(offset) + " is damaged",
                  "it is not the section that the index lists");
    }
    return section;
  }

  void read_index() {
    const Footer footer = read_envelope(bytes, name);
    const auto region = bytes.subspan(static_cast<size_t>(footer.index_offset),
                                      static_cast<size_t>(footer.index_length));
    ColumnReader columns(bytes.size());
    Bytes buffer;
    for (size_t offset = 0; offset < region.size();) {
      const std::string source = place(footer.index_offset + offset);
      const SectionView section(region.subspan(offset), source);
      if (section.kind() == SectionKind::kIndex) {
        heapsnap::read_index(columns.read(section, format::kTableRows, source, buffer),
                             footer.index_offset, source, index);
      }
      offset += section.length();
    }
    for (const IndexEntry& entry : index) {
      if (entry.kind == SectionKind::kChunks) chunk_count += entry.items;
    }
    if (chunk_count > format::kFreeChunks + format::kChunksPerByte * bytes.size()) {
      throw Error(ErrorKind::kBadInput, name + " is damaged",
                  "it claims more chunks than a file of its size can hold");
    }
  }

  void read_metadata() {
    MetadataBuilder builder;
    each(SectionKind::kTable, [&](const IndexEntry& entry, ColumnReader& columns) {
      Bytes buffer;
      const std::string source = place(entry.offset.value());
      builder.add(columns.read(view(entry), format::kTableRows, source, buffer), source);
    });
    metadata = builder.take(name);
  }

  template <typename Visit>
  void each(SectionKind kind, Visit visit) const {
    ColumnReader columns(bytes.size());
    for (const IndexEntry& entry : index) {
      if (entry.kind != kind) continue;
      visit(entry, columns);
      if (!file.bytes().empty()) forget_pages(section_bytes(entry));
    }
  }

  MappedFile file;
  std::span<const std::byte> bytes;
  std::string name;
  std::vector<IndexEntry> index;
  SnapshotMetadata metadata;
  uint64_t chunk_count = 0;
};

SnapshotReader SnapshotReader::open(const std::string& path) {
  const std::string with_ending = path + ".hsnap";
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT &&
      ::access(with_ending.c_str(), F_OK) == 0) {
    throw Error(ErrorKind::kBadInput, "cannot open " + path, errno_text(ENOENT),
                "did you mean " + with_ending + "?");
  }
  return SnapshotReader(std::make_unique<State>(MappedFile::open(path), path));
}

SnapshotReader SnapshotReader::from_bytes(std::span<const std::byte> bytes,
                                          const std::string& name) {
  return SnapshotReader(std::make_unique<State>(bytes, name));
}

SnapshotReader::SnapshotReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
SnapshotReader::SnapshotReader(SnapshotReader&&) noexcept = default;
SnapshotReader& SnapshotReader::operator=(SnapshotReader&&) noexcept = default;
SnapshotReader::~SnapshotReader() = default;

const SnapshotMetadata& SnapshotReader::metadata() const {
  return state_->metadata;
}
uint64_t SnapshotReader::chunk_count() const {
  return state_->chunk_count;
}
uint64_t SnapshotReader::file_size() const {
  return state_->bytes.size();
}

void SnapshotReader::State::read_chunks(ChunkSink& sink) const {
  // Blocks of one segment ascend; those of several arenas lie between each other.
  std::vector<const IndexEntry*> blocks;
  for (const IndexEntry& entry : index) {
    if (entry.kind == SectionKind::kChunks) blocks.push_back(&entry);
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const IndexEntry* a, const IndexEntry* b) { return a->begin < b->begin; });

  const HeapModel& heap = metadata.heap;
  const ChunkBlockReader::Limits limits{heap.arenas.size(), heap.segments.size()};
  ColumnReader columns(bytes.size());
  ChunkBlockReader reader;
  Bytes runs, size_codes, large_sizes, state_bits, other_states, stack_ids, slacks;
  for (const IndexEntry* entry : blocks) {
    const std::string source = place(entry->offset.value());
    const SectionView section = view(*entry);
    const auto column = [&](uint16_t id, Bytes& buffer) {
      return columns.read(section, id, source, buffer);
    };
    reader.read(
        {column(format::kChunkRuns, runs), column(format::kChunkSizeCodes, size_codes),
         column(format::kChunkLargeSizes, large_sizes), column(format::kChunkStateBits, state_bits),
         column(format::kChunkOtherStates, other_states), column(format::kChunkStackIds, stack_ids),
         column(format::kChunkSlacks, slacks)},
        entry->items, entry->begin, limits, source, sink);
  }

  uint64_t total = reader.total();
  each(SectionKind::kMmappedChunks, [&](const IndexEntry& entry, ColumnReader& reading) {
    const std::string source = place(entry.offset.value());
    Bytes buffer;
    TableCursor table(reading.read(view(entry), format::kTableRows, source, buffer), source);
    for (MmappedChunk chunk; table.next(chunk); chunk = MmappedChunk{}) {
      if (chunk.instance >= heap.instances.size() ||
          __builtin_add_overflow(total, std::max({chunk.total, chunk.size, chunk.usable}),
                                 &total) ||
          total > kMostMappedBytes || chunk.total > ~chunk.mapping_begin.value()) {
        throw Error(ErrorKind::kBadInput, source + " is damaged",
                    "an mmapped chunk has no malloc, or leaves the address space");
      }
      sink.on_mmapped(chunk);
    }
  });
}

void SnapshotReader::State::read_pages(const std::function<void(const PageRun&)>& receive) const {
  Address end;
  PageRun open;  // adjacent runs in the same state are one, also across sections
  Bytes buffer;
  each(SectionKind::kPages, [&](const IndexEntry& entry, ColumnReader& columns) {
    const std::string source = place(entry.offset.value());
    read_page_runs(columns.read(view(entry), format::kPageRuns, source, buffer), entry.items,
                   entry.begin, source, &end, [&](const PageRun& run) {
                     if (run.state == open.state && run.range.begin == open.range.end) {
                       open.range.end = run.range.end;
                       return;
                     }
                     if (!open.range.is_empty()) receive(open);
                     open = run;
                   });
  });
  if (!open.range.is_empty()) receive(open);
}

RecordedStacks SnapshotReader::State::read_call_stacks() const {
  const auto& tracker = metadata.tracker;
  CallStackBuilder builder(tracker ? tracker->modules.size() : 0);
  Bytes buffer;
  each(SectionKind::kCallStacks, [&](const IndexEntry& entry, ColumnReader& columns) {
    const std::string source = place(entry.offset.value());
    builder.add(columns.read(view(entry), format::kTableRows, source, buffer), source);
  });
  return builder.take(name);
}

void SnapshotReader::State::read_slots(const ReceiveSlots& receive) const {
  Address end;
  Bytes pages, used_bits;
  each(SectionKind::kSlots, [&](const IndexEntry& entry, ColumnReader& columns) {
    const std::string source = place(entry.offset.value());
    const SectionView section = view(entry);
    read_slot_pages(columns.read(section, format::kSlotPages, source, pages),
                    columns.read(section, format::kSlotUsedBits, source, used_bits), entry.items,
                    entry.begin, source, &end, receive);
  });
}

void SnapshotReader::State::read_references(ReferenceSink& sink) const {
  ReferenceBlockReader reader(blocks(),
                              format::kFreeReferences + format::kReferencesPerByte * bytes.size());
  Bytes first_block, counts, large_counts, offsets, large_offsets, targets, interior_bits;
  each(SectionKind::kReferences, [&](const IndexEntry& entry, ColumnReader& columns) {
    const std::string source = place(entry.offset.value());
    const SectionView section = view(entry);
    const auto column = [&](uint16_t id, Bytes& buffer) {
      return columns.read(section, id, source, buffer);
    };
    reader.read({column(format::kReferenceFirstBlock, first_block),
                 column(format::kReferenceCounts, counts),
                 column(format::kReferenceLargeCounts, large_counts),
                 column(format::kReferenceOffsets, offsets),
                 column(format::kReferenceLargeOffsets, large_offsets),
                 column(format::kReferenceTargets, targets),
                 column(format::kReferenceInteriorBits, interior_bits)},
                entry.items, source, sink);
  });
  reader.finish(name);
}

void SnapshotReader::State::read_block_types(size_t types, const ReceiveTypes& receive) const {
  BlockNumber next = 0;
  Bytes first_block, numbers;
  each(SectionKind::kBlockTypes, [&](const IndexEntry& entry, ColumnReader& columns) {
    const std::string source = place(entry.offset.value());
    const SectionView section = view(entry);
    heapsnap::read_block_types(columns.read(section, format::kTypesFirstBlock, source, first_block),
                               columns.read(section, format::kTypesOfBlocks, source, numbers),
                               entry.items, types, source, &next, receive);
  });
}

void SnapshotReader::State::read_contents(const AddressRange& range,
                                          const ReceiveBytes& receive) const {
  const auto receive_part = [&](Address from, std::span<const std::byte> bytes) {
    const Address begin = std::max(from, range.begin);
    const Address end = std::min(from + bytes.size(), range.end);
    if (begin < end) receive(begin, bytes.subspan(begin - from, end - begin));
  };
  std::vector<const IndexEntry*> sections;  // those that may hold bytes of the range
  for (const IndexEntry& entry : index) {
    if (entry.kind != SectionKind::kContents || entry.begin > range.end) continue;
    // Sections ascend: the one before ends where this one begins, or earlier.
    if (!sections.empty() && sections.back()->begin < entry.begin && entry.begin <= range.begin) {
      sections.clear();
    }
    sections.push_back(&entry);
  }
  Address end;
  Bytes ranges, contents;
  ColumnReader columns(bytes.size());
  for (const IndexEntry* const entry : sections) {
    const std::string source = place(entry->offset.value());
    const SectionView section = view(*entry);
    read_contents_section(columns.read(section, format::kContentRanges, source, ranges),
                          columns.read(section, format::kContentBytes, source, contents),
                          entry->items, entry->begin, source, &end, receive_part);
  }
}

void SnapshotReader::read_chunks(ChunkSink& sink) const {
  state_->whole([&] { state_->read_chunks(sink); });
}

void SnapshotReader::read_pages(const std::function<void(const PageRun&)>& receive) const {
  state_->whole([&] { state_->read_pages(receive); });
}

RecordedStacks SnapshotReader::read_call_stacks() const {
  RecordedStacks stacks;
  state_->whole([&] { stacks = state_->read_call_stacks(); });
  return stacks;
}

bool SnapshotReader::has_references() const {
  const auto& references = state_->metadata.references;
  return references && references->is_complete;
}

void SnapshotReader::read_slots(const ReceiveSlots& receive) const {
  if (has_references()) state_->whole([&] { state_->read_slots(receive); });
}

void SnapshotReader::read_references(ReferenceSink& sink) const {
  state_->whole([&] { state_->read_references(sink); });
}

std::vector<RootPlace> SnapshotReader::read_root_places() const {
  return state_->rows_of<RootPlace>(SectionKind::kRoots,
                                    [&](auto table, const std::string& source, auto& rows) {
                                      heapsnap::read_root_places(table, source, rows);
                                    });
}

void SnapshotReader::read_roots(size_t places,
                                const std::function<void(const Root&)>& receive) const {
  state_->whole([&] {
    state_->each_table(SectionKind::kRoots, [&](auto table, const std::string& source) {
      read_root_rows(table, source, places, state_->blocks(), receive);
    });
  });
}

std::vector<BlockType> SnapshotReader::read_type_names() const {
  return state_->rows_of<BlockType>(SectionKind::kTypeNames,
                                    [&](auto table, const std::string& source, auto& rows) {
                                      heapsnap::read_type_names(table, source, rows);
                                    });
}

std::vector<SlackWords> SnapshotReader::read_slack_words() const {
  return state_->rows_of<SlackWords>(
      SectionKind::kTypeNames, [&](auto table, const std::string& source, auto& rows) {
        heapsnap::read_slack_words(table, source, state_->blocks(), rows);
      });
}

std::vector<UnusedWord> SnapshotReader::read_unused_words() const {
  return state_->rows_of<UnusedWord>(
      SectionKind::kTypeNames, [&](auto table, const std::string& source, auto& rows) {
        heapsnap::read_unused_words(table, source, state_->blocks(), rows);
      });
}

std::vector<ContainerWords> SnapshotReader::read_containers() const {
  return state_->rows_of<ContainerWords>(
      SectionKind::kTypeNames, [&](auto table, const std::string& source, auto& rows) {
        heapsnap::read_containers(table, source, state_->blocks(), rows);
      });
}

void SnapshotReader::read_block_types(size_t types, const ReceiveTypes& receive) const {
  state_->whole([&] { state_->read_block_types(types, receive); });
}

bool SnapshotReader::has_contents() const {
  return std::any_of(state_->index.begin(), state_->index.end(),
                     [](const IndexEntry& entry) { return entry.kind == SectionKind::kContents; });
}

void SnapshotReader::read_contents(const ReceiveBytes& receive) const {
  read_contents({Address(), Address(UINT64_MAX)}, receive);
}

void SnapshotReader::read_contents(const AddressRange& range, const ReceiveBytes& receive) const {
  state_->whole([&] { state_->read_contents(range, receive); });
}

}  // namespace heapsnap
