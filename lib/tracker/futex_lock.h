// A lock for what happens rarely: a new stack, a new module, a new thread. Never on the path of an
// allocation whose stack is known, and never taken inside a signal handler (the busy flag of the
// thread keeps nested events away from everything that locks).
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdint>

#include "tracker/arch_x86_64.h"

namespace heapsnap::tracker {

class FutexLock {
 public:
  bool try_lock() {
    uint32_t expected = 0;
    return __atomic_compare_exchange_n(&word_, &expected, 1, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }

  // False after some microseconds.
  bool lock_soon() {
    if (try_lock()) return true;
    for (int i = 0; i < 100; ++i) {
      relax();
      if (__atomic_load_n(&word_, __ATOMIC_RELAXED) == 0 && try_lock()) return true;
    }
    return false;
  }

  // False after about a second: the holder has been lost (a longjmp out of a signal handler, a
  // killed thread) or does not run. The caller drops its event and counts it, rather than hang; and
  // until the lock is given back after all, the next ones do not wait for that long.
  bool lock() {
    if (lock_soon()) return true;
    for (int i = 0; i < 100; ++i) {
      if (__atomic_load_n(&word_, __ATOMIC_RELAXED) == kGivenUp) return false;
      if (__atomic_exchange_n(&word_, kAwaited, __ATOMIC_ACQUIRE) == 0) return true;
      timespec wait{0, 10'000'000};
      system_call(SYS_futex, reinterpret_cast<long>(&word_), FUTEX_WAIT_PRIVATE, kAwaited,
                  reinterpret_cast<long>(&wait));
    }
    uint32_t expected = kAwaited;
    __atomic_compare_exchange_n(&word_, &expected, kGivenUp, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
    return false;
  }

  void unlock() {
    if (__atomic_exchange_n(&word_, 0, __ATOMIC_RELEASE) == kAwaited) {
      system_call(SYS_futex, reinterpret_cast<long>(&word_), FUTEX_WAKE_PRIVATE, 1);
    }
  }

 private:
  static constexpr uint32_t kAwaited = 2;  // taken, and somebody may wait
  static constexpr uint32_t kGivenUp = 3;  // taken, and somebody has waited in vain

  uint32_t word_ = 0;  // 0: free; 1: taken
};

}  // namespace heapsnap::tracker
