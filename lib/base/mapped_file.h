// A regular file mapped read-only into this process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/unique_fd.h"

namespace heapsnap {

class MappedFile {
 public:
  MappedFile() = default;
  // Maps the whole file. An empty file gives an empty span.
  // Throws Error{kBadInput} when it cannot be opened, is not a regular file or cannot be mapped.
  static MappedFile open(const std::string& path);
  // The same for an open descriptor; `name` is for messages.
  static MappedFile from_fd(UniqueFd fd, const std::string& name);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  void unmap() noexcept;

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace heapsnap
