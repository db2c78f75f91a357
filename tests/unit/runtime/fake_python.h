// The memory of a Python 3.10 to 3.13 in a FakeTarget: its state, its types, one arena, and objects
// that a test puts into pools.
//
//   0x100000 data: _PyRuntime, then `maxarenas` and `arenas`
//   0x200000 heap: states of interpreters, their tables of arenas, types and their names
//   0x40000000 arenas, each of whose first pool begins 0x1000 behind its begin
#pragma once

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
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
  static constexpr uint64_t kAllocator = 0x120000;  // of the main interpreter, since 3.13
  static constexpr uint64_t kInterpreter = 0x200000;
  static constexpr uint64_t kOtherInterpreter = 0x220000;
  static constexpr uint64_t kOtherAllocator = 0x23f000;
  static constexpr uint64_t kTable = 0x240000;
  static constexpr uint64_t kTypes = 0x250000;
  static constexpr uint64_t kArena = 0x4000b000;
  static constexpr uint64_t kArenaDistance = 0x200000;
  static constexpr uint64_t kTableDistance = 0x4000;
  static constexpr uint64_t kFirstPool = 0x4000c000;
  static constexpr uint64_t kPool = PythonLayout::kLargestPool;
  static constexpr uint64_t kSharedKeys = 0x27f000;
  static constexpr uint64_t kShapes = 0x27e000;
  static constexpr uint64_t kTexts = 0x270000;

  explicit FakePython(unsigned minor = 11)
      : target(Machine::kX86_64), layout(*python_layout(3, minor)) {
    target.map("00100000-00140000 rw-p 00000000 08:01 4711 /usr/bin/python3.11");
    target.map("00200000-00280000 rw-p 00000000 00:00 0 [heap]");
    target.map("4000b000-4010b000 rw-p 00000000 00:00 0");
    target.map("4020b000-4030b000 rw-p 00000000 00:00 0");
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
    put_arena(0);
    if (layout.interpreter_obmalloc != 0) put_allocator(kInterpreter, kAllocator, kTable);
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

  // Where a class is defined: its dict with one other entry, and its qualified name. Returns where
  // that dict has the module.
  uint64_t set_place(uint64_t type, const std::string& module, const std::string& qualified) {
    const uint64_t keys = add_room();
    put(keys + layout.keys_references, 1);
    if (layout.keys_size != 0) {
      put(keys + layout.keys_size, 4);
    } else {
      target.put(Address(keys + layout.keys_log2_size), uint8_t{2});
      target.put(Address(keys + layout.keys_log2_index_bytes), uint8_t{2});
      target.put(Address(keys + layout.keys_kind), uint8_t{1});
    }
    put(keys + layout.keys_entries, 2);
    const uint64_t hash = layout.keys_size != 0 ? 8 : 0;
    const uint64_t first = keys + layout.keys_header + 4 + hash;
    const uint64_t second = first + hash + 16;
    put(first, add_text("__init__"));
    put(second, add_text("__module__"));
    put(second + 8, add_text(module));
    const uint64_t dict = add_room();
    put(dict + layout.dict_keys, keys);
    put(type + layout.type_base + 8, dict);
    put(type + layout.heap_type_keys - 8, add_text(qualified));
    return second + 8;
  }
  // A str.
  uint64_t add_text(const std::string& characters) {
    if (text_type == 0) text_type = add_type("str", object_type, 80, 0, kReady | 1 << 28);
    const uint64_t at = add_room();
    put(at, 1);
    put(at + 8, text_type);
    put_characters(at, characters);
    return at;
  }
  // Of a str at that place: ASCII, behind its header.
  void put_characters(uint64_t at, std::string_view characters) {
    put(at + layout.text_length, characters.size());
    put_int(at + layout.text_state, 1 << 2 | 3 << 5);
    target.put_bytes(Address(at + layout.text_ascii_size), std::as_bytes(std::span(characters)));
  }

  // Another interpreter, since 3.12 with an arena of its own: the second one; or with the first
  // one's.
  void add_interpreter(bool has_arena) {
    // The newest one is the first.
    put(kState + layout.runtime_first_interpreter, kOtherInterpreter);
    put(kOtherInterpreter + layout.interpreter_next, kInterpreter);
    put(kOtherInterpreter + layout.interpreter_runtime, kState);
    if (has_arena) {
      put_arena(1);
      put_allocator(kOtherInterpreter, kOtherAllocator, kTable + kTableDistance);
    } else if (layout.is_obmalloc_elsewhere) {
      put(kOtherInterpreter + layout.interpreter_obmalloc, kAllocator);
    }
  }
  // Where the state of its allocator is.
  uint64_t allocator_of(uint64_t interpreter) {
    const uint64_t at = interpreter + layout.interpreter_obmalloc;
    return layout.is_obmalloc_elsewhere ? word(at) : at;
  }

  // A pool with `made` blocks of `size` bytes, all in use.
  uint64_t add_pool(uint64_t size, uint64_t made, uint64_t arena = 0) {
    const uint64_t at = kFirstPool + arena * kArenaDistance + pools_[arena] * kPool;
    set_pools(arena, pools_[arena] + 1);
    put(at + layout.pool_count, made);
    put_int(at + layout.pool_arena, 0);
    put_int(at + layout.pool_size_class, size / PythonLayout::kAlignment - 1);
    put_int(at + layout.pool_next_offset, layout.pool_header + made * size);
    return at;
  }
  // 20 objects of 48 bytes with a header of the collector, the first ten of them tracked, in a
  // pool.
  uint64_t add_orders(uint64_t type, uint64_t arena = 0) {
    const uint64_t pool = add_pool(48, 20, arena);
    for (uint64_t i = 0; i < 20; ++i) {
      const uint64_t at = block(pool, 48, i);
      if (i < 10) {
        put(at, at + 48);
        put(at + 8, at);
      }
      put(at + 16, 1);
      put(at + 24, type);
    }
    return pool;
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
  uint64_t text_type = 0;

 private:
  uint64_t add_room() { return kTexts + rooms_++ * 0x100; }
  void put_allocator(uint64_t interpreter, uint64_t elsewhere, uint64_t table) {
    if (layout.is_obmalloc_elsewhere) put(interpreter + layout.interpreter_obmalloc, elsewhere);
    const uint64_t at = allocator_of(interpreter);
    put(at + layout.obmalloc_arenas, table);
    put_int(at + layout.obmalloc_arena_count, PythonLayout::kFirstArenas);
  }
  // The only one of its table.
  void put_arena(uint64_t number) {
    const uint64_t table = kTable + number * kTableDistance;
    for (uint64_t i = 1; i + 1 < PythonLayout::kFirstArenas; ++i) {
      put(table + i * layout.arena_size + layout.arena_next, table + (i + 1) * layout.arena_size);
    }
    put(table + layout.arena_address, kArena + number * kArenaDistance);
    put_int(table + layout.arena_total_pools, pools_in_arena());
    set_pools(number, 0);
  }
  void set_pools(uint64_t arena, uint64_t count) {
    pools_[arena] = count;
    const uint64_t table = kTable + arena * kTableDistance;
    put(table + layout.arena_pool_address, kFirstPool + arena * kArenaDistance + count * kPool);
    put_int(table + layout.arena_free_pools, pools_in_arena() - count);
  }
  uint64_t pools_in_arena() const {
    const Address first = Address(kArena).align_up(layout.pool_bytes);
    return (Address(kArena) + layout.arena_bytes - first) / layout.pool_bytes;
  }

  uint64_t types_ = 0;
  uint64_t shapes_ = 0;
  uint64_t rooms_ = 0;
  std::array<uint64_t, 2> pools_{};
};

}  // namespace heapsnap::test
