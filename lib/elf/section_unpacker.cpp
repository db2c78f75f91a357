#include "elf/section_unpacker.h"

#include <zlib.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <vector>

#include "elf/elf_headers.h"

namespace heapsnap {

struct SectionUnpacker::Inflation {
  z_stream zlib{};
  bool is_begun = false;

  explicit Inflation(std::span<const std::byte> packed) {
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    zlib.avail_in = static_cast<uInt>(packed.size());
    is_begun = inflateInit(&zlib) == Z_OK;
  }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
  ~Inflation() {
    if (is_begun) inflateEnd(&zlib);
  }
};

SectionUnpacker::SectionUnpacker(const ElfImage& file, const ElfSection& section) {
  if (section.type == SHT_NOBITS) return;
  packed_ = clipped(file.file_bytes(), section.file_offset, section.size);
  left_ = packed_.size();
  if ((section.flags & SHF_COMPRESSED) == 0) return;
  const auto begin = [this](auto header) {
    const auto packed = load_record<decltype(header)>(packed_, 0);
    left_ = 0;
    if (!packed || packed->ch_type != ELFCOMPRESS_ZLIB || packed_.size() > UINT_MAX) return;
    inflation_ = std::make_unique<Inflation>(packed_.subspan(sizeof(header)));
    if (inflation_->is_begun) left_ = packed->ch_size;
  };
  if (file.machine() == Machine::kI386) {
    begin(Elf32_Chdr{});
  } else {
    begin(Elf64_Chdr{});
  }
}

SectionUnpacker::~SectionUnpacker() = default;

bool SectionUnpacker::read(std::span<std::byte> room) {
  if (room.size() > left_) return false;
  left_ -= room.size();
  if (!inflation_) {
    if (!room.empty()) std::memcpy(room.data(), packed_.data(), room.size());
    packed_ = packed_.subspan(room.size());
    return true;
  }
  z_stream& zlib = inflation_->zlib;
  while (!room.empty()) {
    const size_t now = std::min<size_t>(room.size(), INT_MAX);
    zlib.next_out = reinterpret_cast<Bytef*>(room.data());
    zlib.avail_out = static_cast<uInt>(now);
    const int status = inflate(&zlib, Z_SYNC_FLUSH);
    if (zlib.avail_out != 0 || (status != Z_OK && status != Z_STREAM_END)) {
      left_ = 0;
      return false;
    }
    room = room.subspan(now);
  }
  return true;
}

bool SectionUnpacker::skip(uint64_t count) {
  if (count > left_) return false;
  if (!inflation_) {
    left_ -= count;
    packed_ = packed_.subspan(count);
    return true;
  }
  constexpr uint64_t kPiece = 64 << 10;
  std::vector<std::byte> piece(std::min(count, kPiece));
  for (; count != 0; count -= piece.size()) {
    piece.resize(std::min(count, kPiece));
    if (!read(piece)) return false;
  }
  return true;
}

}  // namespace heapsnap
