#include "core/core_file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/error.h"
#include "base/unnamed_file.h"
#include "elf/elf_headers.h"

namespace heapsnap {

namespace {

constexpr uint64_t kBlock = 4096;

std::string temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  // Not /tmp, which is memory on many systems.
  return ::access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp";
}

// A file without a name that grows block by block; blocks of zeros become holes.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string purpose)
      : purpose_(std::move(purpose)), folder_(temporary_folder()) {
    fd_ = open_unnamed_file(folder_);
    if (!fd_) fail(errno);
  }

  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto block = bytes.first(std::min<uint64_t>(bytes.size(), kBlock - size_ % kBlock));
      if (!is_zero(block)) write_at(size_, block);
      size_ += block.size();
      bytes = bytes.subspan(block.size());
    }
  }

  uint64_t size() const { return size_; }

  UniqueFd finish() {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) fail(errno);
    return std::move(fd_);
  }

 private:
  static bool is_zero(std::span<const std::byte> block) {
    static constexpr std::array<std::byte, kBlock> kZeros = {};
    return std::memcmp(block.data(), kZeros.data(), block.size()) == 0;
  }

  void write_at(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count =
          ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(errno);
      offset += static_cast<uint64_t>(count);
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }

  [[noreturn]] void fail(int error_number) const {
    throw Error(
        ErrorKind::kOutput, purpose_,
        fmt::format("{}, after {} MB in {}", errno_text(error_number), size_ >> 20, folder_),
        "set TMPDIR to a folder with room for the whole core");
  }

  std::string purpose_;
  std::string folder_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

MappedFile unpack_zstd(std::span<const std::byte> packed, const std::string& path,
                       std::vector<std::string>& notes) {
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                   ZSTD_freeDCtx);
  if (!context) throw std::bad_alloc();
  TemporaryFile file("cannot unpack " + path);
  std::vector<std::byte> buffer(ZSTD_DStreamOutSize());
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  size_t status = 1;  // 0: at the end of a frame
  while (in.pos < in.size || status != 0) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    const size_t read_before = in.pos;
    status = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(status) != 0) {
      notes.push_back(fmt::format("{} is damaged ({}): only its first {} MB were unpacked", path,
                                  ZSTD_getErrorName(status), in.pos >> 20));
      break;
    }
    file.append(std::span(buffer).first(out.pos));
    if (out.pos == 0 && in.pos == read_before) {
      notes.push_back(
          fmt::format("{} is truncated: {} MB were unpacked from it", path, file.size() >> 20));
      break;
    }
  }
  return MappedFile::from_fd(file.finish(), path);
}

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

MappedFile open_core_file(const std::string& path, std::vector<std::string>& notes) {
  using namespace std::string_view_literals;
  auto file = MappedFile::open(path);
  const auto bytes = file.bytes();
  if (starts_with(bytes, "\x28\xb5\x2f\xfd"sv)) return unpack_zstd(bytes, path, notes);
  struct Compression {
    std::string_view magic;
    const char* program;
  };
  for (const auto& [magic, program] :
       {Compression{"\x1f\x8b"sv, "gzip"}, Compression{"\xfd\x37zXZ\0"sv, "xz"},
        Compression{"\x04\x22\x4d\x18"sv, "lz4"}, Compression{"BZh"sv, "bzip2"}}) {
    if (starts_with(bytes, magic)) {
      throw Error(ErrorKind::kBadInput, "cannot read " + path,
                  fmt::format("it is compressed with {}", program),
                  fmt::format("unpack it first: {} -dk {}", program, path));
    }
  }
  return file;
}

}  // namespace heapsnap
