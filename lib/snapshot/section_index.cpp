#include "snapshot/section_index.h"

#include <xxhash.h>

#include <cstring>

#include "base/byte_reader.h"
#include "base/error.h"
#include "snapshot/byte_writer.h"
#include "snapshot/table.h"

namespace heapsnap {

template <>
struct EnumRange<format::SectionKind> {
  static constexpr auto kFirst = format::SectionKind{};
  static constexpr auto kLast = static_cast<format::SectionKind>(UINT16_MAX);
};

template <>
struct TableOf<IndexEntry> {
  static constexpr const char* kName = "index";
  static void columns(auto& column, auto& row) {
    column("kind", row.kind);
    column("offset", row.offset);
    column("length", row.length);
    column("items", row.items);
    column("begin", row.begin);
  }
};

Bytes encode_file_header() {
  Bytes out;
  append_text(out, format::kFileMagic);
  append_value(out, format::kMajorVersion);
  append_value(out, format::kMinorVersion);
  append_value(out, uint32_t{0});
  return out;
}

Bytes encode_footer(const Footer& footer) {
  Bytes out;
  append_value(out, footer.index_offset);
  append_value(out, footer.index_length);
  append_value(out, footer.file_size);
  append_value(out, static_cast<uint64_t>(XXH64(out.data(), out.size(), 0)));
  append_text(out, format::kFooterMagic);
  return out;
}

Footer read_envelope(std::span<const std::byte> file, const std::string& name) {
  ByteReader reader(file, name);
  if (file.size() < format::kFileMagic.size() ||
      reader.take_text(format::kFileMagic.size()) != format::kFileMagic) {
    constexpr std::string_view kElf =
        "\x7f"
        "ELF";
    const bool is_elf =
        file.size() >= kElf.size() && std::memcmp(file.data(), kElf.data(), kElf.size()) == 0;
    throw Error(
        ErrorKind::kBadInput, "cannot read " + name,
        is_elf ? "it is an ELF file, not a heapsnap snapshot" : "it is not a heapsnap snapshot",
        is_elf ? "of a core: heapsnap core FILE" : "give a file that heapsnap wrote");
  }
  const std::string cut_off = "it was cut off: the end of the snapshot is missing";
  const std::string remedy = "copy the file again, or take the snapshot again";
  if (file.size() < format::kFileHeaderSize) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, cut_off, remedy);
  }
  const auto major = reader.read<uint16_t>();
  const auto minor = reader.read<uint16_t>();
  if (major == 0 || major > format::kMajorVersion) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name,
                "its format is version " + std::to_string(major) + "." + std::to_string(minor) +
                    ", and this heapsnap reads up to " + std::to_string(format::kMajorVersion),
                "read it with a newer heapsnap");
  }
  if (file.size() < format::kFileHeaderSize + format::kFooterSize) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, cut_off, remedy);
  }
  const size_t footer_offset = file.size() - format::kFooterSize;
  reader.seek(footer_offset);
  const uint64_t sum = XXH64(file.data() + footer_offset, 3 * sizeof(uint64_t), 0);
  Footer footer;
  footer.index_offset = reader.read<uint64_t>();
  footer.index_length = reader.read<uint64_t>();
  footer.file_size = reader.read<uint64_t>();
  if (reader.read<uint64_t>() != sum ||
      reader.take_text(format::kFooterMagic.size()) != format::kFooterMagic) {
    throw Error(ErrorKind::kBadInput, "cannot read " + name, cut_off, remedy);
  }
  if (footer.file_size != file.size() || footer.index_offset < format::kFileHeaderSize ||
      !fits_within(footer.index_offset, footer.index_length, footer_offset) ||
      footer.index_offset + footer.index_length != footer_offset) {
    throw Error(ErrorKind::kBadInput, name + " is damaged", "its footer does not match the file",
                remedy);
  }
  return footer;
}

void write_index(std::span<const IndexEntry> entries, SectionSink& sink) {
  constexpr uint32_t kRowsInSection = 1U << 17;
  TableBuilder table(TableOf<IndexEntry>::kName);
  Section section;
  for (const IndexEntry& entry : entries) {
    table.add(entry);
    if (table.rows() == kRowsInSection) {
      table.take(format::SectionKind::kIndex, section);
      sink.add(section);
    }
  }
  if (table.rows() == 0) return;
  table.take(format::SectionKind::kIndex, section);
  sink.add(section);
}

void read_index(std::span<const std::byte> bytes, uint64_t limit, const std::string& source,
                std::vector<IndexEntry>& entries) {
  TableCursor table(bytes, source);
  if (table.name() != TableOf<IndexEntry>::kName) return;
  uint64_t end = format::kFileHeaderSize;
  if (!entries.empty()) end = entries.back().offset.value() + entries.back().length;
  for (IndexEntry entry; table.next(entry);) {
    // Sections have a length, so entries that do not overlap are bounded by the file's size.
    if (entry.offset.value() < end || entry.length < format::kSectionHeaderSize ||
        !fits_within(entry.offset.value(), entry.length, limit)) {
      throw Error(ErrorKind::kBadInput, source + " is damaged",
                  "the index lists a section that cannot exist");
    }
    end = entry.offset.value() + entry.length;
    entries.push_back(entry);
  }
}

}  // namespace heapsnap
