// Snapshot files made by hand, section by section: checksums and index are right, the rest is what
// a test wants it to be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snapshot/section.h"
#include "snapshot/section_encoder.h"
#include "snapshot/section_index.h"
#include "snapshot/snapshot_reader.h"

namespace heapsnap::test {

struct StoredColumn {
  uint16_t id = 0;
  uint8_t encoding = 0;
  uint32_t raw_length = 0;
  Bytes bytes;
};

class CraftedFile final : public SectionSink {
 public:
  CraftedFile() : file_(encode_file_header()) {}

  // As the writer stores it.
  void add(const Section& section) override;
  // Columns stored as they are given.
  void add_stored(uint16_t kind, uint32_t items, Address begin,
                  const std::vector<StoredColumn>& columns);
  // Bytes of a section that the index tells of in its own way.
  void add_bytes(const Bytes& section, const IndexEntry& entry);
  // The metadata that every snapshot needs, of `arenas` arenas and `segments` segments.
  void add_metadata(size_t arenas = 2, size_t segments = 2);
  // All sections that follow are stored uncompressed.
  void store_raw() { raw_ = true; }

  // Bytes of the file so far, with index and footer.
  Bytes finish() const;

 private:
  Bytes encode(const Section& section) const;

  Bytes file_;
  std::vector<IndexEntry> index_;
  bool raw_ = false;
};

// A section with its checksum.
Bytes stored_section(uint16_t kind, uint32_t items, const std::vector<StoredColumn>& columns);

Bytes bytes_of(std::initializer_list<unsigned> values);
Bytes varints(std::initializer_list<uint64_t> values);
StoredColumn raw_column(uint16_t id, Bytes bytes);

// A chunk block of one run, column by column, for tests to spoil.
struct CraftedBlock {
  uint32_t items = 3;
  Address begin{0x1000};
  Bytes runs = varints({0, 1, 4, 0x1000, 3});  // arena 0, segment 1, granule shift 4
  Bytes size_codes = bytes_of({2, 255, 3});
  Bytes large_sizes = varints({4096});
  Bytes state_bits = bytes_of({2});
  Bytes other_states = bytes_of({5});

  void add_to(CraftedFile& file) const;
};

// Reads everything in it. Gives the error, or "" when there was none.
std::string error_of(const Bytes& file);

}  // namespace heapsnap::test
