// Floating-point arithmetic in somebody else's thread.
//
// MXCSR is the program's: it may have unmasked exceptions (feenableexcept), so that an inexact
// result is a SIGFPE, rounded in another direction, or be about to ask which exceptions there were
// (fetestexcept). While one of these lives MXCSR is as at a thread's start; afterwards it is again
// what it was.
//
//   const PlainFloatingPoint scope;
//   scope.take(mean);                 // what is computed from; integers
//   uint64_t result = ...;
//   scope.take(result);               // what is kept
//
// The compiler knows nothing of MXCSR and might compute before or after: take() ties a value to its
// place.
#pragma once

#include <cstdint>

namespace heapsnap::tracker {

class PlainFloatingPoint {
 public:
  PlainFloatingPoint() {
    asm volatile("stmxcsr %0" : "=m"(programs_));
    asm volatile("ldmxcsr %0" : : "m"(kAtStart));
  }
  ~PlainFloatingPoint() { asm volatile("ldmxcsr %0" : : "m"(programs_)); }
  PlainFloatingPoint(const PlainFloatingPoint&) = delete;
  PlainFloatingPoint& operator=(const PlainFloatingPoint&) = delete;

  void take(uint64_t& value) const { asm volatile("" : "+r"(value)); }

 private:
  static constexpr uint32_t kAtStart = 0x1f80;
  uint32_t programs_;
};

}  // namespace heapsnap::tracker
