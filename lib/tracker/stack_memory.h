// Which words of a stack may be read: those of the thread's own stack from the current frame on,
// and of any other stack (a fiber's, a signal stack) page by page as the kernel confirms that they
// can be read.
//
// With right unwind information every word read belongs to a live frame and all of this is
// needless. It guards against invalid chains (a fiber whose first frame has garbage for a caller),
// which must end the stack, not the process.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

class StackMemory {
 public:
  // Learns the bounds of the calling thread's own stack; `sp` is on it, most likely.
  void find_own_stack(uint64_t sp, bool is_main_thread);

  // To be called with the stack pointer of the frame a walk begins with.
  void begin_walk(uint64_t sp) {
    checked_page_ = 0;
    floor_ = sp >= own_low_ && sp < mapped_low_ ? sp : mapped_low_;
  }

  bool is_readable(uint64_t address) {
    if (address >= floor_ && address < own_high_ - 7) return true;
    return is_mapped(address);
  }

  // A walk upwards from `sp` through live frames may read the thread's own stack up to here; 0: not
  // on it.
  uint64_t own_end(uint64_t sp) const { return sp >= floor_ && sp < own_high_ ? own_high_ : 0; }

  bool is_own(uint64_t sp) const { return sp >= own_low_ && sp < own_high_; }

 private:
  bool is_mapped(uint64_t address);

  uint64_t own_low_ = 0;     // what lies in [own_low_, own_high_) is this stack, mapped yet or not
  uint64_t mapped_low_ = 0;  // from here on it is mapped for sure
  uint64_t own_high_ = 8;
  uint64_t floor_ = 0;
  uint64_t checked_page_ = 0;
};

}  // namespace heapsnap::tracker
