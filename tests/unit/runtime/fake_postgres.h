// The memory of a PostgreSQL server in a FakeTarget: contexts of each kind, made and filled as the
// server does it, on top of a malloc that hands out one chunk behind the other.
//
//   0x100000 constants: names, and for each kind a table of functions
//   0x110000 code
//   0x120000 data: the variable TopMemoryContext
//   0x200000 heap
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/postgres/postgres_walk.h"
#include "tests/unit/heap/fake_target.h"

namespace heapsnap::test {

class FakePostgres {
 public:
  static constexpr uint64_t kConstants = 0x100000;
  static constexpr uint64_t kCode = 0x110000;
  static constexpr uint64_t kVariable = 0x120000;
  static constexpr uint64_t kHeap = 0x200000;
  static constexpr uint64_t kHeapEnd = 0x400000;

  explicit FakePostgres(unsigned major = 15)
      : target(Machine::kX86_64), layout(*postgres_layout(major)) {
    target.map("00100000-00110000 r--p 00000000 08:01 4711 /usr/lib/postgresql/15/bin/postgres");
    target.map("00110000-00120000 r-xp 00010000 08:01 4711 /usr/lib/postgresql/15/bin/postgres");
    target.map("00120000-00130000 rw-p 00020000 08:01 4711 /usr/lib/postgresql/15/bin/postgres");
    target.map("00200000-00400000 rw-p 00000000 00:00 0 [heap]");
    place.module = "/usr/lib/postgresql/15/bin/postgres";
    place.version = std::to_string(major) + ".1";
    place.top = Address(kVariable);
    place.code = {{Address(kCode), Address(kCode + 0x10000)}};
    place.data = {{Address(kConstants), Address(kConstants + 0x10000)},
                  {Address(kVariable), Address(kVariable + 0x10000)}};
    place.layout = &layout;
    for (uint64_t kind = 0; kind < 5; ++kind) {
      for (uint64_t i = 0; i < layout.methods_size / 8; ++i) {
        put(methods(kind) + i * 8, kCode + kind * 0x100 + i * 0x10);
      }
    }
    top = add_set(0, "TopMemoryContext", 8192);
    put(kVariable, top);
  }

  static uint64_t methods(uint64_t kind) { return kConstants + 0x8000 + kind * 0x100; }

  // Each makes a context as the first child of `parent`, and gives its address.
  uint64_t add_set(uint64_t parent, const std::string& name, uint64_t bytes) {
    const uint64_t at = allocate(bytes);
    begin(at, layout.set_tag, ContextKind::kAllocSet, parent, name);
    const uint64_t block = at + layout.set_size;
    put(at + layout.set_blocks, block);
    put_set_block(at, block, 0, 0, at + bytes - block);
    put(at + layout.context_allocated, bytes);
    return at;
  }
  uint64_t add_generation(uint64_t parent, const std::string& name, uint64_t bytes) {
    const bool has_keeper = layout.has_generation_keeper();
    const uint64_t at = allocate(has_keeper ? bytes : layout.generation_size);
    begin(at, layout.generation_tag, ContextKind::kGeneration, parent, name);
    init_list(at + layout.generation_blocks);
    if (has_keeper) {
      push_generation_block(at, at + layout.generation_size, bytes - layout.generation_size);
    }
    return at;
  }
  uint64_t add_slab(uint64_t parent, const std::string& name, uint64_t chunk, uint64_t block) {
    const uint64_t full = chunk + (layout.has_memory_chunks() ? 8 : 16);
    const uint64_t chunks = (block - layout.slab_block_header) / full;
    const bool has_few = layout.slab_empty_blocks != 0;
    const uint64_t lists = has_few ? PostgresLayout::kSlabLists : chunks + 1;
    const uint64_t at = allocate(has_few ? layout.slab_size : layout.slab_size + lists * 16);
    begin(at, layout.slab_tag, ContextKind::kSlab, parent, name);
    put_size(at + layout.slab_chunk_size, full);
    put_size(at + layout.slab_block_size, block);
    put_int(at + layout.slab_chunks_per_block, chunks);
    for (uint64_t i = 0; i < lists; ++i) init_list(at + layout.slab_lists + i * 16);
    if (has_few) init_list(at + layout.slab_empty_blocks);
    return at;
  }
  uint64_t add_bump(uint64_t parent, const std::string& name, uint64_t bytes) {
    const uint64_t at = allocate(bytes);
    begin(at, layout.bump_tag, ContextKind::kBump, parent, name);
    init_list(at + layout.bump_blocks);
    push_bump_block(at, at + layout.bump_size, bytes - layout.bump_size);
    put(at + layout.context_allocated, bytes);
    return at;
  }

  // Another block, which becomes the one that chunks are taken from.
  uint64_t add_set_block(uint64_t at, uint64_t bytes) {
    const uint64_t block = allocate(bytes);
    const uint64_t first = word(at + layout.set_blocks);
    put_set_block(at, block, 0, first, bytes);
    put(first + layout.set_block_previous, block);
    put(at + layout.set_blocks, block);
    grow(at, bytes);
    return block;
  }
  uint64_t add_generation_block(uint64_t at, uint64_t bytes, uint64_t chunks, uint64_t free) {
    const uint64_t block = allocate(bytes);
    push_generation_block(at, block, bytes);
    put_int(block + layout.generation_block_chunks, chunks);
    put_int(block + layout.generation_block_free_chunks, free);
    put(block + layout.generation_block_free, block + layout.generation_block_header + chunks * 64);
    return block;
  }
  // `list`: of the slab's, by number; -1: of its empty blocks.
  uint64_t add_slab_block(uint64_t at, int list, uint64_t free) {
    const uint64_t bytes = layout.slab_size_bytes == 8
                               ? word(at + layout.slab_block_size)
                               : word(at + layout.slab_block_size) & 0xffffffff;
    const uint64_t block = allocate(bytes);
    put_int(block + layout.slab_block_free_chunks, free);
    push(list < 0 ? at + layout.slab_empty_blocks
                  : at + layout.slab_lists + static_cast<uint64_t>(list) * 16,
         block + layout.slab_block_node);
    grow(at, bytes);
    return block;
  }
  uint64_t add_bump_block(uint64_t at, uint64_t bytes, uint64_t used) {
    const uint64_t block = allocate(bytes);
    push_bump_block(at, block, bytes);
    put(block + layout.bump_block_free, block + layout.bump_block_header + used);
    grow(at, bytes);
    return block;
  }

  // A chunk of the set's newest block, of 8 << list bytes.
  uint64_t add_chunk(uint64_t set, unsigned list) {
    const uint64_t block = word(set + layout.set_blocks);
    const uint64_t at = word(block + layout.set_block_free);
    const uint64_t size = PostgresLayout::kLeastChunk << list;
    if (layout.has_memory_chunks()) {
      put(at, (at - block) << 34 | uint64_t{list} << (layout.method_bits + 1) |
                  PostgresLayout::kSetMethods);
    } else {
      put(at, size);
      put(at + 8, set);
    }
    put(block + layout.set_block_free, at + layout.set_chunk_header + size);
    return at;
  }
  void free_chunk(uint64_t set, uint64_t chunk, unsigned list) {
    const uint64_t head = set + layout.set_free_lists + list * 8;
    put(chunk + 8, word(head));
    put(head, chunk);
  }
  // What malloc gives.
  uint64_t allocate(uint64_t bytes) {
    const uint64_t size = (bytes + 8 + 15) / 16 * 16;
    const uint64_t at = next_ + 16;
    sizes_.push_back(size);
    next_ += size;
    return at;
  }
  // A constant of the server.
  uint64_t constant(const std::string& text) {
    const auto [found, is_new] = texts_.try_emplace(text, 0);
    if (is_new) {
      found->second = text_;
      target.put_bytes(Address(text_), std::as_bytes(std::span(text)));
      text_ += text.size() + 1;
    }
    return found->second;
  }

  void put(uint64_t at, uint64_t value) { target.put_word(Address(at), value); }
  void put_int(uint64_t at, uint64_t value) {
    target.put(Address(at), static_cast<uint32_t>(value));
  }
  uint64_t word(uint64_t at) {
    return static_cast<Target&>(target).memory().read_value<uint64_t>(Address(at)).value_or(0);
  }
  uint64_t heap_used() const { return next_ - kHeap; }

  RuntimeModel walk(bool idents = false, RuntimeObjects* objects = nullptr) {
    RuntimeModel model;
    RuntimeOptions options;
    options.keep_texts = idents;
    options.objects = objects;
    PostgresWalk walk(target, place, options);
    const std::vector<ChunkState> states(sizes_.size(), ChunkState::kUsed);
    ChunkBatch batch;
    batch.begin = Address(kHeap);
    batch.sizes = sizes_;
    batch.states = states;
    walk.on_batch(batch);
    walk.take(model);
    return model;
  }

  FakeTarget target;
  const PostgresLayout& layout;
  PostgresPlace place;
  uint64_t top = 0;

 private:
  void begin(uint64_t at, uint32_t tag, ContextKind kind, uint64_t parent,
             const std::string& name) {
    put_int(at, tag);
    put(at + layout.context_methods, methods(static_cast<uint64_t>(kind)));
    put(at + layout.context_parent, parent);
    put(at + layout.context_name, constant(name));
    if (parent == 0) return;
    const uint64_t first = word(parent + layout.context_first_child);
    put(at + layout.context_next, first);
    if (first != 0) put(first + layout.context_previous, at);
    put(parent + layout.context_first_child, at);
  }
  void grow(uint64_t at, uint64_t bytes) {
    put(at + layout.context_allocated, word(at + layout.context_allocated) + bytes);
  }
  void put_size(uint64_t at, uint64_t value) {
    if (layout.slab_size_bytes == 8) {
      put(at, value);
    } else {
      put_int(at, value);
    }
  }
  void put_set_block(uint64_t at, uint64_t block, uint64_t previous, uint64_t next,
                     uint64_t bytes) {
    put(block + layout.set_block_context, at);
    put(block + layout.set_block_previous, previous);
    put(block + layout.set_block_next, next);
    put(block + layout.set_block_free, block + layout.set_block_header);
    put(block + layout.set_block_end, block + bytes);
  }
  void push_generation_block(uint64_t at, uint64_t block, uint64_t bytes) {
    put(block + layout.generation_block_size, bytes);
    put(block + layout.generation_block_free, block + layout.generation_block_header);
    put(block + layout.generation_block_end, block + bytes);
    push(at + layout.generation_blocks, block + layout.generation_block_node);
    grow(at, bytes);
  }
  void push_bump_block(uint64_t at, uint64_t block, uint64_t bytes) {
    put(block + layout.bump_block_free, block + layout.bump_block_header);
    put(block + layout.bump_block_end, block + bytes);
    push(at + layout.bump_blocks, block + layout.bump_block_node);
  }
  void init_list(uint64_t head) {
    put(head, head);
    put(head + 8, head);
  }
  void push(uint64_t head, uint64_t node) {
    const uint64_t first = word(head + 8);
    put(node, head);
    put(node + 8, first);
    put(first, node);
    put(head + 8, node);
  }

  std::vector<uint64_t> sizes_;
  uint64_t next_ = kHeap;
  uint64_t text_ = kConstants;
  std::map<std::string, uint64_t> texts_;
};

// What has to add up, whatever the memory holds.
inline bool adds_up(const FakePostgres& postgres, const RuntimeModel& model) {
  uint64_t bytes = 0;
  uint64_t malloc_bytes = 0;
  for (size_t i = 0; i < model.contexts.size(); ++i) {
    const RuntimeContext& context = model.contexts[i];
    if (context.free_bytes > context.bytes) return false;
    if (context.parent >= static_cast<int32_t>(i)) return false;
    bytes += context.bytes;
    malloc_bytes += context.in_heaps.bytes + context.in_mappings.bytes;
  }
  for (const Runtime& runtime : model.runtimes) {
    malloc_bytes += runtime.other_malloc_bytes + runtime.spare_bytes;
    if (!runtime.why_not.empty() && !model.contexts.empty()) return false;
  }
  return bytes <= FakePostgres::kHeapEnd - FakePostgres::kHeap + 0x10000 &&
         malloc_bytes <= postgres.heap_used();
}

}  // namespace heapsnap::test
