#include "elf/elf_notes.h"

#include <algorithm>

namespace heapsnap {

namespace {

bool is_build_id(const ElfNote& note) {
  // SHA-1 makes 20 bytes; --build-id=0x... may give any number, 64 is what gdb and perf accept.
  constexpr size_t kLongest = 64;
  return note.owner == "GNU" && note.type == NT_GNU_BUILD_ID && !note.descriptor.empty() &&
         note.descriptor.size() <= kLongest;
}

// Hands out contents until they add up to more than the file: notes that overlap are damage, and
// many headers that all name the same megabytes would take for ever.
class NoteBudget {
 public:
  explicit NoteBudget(const ElfHeaders& headers) : left_(headers.bytes.size()) {}
  std::span<const std::byte> spend(std::span<const std::byte> contents) {
    if (contents.size() > left_) return {};
    left_ -= contents.size();
    return contents;
  }

 private:
  uint64_t left_;
};

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

void for_each_note(const ElfHeaders& headers, const std::function<bool(const ElfNote&)>& visit) {
  NoteBudget budget(headers);
  for (const ElfSegment& segment : headers.segments) {
    if (segment.type != PT_NOTE) continue;
    for (const ElfNote& note :
         parse_notes(budget.spend(headers.contents(segment)), segment.alignment)) {
      if (!visit(note)) return;
    }
  }
}

std::string find_build_id(const ElfHeaders& headers) {
  std::string id;
  for_each_note(headers, [&id](const ElfNote& note) {
    if (is_build_id(note)) id = hex_text(note.descriptor);
    return id.empty();
  });
  // Separate debug files keep the note, but not always where the program header says.
  NoteBudget budget(headers);
  for (const ElfSection& section : headers.sections) {
    if (!id.empty()) break;
    if (section.type != SHT_NOTE) continue;
    for (const ElfNote& note : parse_notes(budget.spend(headers.contents(section)), 4)) {
      if (is_build_id(note)) id = hex_text(note.descriptor);
    }
  }
  return id;
}

}  // namespace heapsnap
