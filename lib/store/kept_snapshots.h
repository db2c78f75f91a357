// The newest of the files that one process wrote into a folder; the older ones are removed.
//
// A file is known by device, inode, size and time of its last change. What was replaced or changed
// since it was written is left alone, as is everything that this process did not write.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace heapsnap {

class KeptSnapshots {
 public:
  // Keeps `count` files of `folder`; 0: all. Throws Error{kOutput} when the folder cannot be opened
  // or written to.
  KeptSnapshots(const std::string& folder, uint64_t count);

  // The file `name` of the folder was written. Gives a sentence for each older one that was not
  // removed although it is one too many; it is not looked at again.
  std::vector<std::string> add(const std::string& name);

 private:
  struct WrittenFile {
    std::string name;
    uint64_t device = 0;
    uint64_t inode = 0;
    int64_t bytes = 0;
    int64_t changed_s = 0;
    int64_t changed_ns = 0;
    bool operator==(const WrittenFile&) const = default;
  };

  // Nothing is filled in but the name, and errno is set, when there is no such file.
  WrittenFile look_at(const std::string& name) const;
  std::string remove(const WrittenFile& file) const;

  std::string path_;
  uint64_t count_;
  UniqueFd folder_;
  std::deque<WrittenFile> files_;  // oldest first
};

}  // namespace heapsnap
