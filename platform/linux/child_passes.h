// Passes over the heap made by the copy-on-write child itself, over its own memory.
//
// The child is a process that nobody needs but us, so it can be made to run code of ours: a
// mapping of its own holds the loops, what they are to do, and their answers.
//
//   | code (read, execute) | task | heaps | answers ...            | stack |
//
// It is a tracee all the while: what it runs into (a page that cannot be read) stops it, and
// nothing of that pass is used. Where the mapping cannot be had (a seccomp filter would judge the
// calls, or executable memory is forbidden), all is read as before.
#pragma once

#include <functional>
#include <vector>

#include "platform/linux/carried_passes.h"
#include "platform/linux/snapshot_child.h"
#include "target/heap_passes.h"
#include "target/list_answers.h"

namespace heapsnap {

class ChildPasses final : public HeapPasses {
 public:
  // Runs work on the thread that traces the child, and waits for it.
  using OnTracer = std::function<void(const std::function<void()>&)>;

  // To be made on the tracing thread, for a child that no seccomp filter watches; passes are then
  // made from another one, while `child` lives.
  ChildPasses(SnapshotChild& child, OnTracer on_tracer);

  bool is_usable() const { return base_ != 0; }

  std::span<const uint32_t> scan(ChunkScan& scan) override;
  std::span<const ListedChunks> follow(std::span<ListScan> lists,
                                       std::span<const AddressRange> heaps) override;

 private:
  bool map();
  // Puts `heaps` into the mapping.
  bool place(std::span<const AddressRange> heaps);
  bool read_answers(const ListPass& pass, std::span<uint64_t> to) const;
  // Makes the pass at `function`, with `task` as its argument. False when it did not end; no other
  // one is tried then.
  template <typename Task>
  bool run(size_t function, Task& task);

  SnapshotChild& child_;
  OnTracer on_tracer_;
  CarriedPasses code_;
  uint64_t base_ = 0;  // of the mapping; 0: there is none
  std::vector<uint32_t> chunks_;
  ListAnswers links_;
  std::vector<AddressRange> heaps_;  // that are in the mapping
};

}  // namespace heapsnap
