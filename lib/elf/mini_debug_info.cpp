#include "elf/mini_debug_info.h"

#include <lzma.h>

#include <algorithm>
#include <cstdint>

namespace heapsnap {

std::vector<std::byte> decompress_mini_debug_info(std::span<const std::byte> compressed) {
  constexpr size_t kLargest = 64 << 20;
  constexpr uint64_t kDecoderMemory = 128 << 20;
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kDecoderMemory, 0) != LZMA_OK) return {};
  stream.next_in = reinterpret_cast<const uint8_t*>(compressed.data());
  stream.avail_in = compressed.size();
  std::vector<std::byte> plain;
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK && plain.size() < kLargest) {
    const size_t done = plain.size();
    plain.resize(std::min(kLargest, std::max<size_t>(64 << 10, done * 2)));
    stream.next_out = reinterpret_cast<uint8_t*>(plain.data()) + done;
    stream.avail_out = plain.size() - done;
    // LZMA_FINISH: all input is there, so running out of it gives LZMA_BUF_ERROR, not LZMA_OK.
    status = lzma_code(&stream, LZMA_FINISH);
    plain.resize(plain.size() - stream.avail_out);
  }
  lzma_end(&stream);
  if (status != LZMA_STREAM_END) plain.clear();
  return plain;
}

}  // namespace heapsnap
