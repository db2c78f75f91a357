// The memory of a Python 3.10 to 3.13 in a FakeTarget: its state, its types, one arena, and objects
// that a test puts into pools.
//
//   0x100000 data: _PyRuntime, then `maxarenas` and `arenas`
//   0x200000 heap: the interpreter's state, the table of arenas, types and their names
//   0x40000000 one arena, whose first pool begins 0x1000 behind its begin
#pragma once

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/python/python_place.h"
#include "runtime/python/python_walk.h"
#include "tests/unit/heap/fake_target.h"
#include "tests/unit/runtime/model_sums.h"

namespace heapsnap::test {

class FakePython {
 public:
  static constexpr uint64_t kState = 0x100000;
  static constexpr uint64_t kVariables = 0x130000;  // maxarenas, arenas
  static constexpr uint64_t kInterpreter = 0x200000;
  static constexpr uint64_t kTable = 0x240000;
  static constexpr uint64_t kTypes = 0x250000;
  static constexpr uint64_t kArena = 0x4000b000;
  static constexpr uint64_t kFirstPool = 0x4000c000;
  static constexpr uint64_t kPool = PythonLayout::kLargestPool;
  static constexpr uint64_t kSharedKeys = 0x27f000;
  static constexpr uint64_t kShapes = 0x27e000;

  explicit FakePython(unsigned minor = 11)
      : target(Machine::kX86_64), layout(*python_layout(3, minor)) {
    target.map("00100000-00140000 rw-p 00000000 08:01 4711 /usr/bin/python3.11");
    target.map("00200000-00280000 rw-p 00000000 00:00 0 [heap]");
    target.map("4000b000-4010b000 rw-p 00000000 00:00 0");
    place.module = "/usr/bin/python3.11";
    place.version = "3.11.2";
    place.runtime = Address(kState);
    place.data = {{Address(0x100000), Address(0x140000)}};
    place.layout = &layout;
    place.runtime_size = layout.runtime_size;
    put(kState + layout.runtime_first_interpreter, kInterpreter);
    put(kInterpreter + layout.interpreter_runtime, kState);
    put_int(kVariables, PythonLayout::kFirstArenas);
    put(kVariables + 8, kTable);
    for (uint64_t i = 1; i + 1 < PythonLayout::kFirstArenas; ++i) {
      put(kTable + i * layout.arena_size + layout.arena_next, kTable + (i + 1) * layout.arena_size);
    }
    put(kTable + layout.arena_address, kArena);
    put_int(kTable + layout.arena_total_pools, 63);
    set_pools(0);
    type_type = add_type("type", 0, 904, 0, kTypeFlags);
    object_type = add_type("object", 0, 16, 0, kReady);
  }

  static constexpr uint64_t kReady = 1 << 12;
  static constexpr uint64_t kCollected = kReady | 1 << 14;
  static constexpr uint64_t kTypeFlags = kCollected | 1ULL << 31;

  // The address of a type whose instances have this size.
  uint64_t add_type(const std::string& name, uint64_t base, uint64_t size, uint64_t item,
                    uint64_t flags) {
    const uint64_t at = kTypes + types_++ * 0x800;
    const uint64_t text = at + 0x600;
    put(at, 1);
    put(at + 8, type_type == 0 ? at : type_type);
    put(at + layout.type_name, text);
    target.put_bytes(Address(text), std::as_bytes(std::span(name)));
    put(at + layout.type_basic_size, size);
    put(at + layout.type_item_size, item);
    put(at + layout.type_flags, flags);
    put(at + layout.type_base, base == 0 && name != "object" ? at : base);
    return at;
  }

  // The same of a class whose instances keep six attributes as this version does.
  uint64_t add_class(const std::string& name) {
    constexpr uint64_t kHeapType = 1 << 9;
    put(kSharedKeys + layout.keys_usable, 4);
    put(kSharedKeys + layout.keys_entries, 2);
    const uint64_t at = add_type(name, object_type, 16, 0,
                                 kCollected | kHeapType | layout.header_flags | layout.inline_flag);
    put(at + layout.heap_type_keys, kSharedKeys);
    return at;
  }

  // A pool with `made` blocks of `size` bytes, all in use.
  uint64_t add_pool(uint64_t size, uint64_t made) {
    const uint64_t at = kFirstPool + pools_ * kPool;
    set_pools(pools_ + 1);
    put(at + layout.pool_count, made);
    put_int(at + layout.pool_arena, 0);
    put_int(at + layout.pool_size_class, size / PythonLayout::kAlignment - 1);
    put_int(at + layout.pool_next_offset, layout.pool_header + made * size);
    return at;
  }
  // Frees the block of a pool.
  void free_block(uint64_t pool, uint64_t block) {
    const uint64_t count = word(pool + layout.pool_count) - 1;
    put(block, word(pool + layout.pool_free_block));
    put(pool + layout.pool_free_block, block);
    put(pool + layout.pool_count, count);
  }
  uint64_t block(uint64_t pool, uint64_t size, uint64_t number) const {
    return pool + layout.pool_header + number * size;
  }

  // A numpy.ndarray of its own data, of items of 8 bytes; at most four sizes.
  void put_array(uint64_t at, uint64_t of_type, const std::vector<uint64_t>& sizes) {
    constexpr uint64_t kMostSizes = 4;
    const uint64_t shape = kShapes + shapes_++ * 2 * kMostSizes * 8;
    put(at, 1);
    put(at + 8, of_type);
    put(at + PythonArray::kData, kSharedKeys);
    put(at + PythonArray::kDimensions, sizes.size());
    put(at + PythonArray::kShape, shape);
    put(at + PythonArray::kStrides, shape + sizes.size() * 8);
    put(at + PythonArray::kFlags, PythonArray::kOwnsData | 1);
    uint64_t stride = 8;
    for (size_t i = sizes.size(); i-- != 0; stride *= sizes[i]) {
      put(shape + i * 8, sizes[i]);
      put(shape + (sizes.size() + i) * 8, stride);
    }
  }

  void put(uint64_t at, uint64_t value) { target.put_word(Address(at), value); }
  void put_int(uint64_t at, uint64_t value) {
    target.put(Address(at), static_cast<uint32_t>(value));
  }
  uint64_t word(uint64_t at) {
    return static_cast<Target&>(target).memory().read_value<uint64_t>(Address(at)).value_or(0);
  }

  // Leaves what references need in `objects`.
  RuntimeModel walk() {
    RuntimeModel model;
    objects = RuntimeObjects();
    RuntimeOptions options;
    options.objects = &objects;
    PythonWalk walk(target, place, options);
    walk.take(model);
    objects.seal();
    return model;
  }

  FakeTarget target;
  const PythonLayout& layout;
  PythonPlace place;
  RuntimeObjects objects;
  uint64_t type_type = 0;
  uint64_t object_type = 0;

 private:
  void set_pools(uint64_t count) {
    pools_ = count;
    put(kTable + layout.arena_pool_address, kFirstPool + pools_ * kPool);
    put_int(kTable + layout.arena_free_pools, 63 - pools_);
  }

  uint64_t types_ = 0;
  uint64_t shapes_ = 0;
  uint64_t pools_ = 0;
};

}  // namespace heapsnap::test
