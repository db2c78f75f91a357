#include "tracker/stack_memory.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "tracker/arch_x86_64.h"

namespace heapsnap::tracker {

namespace {

// The kernel keeps at least this much below the top of the first thread's stack free of mappings.
constexpr uint64_t kMainStackGap = 128ULL << 20;

// The mapping around `address`, from /proc/self/maps, which comes sorted.
bool find_mapping(uint64_t address, uint64_t& low, uint64_t& high) {
  const long file = system_call(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"),
                                O_RDONLY | O_CLOEXEC);
  if (failed(file)) return false;
  char buffer[1024];
  uint64_t numbers[2] = {0, 0};
  unsigned which = 0;  // 0, 1: reading that number; 2: the rest of the line
  bool found = false;
  for (bool more = true; more && !found;) {
    const long size = system_call(SYS_read, file, reinterpret_cast<long>(buffer), sizeof buffer);
    more = !failed(size) && size > 0;
    for (long i = 0; more && i < size && !found; ++i) {
      const char c = buffer[i];
      if (c == '\n') {
        which = 0;
        numbers[0] = numbers[1] = 0;
      } else if (which < 2) {
        if (c >= '0' && c <= '9') {
          numbers[which] = numbers[which] * 16 + static_cast<uint64_t>(c - '0');
        } else if (c >= 'a' && c <= 'f') {
          numbers[which] = numbers[which] * 16 + static_cast<uint64_t>(c - 'a') + 10;
        } else if (++which == 2 && address >= numbers[0] && address < numbers[1]) {
          low = numbers[0];
          high = numbers[1];
          found = true;
        }
      }
    }
  }
  system_call(SYS_close, file);
  return found;
}

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
  } else {
    uint64_t low = 0;
    uint64_t high = 0;
    const uint64_t pointer = thread_pointer();
    if (find_mapping(sp, low, high) && pointer > sp && pointer < high) {
      own_low_ = mapped_low_ = low;
      own_high_ = pointer;
    }
  }
  if (own_high_ < 8) own_high_ = 8;
}

bool StackMemory::is_mapped(uint64_t address) {
  if (address < kPage || address % kPage > kPage - 8) return false;
  const uint64_t page = address & ~(kPage - 1);
  if (page == checked_page_) return true;
  unsigned char resident;
  if (system_call(SYS_mincore, static_cast<long>(page), 1, reinterpret_cast<long>(&resident)) !=
      0) {
    return false;
  }
  checked_page_ = page;
  return true;
}

}  // namespace heapsnap::tracker
