// Raw sections waiting to be compressed, first in first out: the first ones in memory, the rest in
// a file that has no name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/unique_fd.h"
#include "snapshot/section.h"

namespace heapsnap {

class SectionSpool final : public SectionSink {
 public:
  static constexpr size_t kDefaultMemory = 16U << 20;

  // `directory`: where the file goes if one is needed; empty for $TMPDIR. Where that folder cannot
  // hold it, $TMPDIR and then /tmp are tried. `memory`: bytes kept before a file is used.
  explicit SectionSpool(std::string directory, size_t memory = kDefaultMemory);

  // Copies the section. Throws Error{kOutput} when the file cannot be written.
  void add(const Section& section) override;
  // Gives every section to `sink` in the order in which they came, and forgets them and the memory.
  void drain(SectionSink& sink);
  bool is_empty() const { return memory_.empty() && spilled_ == 0; }

 private:
  void serialize(const Section& section);
  void write_record();
  void read_spilled(uint64_t offset, void* out, size_t size) const;

  std::string directory_;
  size_t memory_limit_;
  Bytes memory_;  // records end to end
  Bytes record_;  // the one being written or read
  UniqueFd file_;
  std::string place_;  // folder of the file, for messages
  uint64_t spilled_ = 0;
};

}  // namespace heapsnap
