// Runs heapsnap's code in the copy-on-write child, over the child's own memory.
//
// No process but heapsnap needs the child. A mapping of its own holds the code and its working
// memory:
//
//   | code (read, execute) | room ...                     | stack |
//
// It remains a tracee: any fault (a page that cannot be read) stops it.
#pragma once

#include "platform/linux/freeze/snapshot_child.h"
#include "platform/linux/trace/tracer_thread.h"
#include "target/code_runner.h"

namespace heapsnap {

class ChildCode final : public CodeRunner {
 public:
  // For a child that has no seccomp filters, traced by `tracer`. Both outlive this.
  ChildCode(SnapshotChild& child, TracerThread& tracer) : child_(child), tracer_(tracer) {}

  Address load(const PortableCode& code, uint64_t room) override;
  void start(size_t function, Address argument) override;
  bool finish() override;
  bool read(Address from, std::span<std::byte> bytes) override;
  bool write(Address to, std::span<const std::byte> bytes) override;

 private:
  bool map(const PortableCode& code, uint64_t code_size, uint64_t size);

  SnapshotChild& child_;
  TracerThread& tracer_;
  uint64_t base_ = 0;  // of the mapping
  uint64_t end_ = 0;
  PortableCode code_;
  bool is_done_ = false;  // the call, as it should be
};

}  // namespace heapsnap
