// The metadata of a snapshot as tables, both ways.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "heap/chunk.h"
#include "snapshot/metadata.h"
#include "snapshot/section.h"
#include "snapshot/table.h"

namespace heapsnap {

void write_metadata(const SnapshotMetadata& metadata, SectionSink& sink);

// Collects metadata from tables, in the order in which write_metadata wrote them.
class MetadataBuilder {
 public:
  // `table`: bytes of one table; its rows are appended to those of earlier ones of the same name.
  // Unknown tables are passed over. Throws Error{kBadInput} for damage and for more rows or bytes
  // than a file may have (format.h).
  void add(std::span<const std::byte> table, const std::string& source);
  // Throws Error{kBadInput} when the tables do not fit together: indices into nothing, mappings out
  // of order, a page size that is none. What it gives can be used without checks.
  SnapshotMetadata take(const std::string& source);

 private:
  template <typename Row, typename Receive>
  bool read(TableCursor& table, Receive receive);

  SnapshotMetadata metadata_;
  uint64_t rows_ = 0;
  uint64_t bytes_ = 0;
  bool has_process_ = false;
};

template <>
struct EnumRange<ChunkState> {
  static constexpr auto kFirst = ChunkState::kUsed;
  static constexpr auto kLast = ChunkState::kUnknown;
  static constexpr auto kUnknown = ChunkState::kUnknown;
};

template <>
struct TableOf<MmappedChunk> {
  static constexpr const char* kName = "mmapped_chunks";
  static void columns(auto& column, auto& row) {
    column("mapping_begin", row.mapping_begin);
    column("chunk", row.chunk);
    column("total", row.total);
    column("size", row.size);
    column("usable", row.usable);
    column("state", row.state);
    column("instance", row.instance);
    column("stack", row.stack);
    column("slack", row.slack);
  }
};

}  // namespace heapsnap
