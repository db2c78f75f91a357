// The allocator's entry points, as the traced program sees them: under their own names when the
// library is preloaded, and by jumps that heapsnap patches into the C library when it is injected.
// They are the same functions.
//
// There is no reallocarray: that of the C library calls realloc by its name.
//
// Each calls the original first and records afterwards (a failed allocation is none), but empties
// the slot of a block before the original frees it, because from then on another thread may get the
// same address.
//
// Those that are called most only look whether there is something to do and go on to the original
// or to a function that does it, by a jump: with neither a frame nor a saved register, a call that
// is not recorded costs a few instructions. A function that records says by its own frame where the
// caller is (HEAPSNAP_FRAME makes the compiler set one up), also when it was jumped to. Compiled
// without built-ins.
#include <stddef.h>

#include "tracker/originals.h"
#include "tracker/recording.h"
#include "tracker/starting.h"

#define HEAPSNAP_HOOK extern "C" __attribute__((visibility("default")))
#define HEAPSNAP_FRAME __builtin_frame_address(0)
#define HEAPSNAP_CALLER reinterpret_cast<uint64_t>(__builtin_return_address(0))

namespace heapsnap::tracker {

namespace {

// While the C library serves a call that may come back to a hook.
class InsideOriginal {
 public:
  explicit InsideOriginal(const void* frame) : state_(thread_state) {
    if (state_ != nullptr && !is_busy(*state_)) {
      set_busy(*state_, reinterpret_cast<uint64_t>(frame) | 1);
    } else {
      state_ = nullptr;
    }
  }
  ~InsideOriginal() {
    if (state_ != nullptr) set_idle(*state_);
  }
  InsideOriginal(const InsideOriginal&) = delete;
  InsideOriginal& operator=(const InsideOriginal&) = delete;

 private:
  ThreadState* state_;
};

__attribute__((noinline)) void* realloc_recorded(void* block, size_t size) {
  const void* frame = HEAPSNAP_FRAME;
  uint32_t was = kEmptySlot;
  uint64_t was_size = 0;
  if (block != nullptr) {
    if (HEAPSNAP_UNLIKELY(is_from_loader(HEAPSNAP_CALLER))) note_loader_free();
    if (uint32_t* slot = live_slot(block); slot != nullptr) {
      was = load(*slot);
      if (was != kEmptySlot) {
        was_size = charged_size(block, was);
        store(*slot, kEmptySlot);
      }
    }
  }
  void* result = nullptr;
  {
    const InsideOriginal inside(frame);
    result = originals.realloc(block, size);
  }
  if (result == nullptr && size != 0) {  // the old block is as it was
    if (was != kEmptySlot) store(*live_slot(block), was);
    return nullptr;
  }
  if (was != kEmptySlot) {
    lower_page_count(block);
    count_free(was, was_size, frame);
  }
  if (result != nullptr) record_allocation(result, size, frame);
  return result;
}

// Jumped to by the hooks.
__attribute__((noinline)) void* malloc_recorded(size_t size) {
  void* block = originals.malloc(size);
  record_allocation(block, size, HEAPSNAP_FRAME);
  return block;
}

// Without us if that may be: an old block without a slot, and no need for a call of the original's
// to malloc, which it makes for a new block and to move one that had a mapping.
__attribute__((always_inline)) inline void* reallocate(void* block, size_t size, uint64_t caller) {
  if (block == nullptr) {
    if (is_passed_over(size)) return originals.malloc(size);
  } else if (!may_be_recorded(block) && !is_from_loader(caller) && may_pass_over(size) &&
             !has_own_mapping(block)) {
    pass_over(size);
    return originals.realloc(block, size);
  }
  return realloc_recorded(block, size);
}

__attribute__((noinline)) void* calloc_recorded(size_t count, size_t size) {
  void* block = originals.calloc(count, size);
  record_allocation(block, count * size, HEAPSNAP_FRAME);  // it did not overflow, or block is null
  return block;
}

__attribute__((noinline)) void free_unusual(void* block, uint32_t* slot) {
  record_free(block, slot, HEAPSNAP_FRAME);
  originals.free(block);
}

__attribute__((noinline)) void free_recorded(void* block, uint32_t* slot) {
  if (HEAPSNAP_UNLIKELY(!record_free_at_once(block, slot, HEAPSNAP_FRAME))) {
    return free_unusual(block, slot);
  }
  originals.free(block);
}

__attribute__((noinline)) void free_by_loader(void* block) {
  if (block != nullptr) {
    note_loader_free();
    if (uint32_t* slot = recorded_slot(block)) record_free(block, slot, HEAPSNAP_FRAME);
  }
  originals.free(block);
}

}  // namespace

}  // namespace heapsnap::tracker

using namespace heapsnap::tracker;

HEAPSNAP_HOOK void* malloc(size_t size) {
  if (is_passed_over(size)) return originals.malloc(size);
  return malloc_recorded(size);
}

HEAPSNAP_HOOK void free(void* block) {
  if (HEAPSNAP_UNLIKELY(is_from_loader(HEAPSNAP_CALLER))) return free_by_loader(block);
  if (uint32_t* slot = recorded_slot(block)) return free_recorded(block, slot);
  originals.free(block);
}

// Of glibc before 2.26, and of others.
HEAPSNAP_HOOK void cfree(void* block) {
  if (uint32_t* slot = recorded_slot(block)) record_free(block, slot, HEAPSNAP_FRAME);
  originals.cfree(block);
}

HEAPSNAP_HOOK void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (!__builtin_mul_overflow(count, size, &bytes) && is_passed_over(bytes)) {
    return originals.calloc(count, size);
  }
  return calloc_recorded(count, size);
}

HEAPSNAP_HOOK void* realloc(void* block, size_t size) {
  return reallocate(block, size, HEAPSNAP_CALLER);
}

HEAPSNAP_HOOK void* memalign(size_t alignment, size_t size) {
  void* block = originals.memalign(alignment, size);
  record_allocation(block, size, HEAPSNAP_FRAME);
  return block;
}

HEAPSNAP_HOOK void* aligned_alloc(size_t alignment, size_t size) {
  void* block = originals.aligned_alloc(alignment, size);
  record_allocation(block, size, HEAPSNAP_FRAME);
  return block;
}

HEAPSNAP_HOOK int posix_memalign(void** out, size_t alignment, size_t size) {
  const int result = originals.posix_memalign(out, alignment, size);
  if (result != 0) return result;
  record_allocation(*out, size, HEAPSNAP_FRAME);
  return 0;
}

HEAPSNAP_HOOK void* valloc(size_t size) {
  void* block = originals.valloc(size);
  record_allocation(block, size, HEAPSNAP_FRAME);
  return block;
}

HEAPSNAP_HOOK void* pvalloc(size_t size) {
  void* block = originals.pvalloc(size);
  record_allocation(block, size, HEAPSNAP_FRAME);
  return block;
}

namespace heapsnap::tracker {

namespace {
HookEntry hook_table[9];
}

void publish_hooks() {
  unsigned count = 0;
  const auto list = [&](const char* name, auto* hook, auto* original) {
    HookEntry& entry = hook_table[count++];
    for (unsigned i = 0; name[i] != 0; ++i) entry.name[i] = name[i];
    entry.hook = reinterpret_cast<uint64_t>(hook);
    entry.original = reinterpret_cast<uint64_t>(original);
  };
  list("malloc", ::malloc, &originals.malloc);
  list("free", ::free, &originals.free);
  list("calloc", ::calloc, &originals.calloc);
  list("realloc", ::realloc, &originals.realloc);
  list("memalign", ::memalign, &originals.memalign);
  list("aligned_alloc", ::aligned_alloc, &originals.aligned_alloc);
  list("posix_memalign", ::posix_memalign, &originals.posix_memalign);
  list("valloc", ::valloc, &originals.valloc);
  list("pvalloc", ::pvalloc, &originals.pvalloc);
  control.directory->hooks = reinterpret_cast<uint64_t>(hook_table);
  control.directory->hook_count = count;
  control.directory->hook_entry_size = sizeof(HookEntry);
}

}  // namespace heapsnap::tracker
