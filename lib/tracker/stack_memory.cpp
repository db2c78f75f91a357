#include "tracker/stack_memory.h"

#include <sys/auxv.h>

#include "tracker/arch_x86_64.h"
#include "tracker/control_block.h"

namespace heapsnap::tracker {

namespace {

// The kernel keeps at least this much below the top of the first thread's stack free of mappings.
constexpr uint64_t kMainStackGap = 128ULL << 20;

}  // namespace

void StackMemory::find_own_stack(uint64_t sp, bool is_main_thread) {
  own_low_ = mapped_low_ = own_high_ = 0;
  if (is_main_thread) {
    // The kernel puts the program's name above everything else on the first stack.
    const uint64_t top = getauxval(AT_EXECFN) & ~7ULL;
    if (top > sp && top - sp < kMainStackGap) {
      own_low_ = top - kMainStackGap;
      mapped_low_ = sp;
      own_high_ = top;
    }
  } else if (const uint64_t begin = own_stack_begin(sp); begin != 0) {
    own_low_ = begin;
    mapped_low_ = sp;
    own_high_ = thread_pointer();
  }
  if (own_high_ < 8) own_high_ = 8;
}

bool StackMemory::is_mapped(uint64_t address) {
  if (address < kPage || address % kPage > kPage - 8) return false;
  const uint64_t page = address & ~(kPage - 1);
  if (page == checked_page_) return true;
  if (!is_word_readable(page)) return false;
  checked_page_ = page;
  return true;
}

}  // namespace heapsnap::tracker
