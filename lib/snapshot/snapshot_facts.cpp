#include "snapshot/snapshot_facts.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "snapshot/metadata_tables.h"
#include "snapshot/section_index.h"
#include "snapshot/section_view.h"

namespace heapsnap {

namespace {

// The first table that heapsnap writes behind those which are wanted here.
constexpr const char* kFirstOther = "freeze";

std::vector<IndexEntry> entries_of(std::span<const std::byte> bytes, const std::string& name,
                                   ColumnReader& columns) {
  const Footer footer = read_envelope(bytes, name);
  const auto region = bytes.subspan(static_cast<size_t>(footer.index_offset),
                                    static_cast<size_t>(footer.index_length));
  std::vector<IndexEntry> entries;
  Bytes buffer;
  for (size_t offset = 0; offset < region.size();) {
    const SectionView section(region.subspan(offset), name);
    if (section.kind() == format::SectionKind::kIndex) {
      read_index(columns.read(section, format::kTableRows, name, buffer), footer.index_offset, name,
                 entries);
    }
    offset += section.length();
  }
  return entries;
}

}  // namespace

SnapshotFacts read_snapshot_facts(const MappedFile& file, const std::string& name) {
  MetadataBuilder builder;
  try {
    ColumnReader columns(file.bytes().size());
    for (const IndexEntry& entry : entries_of(file.bytes(), name, columns)) {
      if (entry.kind != format::SectionKind::kTable) continue;
      const SectionView section(file.bytes().subspan(static_cast<size_t>(entry.offset.value()),
                                                     static_cast<size_t>(entry.length)),
                                name);
      Bytes buffer;
      const auto table = columns.read(section, format::kTableRows, name, buffer);
      if (TableCursor(table, name).name() == kFirstOther) break;
      builder.add(table, name);
    }
  } catch (const Error&) {
    file.check_whole(name);
    throw;
  }
  file.check_whole(name);
  SnapshotMetadata metadata = builder.take(name);
  return {std::move(metadata.process), std::move(metadata.collection),
          std::move(metadata.memory_left)};
}

}  // namespace heapsnap
