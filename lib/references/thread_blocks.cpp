// Blocks that the C library has for each thread (block_types.h).
#include <algorithm>
#include <string>
#include <string_view>

#include "base/file_name.h"
#include "references/block_types.h"
#include "references/static_tls.h"

namespace heapsnap {

namespace {

class ThreadBlocks {
 public:
  ThreadBlocks(Target& target, const LoadedModules& modules, BlockTypeList& types)
      : target_(target), modules_(modules), types_(types), tls_(find_module_tls(target, modules)) {}

  void add_tcaches(const HeapModel& heap) {
    for (const ThreadCache& cache : heap.thread_caches) {
      if (cache.tcache.is_null()) continue;
      const std::string module = heap.instances.empty() ? "" : heap.instances.front().module;
      add(cache.tcache, {"tcache_perthread_struct", module, TypeSource::kStructure});
    }
  }

  void add_storage_of_threads() {
    for (const Thread& thread : target_.threads()) {
      if (!thread.registers || thread.registers->thread_pointer.is_null()) continue;
      const auto dtv =
          read_dtv(target_.memory(), target_.process().machine, thread.registers->thread_pointer);
      if (!dtv) continue;
      add(dtv->begin, {"dtv", {}, TypeSource::kStructure});
      for (const DtvEntry& entry : dtv->entries) add_storage(entry);
    }
  }

  std::vector<KnownBlock> take() {
    std::sort(found_.begin(), found_.end(),
              [](const KnownBlock& a, const KnownBlock& b) { return a.block < b.block; });
    found_.erase(
        std::unique(found_.begin(), found_.end(),
                    [](const KnownBlock& a, const KnownBlock& b) { return a.block == b.block; }),
        found_.end());
    return std::move(found_);
  }

 private:
  void add_storage(const DtvEntry& entry) {
    const auto module = tls_.modules.find(entry.module);
    if (module == tls_.modules.end()) return;
    const std::string& path = modules_[module->second].path();
    // Up to glibc 2.24 the block itself was what malloc returned; of a static one it is none.
    add(entry.to_free.is_null() ? entry.block : entry.to_free,
        {"thread-local storage of " + std::string(file_name_of(path)), path,
         TypeSource::kStructure});
  }

  void add(Address block, BlockType type) {
    found_.push_back({block, types_.add(std::move(type))});
  }

  Target& target_;
  const LoadedModules& modules_;
  BlockTypeList& types_;
  ModuleTls tls_;
  std::vector<KnownBlock> found_;
};

}  // namespace

std::vector<KnownBlock> find_thread_blocks(Target& target, const LoadedModules& modules,
                                           const HeapModel& heap, BlockTypeList& types) {
  ThreadBlocks blocks(target, modules, types);
  blocks.add_tcaches(heap);
  blocks.add_storage_of_threads();
  return blocks.take();
}

}  // namespace heapsnap
