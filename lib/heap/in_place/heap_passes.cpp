#include "heap/in_place/heap_passes.h"

#include "heap/in_place/local_passes.h"
#include "heap/in_place/remote_passes.h"

namespace heapsnap {

std::unique_ptr<HeapPasses> passes_over(Target& target) {
  if (target.is_mapped_here()) {
    return std::make_unique<LocalPasses>(
        [&target](Address address) { return target.mapped_bytes(address); });
  }
  if (CodeRunner* const runner = target.code_runner()) {
    auto passes = std::make_unique<RemotePasses>(*runner);
    if (passes->is_usable()) return passes;
  }
  return nullptr;
}

}  // namespace heapsnap
