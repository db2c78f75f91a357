// A Python heap of two interpreters, and calls of functions, whose words the input changes:
// whatever they are, its walk ends, and what it says adds up.
#include <cstdint>
#include <cstring>
#include <span>

#include "tests/unit/runtime/fake_calls.h"

using namespace heapsnap;
using test::FakeCalls;
using test::FakePython;

// The length chooses the version. Ten bytes for each change: a place in one of several parts, and
// the word that comes there.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kChange = 10;
  FakePython python(9 + size % 6);
  python.add_interpreter(python.layout.interpreter_obmalloc != 0);
  const uint64_t order =
      python.add_type("Order", python.object_type, 32, 0, FakePython::kCollected);
  const uint64_t list =
      python.add_type("list", python.object_type, 40, 0, FakePython::kCollected | 1 << 25);
  const uint64_t dict =
      python.add_type("dict", python.object_type, 48, 0, FakePython::kCollected | 1 << 29);
  const uint64_t text =
      python.add_type("str", python.object_type, 80, 0, FakePython::kReady | 1 << 28);
  const uint64_t instance = python.add_class("Class");
  const uint64_t pool = python.add_pool(64, 40);
  if (python.layout.interpreter_obmalloc != 0) python.add_orders(order, 1);
  const uint64_t types[] = {order, list, dict, text};
  for (uint64_t i = 0; i < 40; ++i) {
    const uint64_t at = python.block(pool, 64, i) + (i % 4 == 3 ? 0 : 16);
    python.put(at, 1);
    python.put(at + 8, types[i % 4]);
  }
  const uint64_t array =
      python.add_type("numpy.ndarray", python.object_type, 96, 0, FakePython::kReady);
  const uint64_t arrays = python.add_pool(96, 10);
  for (uint64_t i = 0; i < 10; ++i) python.put_array(python.block(arrays, 96, i), array, {i, 8});
  python.put(python.block(pool, 64, 0) + 32, 1);
  python.put(python.block(pool, 64, 0) + 40, instance);
  // main() calls serve(), which runs.
  FakeCalls calls(python);
  const uint64_t main = calls.add_code("main", {"cache"}, {"shared"}, 3);
  const uint64_t serve = calls.add_code("serve", {"store"}, {}, 2);
  const uint64_t outer = calls.frame_at(0);
  const uint64_t inner = calls.frame_at(1);
  calls.put_frame(outer, main, 0, 2, 1, 2);
  calls.put_frame(inner, serve, outer, 4, -1, 1);
  calls.set_innermost(inner);
  std::vector<uint64_t> parts = {FakePython::kTable,
                                 order,
                                 pool,
                                 FakePython::kState,
                                 FakePython::kInterpreter,
                                 arrays,
                                 FakeCalls::kThread,
                                 FakeCalls::kObjects,
                                 outer,
                                 inner};
  if (python.layout.interpreter_obmalloc != 0) {
    for (const uint64_t interpreter : {FakePython::kInterpreter, FakePython::kOtherInterpreter}) {
      parts.push_back(interpreter + python.layout.interpreter_obmalloc);
      parts.push_back(python.allocator_of(interpreter) + python.layout.obmalloc_arenas);
    }
    parts.push_back(FakePython::kTable + FakePython::kTableDistance);
  }
  for (size_t i = 0; i + kChange <= size && i < 64 * kChange; i += kChange) {
    uint16_t place = 0;
    uint64_t value = 0;
    std::memcpy(&place, data + i, sizeof place);
    std::memcpy(&value, data + i + sizeof place, sizeof value);
    // Half of the words are addresses in the parts: nothing else leads anywhere.
    if (value % 2 == 0) value = parts[value / 2 % parts.size()] + value / 16 % 0x2000;
    python.put(parts[place % parts.size()] + place / parts.size() % 0x3ff * 8, value);
  }
  if (!test::adds_up(python.walk())) __builtin_trap();
  if (!test::fits(python.objects) || !test::is_sound(python.objects)) __builtin_trap();
  return 0;
}
