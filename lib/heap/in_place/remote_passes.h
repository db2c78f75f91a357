// Passes over a heap by the process that owns it, which runs our code.
//
// Its memory for that:
//
//   | code | task | heaps | answers ...                   |   to follow lists
//   |      |      |       | task, answers | task, answers |   to scan chunks
//
// The next chunks are scanned while those before them are looked at here, in the other half.
//
// A fault in the code (a page that cannot be read) ends it; nothing of that pass is used, and no
// other pass is tried.
#pragma once

#include <optional>
#include <vector>

#include "heap/in_place/heap_passes.h"
#include "heap/in_place/list_answers.h"
#include "heap/in_place/loop_code.h"
#include "target/code_runner.h"

namespace heapsnap {

class RemotePasses final : public HeapPasses {
 public:
  // `runner` outlives this.
  explicit RemotePasses(CodeRunner& runner);

  bool is_usable() const { return !room_.is_null(); }

  std::span<const uint32_t> scan(ChunkScan& scan) override;
  std::span<const ListedChunks> follow(std::span<ListScan> lists,
                                       std::span<const AddressRange> heaps) override;

 private:
  // Puts `heaps` into its memory.
  bool place(std::span<const AddressRange> heaps);
  bool read_answers(const ListPass& pass, std::span<uint64_t> to);
  // Begins the pass at `function` with `task`, which is put at `place`, as its argument. Both
  // give false when a pass did not end as it should; no other one is tried then.
  template <typename Task>
  bool start(size_t function, Address place, const Task& task);
  template <typename Task>
  bool finish(Address place, Task& task);
  // Begins a scan in the half in which the last one was not.
  void start_scan(const ChunkScan& scan);
  Address scan_place() const;

  CodeRunner& runner_;
  LoopCode loops_;
  Address room_;  // null: there is none
  std::optional<ChunkScan> begun_;
  bool in_second_half_ = false;  // the last scan
  std::vector<uint32_t> chunks_;
  ListAnswers links_;
  std::vector<AddressRange> heaps_;  // that are in its memory
};

}  // namespace heapsnap
