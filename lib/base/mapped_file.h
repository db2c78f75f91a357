// A regular file mapped read-only into this process. One that is truncated meanwhile reads as zeros
// from there on (base/lost_pages.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/lost_pages.h"
#include "base/unique_fd.h"

namespace heapsnap {

class MappedFile {
 public:
  MappedFile() = default;
  // Maps the whole file. An empty file gives an empty span.
  // Throws Error{kBadInput} when it cannot be opened, is not a regular file or cannot be mapped.
  // Anything else than a regular file is not even opened (base/regular_file.h). Throws
  // std::bad_alloc when RLIMIT_AS of this process leaves no room for it.
  static MappedFile open(const std::string& path);
  // The same for a path in the root folder `root`, which no link leads out of; "": our own root.
  static MappedFile open_in(const std::string& root, const std::string& path);
  // The same for an open descriptor; `name` is for messages.
  static MappedFile from_fd(UniqueFd fd, const std::string& name);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // To be called after the bytes were used and before it is told what they were. Throws
  // Error{kBadInput} when some were lost.
  void check_whole(const std::string& name) const;

 private:
  void unmap() noexcept;

  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  WatchedRange* watched_ = nullptr;
};

}  // namespace heapsnap
