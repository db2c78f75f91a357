#include "report/gzip_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <climits>
#include <new>

namespace heapsnap {

struct GzipStream::State {
  z_stream zlib{};
  std::array<char, 32 * 1024> room{};
};

GzipStream::GzipStream(Writer& out) : out_(out), state_(std::make_unique<State>()) {
  constexpr int kGzip = 16;  // added to the window's bits
  constexpr int kDefaultMemory = 8;
  if (deflateInit2(&state_->zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip,
                   kDefaultMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

GzipStream::~GzipStream() {
  deflateEnd(&state_->zlib);
}

void GzipStream::pump(int flush) {
  z_stream& zlib = state_->zlib;
  do {
    zlib.next_out = reinterpret_cast<Bytef*>(state_->room.data());
    zlib.avail_out = static_cast<uInt>(state_->room.size());
    deflate(&zlib, flush);
    out_.write({state_->room.data(), state_->room.size() - zlib.avail_out});
  } while (zlib.avail_out == 0);
}

void GzipStream::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t now = std::min<size_t>(bytes.size(), INT_MAX);
    state_->zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    state_->zlib.avail_in = static_cast<uInt>(now);
    pump(Z_NO_FLUSH);
    bytes.remove_prefix(now);
  }
}

void GzipStream::finish() {
  pump(Z_FINISH);
}

}  // namespace heapsnap
