// Where CPython's structures keep what: offsets and sizes by version, of 64-bit machines.
#pragma once

#include <cstdint>

namespace heapsnap {

struct PythonLayout {
  unsigned major = 0;
  unsigned minor = 0;
  // _PyRuntime
  uint32_t runtime_size = 0;
  uint32_t runtime_first_interpreter = 0;
  // PyInterpreterState
  uint32_t interpreter_next = 0;
  uint32_t interpreter_runtime = 0;
  // struct arena_object
  uint32_t arena_size = 0;
  uint32_t arena_address = 0;
  uint32_t arena_pool_address = 0;
  uint32_t arena_free_pools = 0;
  uint32_t arena_total_pools = 0;
  uint32_t arena_next = 0;
  uint32_t arena_previous = 0;
  // struct pool_header
  uint32_t pool_header = 0;
  uint32_t pool_count = 0;
  uint32_t pool_free_block = 0;
  uint32_t pool_arena = 0;
  uint32_t pool_size_class = 0;
  uint32_t pool_next_offset = 0;
  // PyTypeObject
  uint32_t type_size = 0;
  uint32_t type_name = 0;
  uint32_t type_basic_size = 0;
  uint32_t type_item_size = 0;
  uint32_t type_flags = 0;
  uint32_t type_base = 0;
  // PyHeapTypeObject
  uint32_t heap_type_keys = 0;
  // PyListObject
  uint32_t list_allocated = 0;
  // PyDictObject
  uint32_t dict_keys = 0;
  uint32_t dict_values = 0;
  // PyDictKeysObject
  uint32_t keys_header = 0;
  uint32_t keys_references = 0;
  uint32_t keys_log2_size = 0;
  uint32_t keys_log2_index_bytes = 0;
  uint32_t keys_kind = 0;
  uint32_t keys_usable = 0;
  uint32_t keys_entries = 0;
  // PySetObject
  uint32_t set_mask = 0;
  uint32_t set_table = 0;
  uint32_t set_small_table = 0;
  uint32_t set_entry = 0;
  // PyASCIIObject, PyCompactUnicodeObject
  uint32_t text_length = 0;
  uint32_t text_state = 0;
  uint32_t text_ascii_size = 0;
  uint32_t text_compact_size = 0;
  uint32_t text_utf8_length = 0;
  uint32_t text_utf8 = 0;
  // PyByteArrayObject
  uint32_t bytearray_allocated = 0;

  // Not in debug information: obmalloc.c, object.h and dictobject.c of the versions above.
  static constexpr uint64_t kArenaBytes = 1 << 20;  // ARENA_SIZE
  static constexpr uint64_t kPoolBytes = 1 << 14;   // POOL_SIZE
  static constexpr uint64_t kAlignment = 16;        // of blocks: ALIGNMENT
  static constexpr uint64_t kLargestSlot = 512;     // SMALL_REQUEST_THRESHOLD
  static constexpr unsigned kSizeClasses = 32;
  static constexpr uint64_t kFirstArenas = 16;        // INITIAL_ARENA_OBJECTS
  static constexpr uint64_t kCollectorHeader = 16;    // PyGC_Head
  static constexpr uint64_t kManagedDictHeader = 16;  // values and dict of an instance, before that
};

// None where the version is not known.
const PythonLayout* python_layout(unsigned major, unsigned minor);

}  // namespace heapsnap
