// Code whose lines, functions and inlined functions the test knows. Each returns the address behind
// the call that it stands for, as a stack would hold it.
#include "tests/unit/tracking/code_fixture.h"

namespace fixture {

namespace {

[[gnu::noinline]] void* return_address() {
  return __builtin_return_address(0);
}

[[gnu::always_inline]] inline void* inner() {
  void* const address = return_address();  // line of kInnerLine
  asm volatile("" : : "r"(address));
  return address;
}

[[gnu::always_inline]] inline void* outer() {
  return inner();  // line of kOuterLine
}

}  // namespace

void* plain_call() {
  void* const address = return_address();  // line of kPlainLine
  asm volatile("" : : "r"(address));
  return address;
}

void* inlined_call() {
  return outer();  // line of kInlinedLine
}

}  // namespace fixture
