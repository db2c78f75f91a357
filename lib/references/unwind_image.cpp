#include "references/unwind_image.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "elf/elf_headers.h"

namespace heapsnap {

namespace {

struct FilePart {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t end() const { return size > ~offset ? UINT64_MAX : offset + size; }
};

// .eh_frame; where there are no section headers, all of the segment that its index is in.
std::optional<FilePart> eh_frame_of(const ElfHeaders& headers, const ElfSegment& index) {
  if (const ElfSection* const section = headers.section(".eh_frame")) {
    if (section->type != SHT_NOBITS) return FilePart{section->file_offset, section->size};
  }
  const ElfSegment* const segment = headers.segment_of(index.address);
  if (segment == nullptr) return std::nullopt;
  return FilePart{segment->file_offset, segment->file_size};
}

template <typename Records>
void drop_sections(std::byte* bytes) {
  typename Records::Header header;
  std::memcpy(&header, bytes, sizeof(header));
  header.e_shoff = 0;
  header.e_shnum = 0;
  header.e_shstrndx = 0;
  std::memcpy(bytes, &header, sizeof(header));
}

}  // namespace

UnwindImage unwind_image(std::span<const std::byte> file) {
  UnwindImage image;
  const ElfHeaders headers = ElfHeaders::parse(file, "module");
  // The headers of programs and libraries lie together, at the begin.
  constexpr uint64_t kHeaders = 4096;
  std::vector<FilePart> parts = {{0, kHeaders}};
  if (const ElfSegment* const index = headers.segment_of_type(PT_GNU_EH_FRAME)) {
    parts.push_back({index->file_offset, index->file_size});
    if (const auto tables = eh_frame_of(headers, *index)) parts.push_back(*tables);
  }
  for (const FilePart& part : parts) {
    image.size = std::max<size_t>(image.size, std::min<uint64_t>(part.end(), file.size()));
  }
  // Memory that is not written to takes none.
  image.bytes.reset(static_cast<std::byte*>(std::calloc(image.size, 1)));
  if (image.bytes == nullptr) return {};
  for (const FilePart& part : parts) {
    const auto from = clipped(file, part.offset, part.size);
    if (!from.empty()) std::memcpy(image.bytes.get() + part.offset, from.data(), from.size());
  }
  headers.with_records([&image](auto records) {
    if (image.size >= sizeof(typename decltype(records)::Header)) {
      drop_sections<decltype(records)>(image.bytes.get());
    }
    return 0;
  });
  return image;
}

}  // namespace heapsnap
