// Buffered output of text. Code that produces text writes here and need not handle errors of the
// disk.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "snapshot/output_file.h"

namespace heapsnap {

// The reader of a pipe has closed it, as head(1) does when it has what it wants.
class ReaderGone : public Error {
 public:
  using Error::Error;
};

// Throws Error{kOutput}, or ReaderGone for EPIPE. `name`: "standard output".
[[noreturn]] void throw_unwritten(const std::string& name, int error_number);

class Writer {
 public:
  // To a descriptor that stays open and the caller's; `name` is for messages ("standard output").
  Writer(int fd, std::string name);
  // To a file that the caller commits after flush().
  explicit Writer(OutputFile& file);
  // Appends to `text`, which must outlive the writer.
  explicit Writer(std::string& text);
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  // Drops what was not flushed: a destructor could not say that the disk is full.
  ~Writer() = default;

  // Throws Error{kOutput} for ENOSPC and the like, ReaderGone for EPIPE, now or in a later call.
  void write(std::string_view text) {
    if (text.size() > kCapacity - used_) {
      write_large(text);
      return;
    }
    std::memcpy(buffer_.get() + used_, text.data(), text.size());
    used_ += text.size();
  }
  // At least `size` <= kMaxReserve bytes to format into; commit() takes the end of what was used.
  char* reserve(size_t size) {
    if (size > kCapacity - used_) flush();
    return buffer_.get() + used_;
  }
  void commit(const char* end) { used_ = static_cast<size_t>(end - buffer_.get()); }
  static constexpr size_t kMaxReserve = 4096;

  // To be called when all is written. Throws Error{kOutput}.
  void flush();

 private:
  static constexpr size_t kCapacity = 64 * 1024;

  void write_large(std::string_view text);
  void drain(std::string_view text);

  std::unique_ptr<char[]> buffer_;
  size_t used_ = 0;
  int fd_ = -1;
  std::string name_;
  std::string* text_ = nullptr;
  OutputFile* file_ = nullptr;
};

}  // namespace heapsnap
