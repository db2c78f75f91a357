#include "crafted_file.h"

#include <xxhash.h>

#include "base/error.h"
#include "snapshot/byte_writer.h"
#include "snapshot/metadata_tables.h"
#include "snapshot_sample.h"

namespace heapsnap::test {

Bytes stored_section(uint16_t kind, uint32_t items, const std::vector<StoredColumn>& columns) {
  size_t length = format::kSectionHeaderSize + format::kChecksumSize;
  for (const auto& column : columns) length += format::kColumnEntrySize + column.bytes.size();
  Bytes out;
  append_value(out, format::kSectionMagic);
  append_value(out, kind);
  append_value(out, static_cast<uint16_t>(columns.size()));
  append_value(out, static_cast<uint32_t>(length));
  append_value(out, items);
  for (const auto& column : columns) {
    append_value(out, column.id);
    append_value(out, column.encoding);
    append_value(out, uint8_t{0});
    append_value(out, column.raw_length);
    append_value(out, static_cast<uint32_t>(column.bytes.size()));
  }
  for (const auto& column : columns) append_bytes(out, column.bytes);
  append_value(out, static_cast<uint64_t>(XXH64(out.data(), out.size(), 0)));
  return out;
}

Bytes CraftedFile::encode(const Section& section) const {
  if (!raw_) {
    SectionEncoder encoder;
    const auto bytes = encoder.encode(section);
    return {bytes.begin(), bytes.end()};
  }
  std::vector<StoredColumn> columns;
  for (const auto& column : section.columns) columns.push_back(raw_column(column.id, column.bytes));
  return stored_section(static_cast<uint16_t>(section.kind), section.items, columns);
}

void CraftedFile::add(const Section& section) {
  add_bytes(encode(section), {section.kind, {}, 0, section.items, section.begin});
}

void CraftedFile::add_stored(uint16_t kind, uint32_t items, Address begin,
                             const std::vector<StoredColumn>& columns) {
  add_bytes(stored_section(kind, items, columns),
            {static_cast<format::SectionKind>(kind), {}, 0, items, begin});
}

void CraftedFile::add_bytes(const Bytes& section, const IndexEntry& entry) {
  index_.push_back(entry);
  index_.back().offset = Address(file_.size());
  if (entry.length == 0) index_.back().length = section.size();
  append_bytes(file_, section);
}

void CraftedFile::add_metadata(size_t arenas, size_t segments) {
  write_metadata(full_metadata(arenas, segments), *this);
}

Bytes CraftedFile::finish() const {
  class Appender final : public SectionSink {
   public:
    Appender(const CraftedFile& file, Bytes& out) : file_(file), out_(out) {}
    void add(const Section& section) override { append_bytes(out_, file_.encode(section)); }

   private:
    const CraftedFile& file_;
    Bytes& out_;
  };
  Bytes out = file_;
  Appender appender(*this, out);
  write_index(index_, appender);
  append_bytes(out, encode_footer({file_.size(), out.size() - file_.size(),
                                   out.size() + format::kFooterSize}));
  return out;
}

Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Bytes varints(std::initializer_list<uint64_t> values) {
  Bytes out;
  for (const uint64_t value : values) append_varint(out, value);
  return out;
}

StoredColumn raw_column(uint16_t id, Bytes bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  return {id, 0, length, std::move(bytes)};
}

void CraftedBlock::add_to(CraftedFile& file) const {
  file.add_stored(
      static_cast<uint16_t>(format::SectionKind::kChunks), items, begin,
      {raw_column(format::kChunkRuns, runs), raw_column(format::kChunkSizeCodes, size_codes),
       raw_column(format::kChunkLargeSizes, large_sizes),
       raw_column(format::kChunkStateBits, state_bits),
       raw_column(format::kChunkOtherStates, other_states)});
}

std::string error_of(const Bytes& file) {
  try {
    read_all(SnapshotReader::from_bytes(file, "crafted"));
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kBadInput ? error.what() : "wrong kind of error";
  }
  return "";
}

}  // namespace heapsnap::test
