// Where PostgreSQL's structures keep what: offsets and sizes by version, of 64-bit machines.
#pragma once

#include <cstdint>

namespace heapsnap {

struct PostgresLayout {
  unsigned major = 0;
  // enum NodeTag; 0: this version has no such context
  uint32_t set_tag = 0;
  uint32_t generation_tag = 0;
  uint32_t slab_tag = 0;
  uint32_t bump_tag = 0;
  // MemoryContextMethods
  uint32_t methods_size = 0;
  // MemoryContextData
  uint32_t context_size = 0;
  uint32_t context_allocated = 0;
  uint32_t context_methods = 0;
  uint32_t context_parent = 0;
  uint32_t context_first_child = 0;
  uint32_t context_previous = 0;
  uint32_t context_next = 0;
  uint32_t context_name = 0;
  uint32_t context_ident = 0;
  // AllocSetContext
  uint32_t set_size = 0;
  uint32_t set_blocks = 0;
  uint32_t set_free_lists = 0;
  // AllocBlockData
  uint32_t set_block_header = 0;
  uint32_t set_block_context = 0;
  uint32_t set_block_previous = 0;
  uint32_t set_block_next = 0;
  uint32_t set_block_free = 0;
  uint32_t set_block_end = 0;
  // AllocChunkData; MemoryChunk since 16
  uint32_t set_chunk_header = 0;
  uint32_t method_bits = 0;  // of a MemoryChunk: the lowest ones
  // GenerationContext
  uint32_t generation_size = 0;
  uint32_t generation_blocks = 0;
  // GenerationBlock
  uint32_t generation_block_header = 0;
  uint32_t generation_block_node = 0;
  uint32_t generation_block_size = 0;
  uint32_t generation_block_chunks = 0;
  uint32_t generation_block_free_chunks = 0;
  uint32_t generation_block_free = 0;
  uint32_t generation_block_end = 0;
  // GenerationChunk; MemoryChunk since 16
  uint32_t generation_chunk_header = 0;
  // SlabContext; before 16 a list for each number of free chunks follows
  uint32_t slab_size = 0;
  uint32_t slab_size_bytes = 0;  // of its members that are sizes
  uint32_t slab_chunk_size = 0;
  uint32_t slab_block_size = 0;
  uint32_t slab_chunks_per_block = 0;
  uint32_t slab_lists = 0;
  uint32_t slab_empty_blocks = 0;  // 0: they are in the lists
  // SlabBlock
  uint32_t slab_block_header = 0;
  uint32_t slab_block_node = 0;
  uint32_t slab_block_free_chunks = 0;
  // BumpContext
  uint32_t bump_size = 0;
  uint32_t bump_blocks = 0;
  // BumpBlock
  uint32_t bump_block_header = 0;
  uint32_t bump_block_node = 0;
  uint32_t bump_block_free = 0;
  uint32_t bump_block_end = 0;

  // Whether each chunk has a MemoryChunk in front (16), not a size and its context.
  bool has_memory_chunks() const { return major >= 16; }
  // Whether the first block of a generation lies behind the context (15), in one block of malloc.
  bool has_generation_keeper() const { return major >= 15; }

  // Not in headers: aset.c, slab.c, memutils_internal.h of the versions above.
  static constexpr unsigned kFreeLists = 11;       // ALLOCSET_NUM_FREELISTS
  static constexpr uint64_t kLeastChunk = 8;       // 1 << ALLOC_MINBITS, of the first list
  static constexpr uint64_t kSetMethods = 3;       // MCTX_ASET_ID
  static constexpr unsigned kSlabLists = 3;        // SLAB_BLOCKLIST_COUNT, since 16
  static constexpr uint64_t kFirstSmall = 1024;    // ALLOCSET_SMALL_INITSIZE
  static constexpr uint64_t kFirstDefault = 8192;  // ALLOCSET_DEFAULT_INITSIZE
};

// None where the version is not known.
const PostgresLayout* postgres_layout(unsigned major);

}  // namespace heapsnap
