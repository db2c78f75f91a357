#include "elf/elf_notes.h"

#include <algorithm>

namespace heapsnap {

namespace {

std::string build_id_in(std::span<const std::byte> notes, uint64_t alignment) {
  // SHA-1 makes 20 bytes; --build-id=0x... may give any number, 64 is what gdb and perf accept.
  constexpr size_t kLongest = 64;
  for (const ElfNote& note : parse_notes(notes, alignment)) {
    if (note.owner == "GNU" && note.type == NT_GNU_BUILD_ID && !note.descriptor.empty() &&
        note.descriptor.size() <= kLongest) {
      return hex_text(note.descriptor);
    }
  }
  return {};
}

}  // namespace

std::string hex_text(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

std::vector<ElfNote> parse_notes(std::span<const std::byte> bytes, uint64_t alignment) {
  const uint64_t padding = alignment == 8 ? 8 : 4;
  const auto padded = [padding](uint64_t size) { return (size + padding - 1) & ~(padding - 1); };
  std::vector<ElfNote> notes;
  uint64_t offset = 0;
  while (const auto header = load_record<Elf64_Nhdr>(bytes, offset)) {
    const uint64_t owner_at = offset + sizeof(Elf64_Nhdr);
    // With 8-byte alignment the descriptor starts aligned, counted from the start of the note.
    const uint64_t descriptor_at =
        offset + padded(sizeof(Elf64_Nhdr) + static_cast<uint64_t>(header->n_namesz));
    if (!fits_within(owner_at, header->n_namesz, bytes.size()) ||
        !fits_within(descriptor_at, header->n_descsz, bytes.size())) {
      break;
    }
    std::string_view owner(reinterpret_cast<const char*>(bytes.data() + owner_at),
                           header->n_namesz);
    owner = owner.substr(0, std::min(owner.find('\0'), owner.size()));
    notes.push_back({owner, header->n_type, bytes.subspan(descriptor_at, header->n_descsz)});
    offset = descriptor_at + padded(header->n_descsz);
  }
  return notes;
}

std::string find_build_id(const ElfHeaders& headers) {
  // Notes that overlap are damage; without this a file of many headers that all name the same
  // megabytes would take for ever.
  uint64_t budget = headers.bytes.size();
  const auto search = [&budget](std::span<const std::byte> notes, uint64_t alignment) {
    if (notes.size() > budget) return std::string();
    budget -= notes.size();
    return build_id_in(notes, alignment);
  };
  for (const ElfSegment& segment : headers.segments) {
    if (segment.type != PT_NOTE) continue;
    std::string id = search(headers.contents(segment), segment.alignment);
    if (!id.empty()) return id;
  }
  // Separate debug files keep the note, but not always where the program header says.
  budget = headers.bytes.size();
  for (const ElfSection& section : headers.sections) {
    if (section.type != SHT_NOTE) continue;
    std::string id = search(headers.contents(section), 4);
    if (!id.empty()) return id;
  }
  return {};
}

}  // namespace heapsnap
