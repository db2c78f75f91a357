// Runs heapsnap's code in the copy-on-write child, over the child's own memory.
//
// No process but heapsnap needs the child. A mapping of its own holds the code and its working
// memory:
//
//   | code (read, execute) | room ...                     | stack |
//
// It remains a tracee: any fault (a page that cannot be read) stops it.
#pragma once

#include <functional>

#include "platform/linux/freeze/snapshot_child.h"
#include "target/code_runner.h"

namespace heapsnap {

class ChildCode final : public CodeRunner {
 public:
  // Runs work on the thread that traces the child, and waits for it.
  using OnTracer = std::function<void(const std::function<void()>&)>;

  // For a child that has no seccomp filters and outlives this.
  ChildCode(SnapshotChild& child, OnTracer on_tracer)
      : child_(child), on_tracer_(std::move(on_tracer)) {}

  Address load(const PortableCode& code, uint64_t room) override;
  bool run(size_t function, Address argument) override;
  bool read(Address from, std::span<std::byte> bytes) override;
  bool write(Address to, std::span<const std::byte> bytes) override;

 private:
  bool map(const PortableCode& code, uint64_t code_size, uint64_t size);

  SnapshotChild& child_;
  OnTracer on_tracer_;
  uint64_t base_ = 0;  // of the mapping
  uint64_t end_ = 0;
  PortableCode code_;
};

}  // namespace heapsnap
