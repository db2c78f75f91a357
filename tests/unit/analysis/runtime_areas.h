// A Python interpreter's heap for handmade snapshots.
#pragma once

#include "tests/unit/analysis/handmade_snapshot.h"

namespace heapsnap::test {

// An area of `bytes` at `begin`: an eighth of it used, a quarter free in pages, the rest free. Of
// all that, half is resident and a quarter in swap.
inline RuntimeArea area_at(uint64_t begin, uint64_t bytes) {
  const auto amount = [](uint64_t part) { return RuntimeArea::Amount{part, part / 2, part / 4}; };
  return {0,
          {Address(begin), Address(begin + bytes)},
          amount(bytes / 8),
          amount(bytes / 4),
          amount(bytes / 8 * 5)};
}

inline void add_python(HandmadeSnapshot& snapshot, std::vector<RuntimeArea> areas) {
  Runtime python;
  python.kind = RuntimeKind::kPython;
  python.version = "3.11.2";
  python.module = "/usr/bin/python3.11";
  python.areas = areas.size();
  snapshot.metadata.runtimes.runtimes = {python};
  snapshot.metadata.runtimes.areas = std::move(areas);
}

}  // namespace heapsnap::test
