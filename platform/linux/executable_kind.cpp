#include "platform/linux/executable_kind.h"

#include <elf.h>

#include <cstring>
#include <optional>

#include "base/byte_reader.h"

namespace heapsnap {

namespace {

template <typename T>
std::optional<T> record_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (!fits_within(offset, sizeof(T), bytes.size())) return std::nullopt;
  T record;
  std::memcpy(&record, bytes.data() + offset, sizeof(T));
  return record;
}

// The same for both word sizes; the table has at most 65535 entries.
template <typename Header, typename Segment>
void look_at_segments(std::span<const std::byte> bytes, ExecutableKind& kind) {
  const std::optional<Header> header = record_at<Header>(bytes, 0);
  if (!header) return;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const uint64_t offset = uint64_t{header->e_phoff} + i * sizeof(Segment);
    const std::optional<Segment> segment = record_at<Segment>(bytes, offset);
    if (!segment) break;
    kind.has_interpreter = kind.has_interpreter || segment->p_type == PT_INTERP;
  }
}

}  // namespace

ExecutableKind recognize_executable(std::span<const std::byte> bytes) {
  ExecutableKind kind;
  if (bytes.size() < EI_NIDENT || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) return kind;
  const auto ident = [&](size_t index) { return static_cast<unsigned>(bytes[index]); };
  if (ident(EI_DATA) != ELFDATA2LSB) return kind;
  kind.is_elf = true;
  // e_machine stands at the same place in both headers.
  kind.machine = record_at<uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine)).value_or(EM_NONE);
  if (ident(EI_CLASS) == ELFCLASS32) {
    kind.bits = 32;
    look_at_segments<Elf32_Ehdr, Elf32_Phdr>(bytes, kind);
  } else if (ident(EI_CLASS) == ELFCLASS64) {
    kind.bits = 64;
    look_at_segments<Elf64_Ehdr, Elf64_Phdr>(bytes, kind);
  }
  return kind;
}

}  // namespace heapsnap
