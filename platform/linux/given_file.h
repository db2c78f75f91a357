// A file for a process to load: in memory, and open in that process.
//
// The process names it by /proc/self/fd. One that sees no /proc (a bare chroot) gets the bytes in a
// file of its own root folder instead, which is there until remove().
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/unique_fd.h"
#include "platform/linux/proc_fs.h"

namespace heapsnap {

struct GivenFile {
  std::string name;  // as it appears in /proc/PID/maps behind "/memfd:"
  std::span<const std::byte> bytes;
};

class FileInTarget {
 public:
  FileInTarget(const ProcFs& proc, int pid, const GivenFile& file);
  FileInTarget(const FileInTarget&) = delete;
  FileInTarget& operator=(const FileInTarget&) = delete;
  ~FileInTarget() { remove(); }

  // The process has made a memory file as its `descriptor`. Gives the path by which it is to name
  // the file: one that no other file had, since the loader takes a library whose name it knows for
  // the one that it has.
  std::string open(uint64_t descriptor);
  // Writes the bytes; false when not all could be written.
  bool fill();
  // Takes the name away, where the file has one. What is mapped stays.
  void remove() noexcept;

 private:
  std::string open_visible();

  const ProcFs& proc_;
  int pid_;
  GivenFile file_;
  bool sees_proc_;
  UniqueFd fd_;
  UniqueFd folder_;  // where it has a name
  std::string name_;
};

}  // namespace heapsnap
