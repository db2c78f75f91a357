#include "snapshot/section_encoder.h"

#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cstring>
#include <new>

#include "base/error.h"

namespace heapsnap {
namespace {

// Below this, the fixed cost of a frame (about 13 bytes, 2 µs) is not worth it.
constexpr size_t kSmallestCompressed = 64;

struct FreeCompression {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

template <typename T>
void put(Bytes& out, size_t offset, T value) {
  std::memcpy(out.data() + offset, &value, sizeof(T));
}

}  // namespace

struct SectionEncoder::State {
  std::unique_ptr<ZSTD_CCtx, FreeCompression> zstd{ZSTD_createCCtx()};
  Bytes stored;
  uint64_t written = 0;     // all sections so far
  uint64_t list_bytes = 0;  // of compressed lists among them, before compression
};

SectionEncoder::SectionEncoder(int level) : state_(std::make_unique<State>()) {
  if (state_->zstd == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(state_->zstd.get(), ZSTD_c_compressionLevel, level);
}

SectionEncoder::~SectionEncoder() = default;

std::span<const std::byte> SectionEncoder::encode(const Section& section) {
  const size_t directory = format::kSectionHeaderSize;
  const size_t data = directory + section.columns.size() * format::kColumnEntrySize;
  size_t bound = data + format::kChecksumSize;
  for (const auto& column : section.columns) bound += ZSTD_compressBound(column.bytes.size());
  Bytes& out = state_->stored;
  if (out.size() < bound) out.resize(bound);

  size_t end = data;
  for (size_t i = 0; i < section.columns.size(); ++i) {
    const auto& [id, raw] = section.columns[i];
    if (raw.size() > format::kMaxColumnSize) {
      throw Error(ErrorKind::kInternal, "cannot write a section", "a column is too long");
    }
    auto encoding = format::Encoding::kRaw;
    size_t stored = raw.size();
    if (raw.size() >= kSmallestCompressed) {
      const size_t packed = ZSTD_compress2(state_->zstd.get(), out.data() + end, out.size() - end,
                                           raw.data(), raw.size());
      if (ZSTD_getErrorCode(packed) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_isError(packed) != 0) {
        throw Error(ErrorKind::kInternal, "cannot compress a section", ZSTD_getErrorName(packed));
      }
      const bool is_list = format::is_list(section.kind, id);
      const bool may_shrink =
          !is_list ||
          state_->list_bytes + raw.size() <=
              format::kFreeListBytes + format::kListBytesPerByte * (state_->written + end + packed);
      if (packed < raw.size() && may_shrink) {
        if (is_list) state_->list_bytes += raw.size();
        encoding = format::Encoding::kZstd;
        stored = packed;
      }
    }
    if (encoding == format::Encoding::kRaw && !raw.empty()) {
      std::memcpy(out.data() + end, raw.data(), raw.size());
    }
    const size_t entry = directory + i * format::kColumnEntrySize;
    put(out, entry, id);
    put(out, entry + 2, encoding);
    put(out, entry + 3, uint8_t{0});
    put(out, entry + 4, static_cast<uint32_t>(raw.size()));
    put(out, entry + 8, static_cast<uint32_t>(stored));
    end += stored;
  }
  put(out, 0, format::kSectionMagic);
  put(out, 4, section.kind);
  put(out, 6, static_cast<uint16_t>(section.columns.size()));
  put(out, 8, static_cast<uint32_t>(end + format::kChecksumSize));
  put(out, 12, section.items);
  put(out, end, static_cast<uint64_t>(XXH64(out.data(), end, 0)));
  state_->written += end + format::kChecksumSize;
  return {out.data(), end + format::kChecksumSize};
}

}  // namespace heapsnap
