#include "runtime/python/python_layout.h"

namespace heapsnap {

namespace {

constexpr PythonLayout kLayouts[] = {
#include "runtime/python/python_layouts.inc"
};

}  // namespace

const PythonLayout* python_layout(unsigned major, unsigned minor) {
  for (const PythonLayout& layout : kLayouts) {
    if (layout.major == major && layout.minor == minor) return &layout;
  }
  return nullptr;
}

}  // namespace heapsnap
