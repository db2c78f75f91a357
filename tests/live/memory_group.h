// A control group with a memory limit, for targets that are to come near it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heapsnap::live {

class MemoryGroup {
 public:
  enum class Version { kV1, kV2 };

  // A new group that may use `limit` bytes, below the one that this process is in. Nothing where
  // this machine has none of that version, or does not let us; `why_not` says which.
  static std::optional<MemoryGroup> make(Version version, uint64_t limit, std::string& why_not);

  MemoryGroup(MemoryGroup&& other) noexcept;
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  // Its processes must have ended.
  ~MemoryGroup();

  // The command, to be run inside.
  std::vector<std::string> command(std::vector<std::string> words) const;
  // The group as a whole ends when its memory runs out (memory.oom.group); false where it cannot.
  bool die_together() const;

 private:
  explicit MemoryGroup(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace heapsnap::live
