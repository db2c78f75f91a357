// The heaps of the language runtimes of a process: found before the freeze, walked in its frozen
// memory beside malloc's.
//
// A copy is walked while the process runs on. A process that stands still meanwhile is not made to
// wait for it, unless that was asked for. As with references, walks are given up when too much
// memory goes to the copy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heap/chunk.h"
#include "references/loaded_modules.h"
#include "runtime/runtime_model.h"
#include "runtime/runtime_walk.h"
#include "target/target.h"
#include "tools/capture/capture_choice.h"
#include "tools/capture/memory_budget.h"

namespace heapsnap {

class RuntimeCapture final : public ChunkSink {
 public:
  // `pid`: of the process whose limits count; 0 for a core. `memory_budget` as MemoryBudget's.
  RuntimeCapture(CaptureChoice choice, int pid, std::optional<uint64_t> memory_budget,
                 bool keep_texts)
      : choice_(choice),
        pid_(pid),
        memory_budget_(memory_budget),
        options_{keep_texts, {}, nullptr} {}

  // Opens the modules of the process, but for `known` ones. Reads files.
  void prepare(Target& target, const LoadedModules& known);
  // The same with runtimes that were found in another way.
  void prepare(std::vector<RuntimePlace> places) { places_ = std::move(places); }
  // From now on `target` is read, which outlives this. `is_held`: it stands still meanwhile.
  // `objects`: where what references need goes, and outlives this; null: nowhere. It is empty after
  // take() if a heap was refused when a part of it had been read: what is half known misleads.
  void begin(Target& target, bool is_held, RuntimeObjects* objects);

  // Each chunk of the walk.
  void on_batch(const ChunkBatch& batch) override;
  void on_mmapped(const MmappedChunk& chunk) override;

  // After the last one. Each runtime is in it, those that are refused with the reason.
  RuntimeModel take();

 private:
  struct Reading {
    Runtime refused;  // what is said of it without a walk
    std::unique_ptr<RuntimeWalk> walk;
  };

  void begin_one(const RuntimePlace& place, Target& target);
  template <typename Step>
  void each_walk(Step step);

  CaptureChoice choice_;
  int pid_;
  std::optional<uint64_t> memory_budget_;
  RuntimeOptions options_;
  std::vector<RuntimePlace> places_;
  std::optional<MemoryBudget> budget_;
  std::vector<Reading> readings_;
  bool is_half_known_ = false;  // what references need
};

}  // namespace heapsnap
