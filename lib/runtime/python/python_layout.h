// Where CPython's structures keep what: offsets and sizes by version, of 64-bit machines.
#pragma once

#include <cstdint>

#include "tracking/python_lines.h"

namespace heapsnap {

struct PythonLayout {
  unsigned major = 0;
  unsigned minor = 0;
  // _PyRuntime
  uint32_t runtime_size = 0;
  uint32_t runtime_first_interpreter = 0;
  // Since 3.11: by which key each thread has its state, and in 3.11 the one that has the lock
  uint32_t runtime_thread_key = 0;
  uint32_t runtime_current_thread = 0;
  // PyInterpreterState
  uint32_t interpreter_next = 0;
  uint32_t interpreter_runtime = 0;
  // Since 3.12: its allocator, or, if `is_obmalloc_elsewhere`, what leads to that
  uint32_t interpreter_obmalloc = 0;  // 0: there is one for all
  bool is_obmalloc_elsewhere = false;
  // struct _obmalloc_state
  uint32_t obmalloc_arenas = 0;
  uint32_t obmalloc_arena_count = 0;
  // PyInterpreterState
  uint32_t interpreter_threads = 0;
  // Since 3.12: its lock, if it is the only one, or the first
  uint32_t interpreter_lock_held = 0;
  uint32_t interpreter_lock_holder = 0;
  // The same: objects that were freed and are kept for the next of their type. Either an array of
  // which the first ones are in use, by count,
  struct FreeArray {
    uint32_t array = 0;
    uint32_t capacity = 0;  // 0: there is none
    uint32_t count = 0;
  };
  // or the first ones of lists, and where each object has the next one.
  struct FreeList {
    uint32_t first = 0;
    uint32_t lists = 0;  // as many, one behind the other
    uint32_t next = 0;   // 0: there is only one object
  };
  // or, since 3.14, the first words of lists, as many, one behind the other: each with a count
  // behind, and the next object where an object has its count of references.
  struct FreeChain {
    uint32_t first = 0;
    uint32_t lists = 0;
  };
  // What it remembers: of attributes it owns the names, and nothing else.
  struct Cache {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  Cache type_cache = {};      // attributes of types
  Cache function_cache = {};  // functions, by version
  FreeArray free_lists = {};
  FreeArray free_dicts = {};
  FreeArray free_keys = {};
  FreeArray free_values = {};  // of asynchronous generators, as the next ones
  FreeArray free_sends = {};
  FreeList free_tuples = {};
  FreeList free_slices = {};
  FreeList free_frames = {};
  FreeChain chained_numbers = {};     // float, int
  FreeChain chained_containers = {};  // tuples by size, lists, iterators of both, dicts
  FreeChain chained_keys = {};        // of dicts
  FreeChain chained_slices = {};
  FreeChain chained_ranges = {};     // and their iterators
  FreeChain chained_contexts = {};   // and objects of asynchronous generators and futures
  FreeChain chained_functions = {};  // methods
  // PyFrameObject, before 3.11: each function keeps the last one of its frames. 0: none does
  uint32_t frame_back = 0;
  // PyThreadState
  uint32_t thread_next = 0;
  uint32_t thread_id = 0;     // pthread_self()
  uint32_t thread_frame = 0;  // the innermost one, or what leads to it:
  bool has_c_frame = false;   // a _PyCFrame
  uint32_t c_frame_current = 0;
  // Since 3.11: the stack of frames of Python's functions
  uint32_t thread_stack_chunk = 0;
  uint32_t thread_stack_top = 0;
  // _PyStackChunk
  uint32_t chunk_previous = 0;
  uint32_t chunk_size = 0;
  uint32_t chunk_top = 0;  // in words from there on:
  uint32_t chunk_data = 0;
  // PyFrameObject, since 3.11 _PyInterpreterFrame
  uint32_t frame_previous = 0;
  uint32_t frame_code = 0;
  uint32_t frame_instruction = 0;  // the last one: its number, since 3.11 where it is
  enum class StackTop : uint8_t {
    kAddress,     // 3.9; null while its function runs
    kDepth,       // 3.10; as the next one, -1 while it runs
    kFromLocals,  // 3.11 to 3.13; with all variables, -1 also while it has called a function of C
    kSaved,       // since 3.14; as the first one, but what was at the last call while it runs
  };
  StackTop stack_top = StackTop::kAddress;
  uint32_t frame_stack_top = 0;
  uint32_t frame_owner = 0;       // 0: it is an object, before 3.11
  uint32_t last_frame_owner = 0;  // the greatest one that there is
  uint32_t stack_tag = 0;    // bits of values on the stack, of variables, and of the code object
  uint32_t frame_entry = 0;  // 3.11: the outermost one that a loop of the interpreter runs
  uint32_t frame_locals = 0;
  // Since 3.11: where generators have theirs, and PyFrameObject that of a call that has ended, and
  // what leads to it
  uint32_t generator_frame = 0;
  uint32_t generator_state = 0;
  uint32_t frame_object_data = 0;
  uint32_t frame_object_frame = 0;
  // PyCodeObject
  uint32_t code_variables = 0;  // names: since 3.11 of all three
  uint32_t code_cells = 0;
  uint32_t code_free = 0;
  uint32_t code_stack_size = 0;
  uint32_t code_name = 0;
  uint32_t code_file = 0;
  uint32_t code_first_line = 0;
  uint32_t code_lines = 0;
  uint32_t code_instructions = 0;     // since 3.11
  uint32_t code_first_traceable = 0;  // the same
  PythonLineTable lines = PythonLineTable::kAddresses;
  // What an arena and a pool are (ARENA_SIZE, POOL_SIZE of obmalloc.c)
  uint64_t arena_bytes = 0;
  uint64_t pool_bytes = 0;
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
  uint64_t header_flags = 0;  // any of them: two words in front of an instance, and of the
                              // collector's: its values or weak references, and its dict
  uint64_t inline_flag = 0;   // its values are behind it
  // PyHeapTypeObject
  uint32_t heap_type_keys = 0;
  // PyObject: the count of references is the lower half of its word, and there are flags in the
  // upper one
  bool has_object_flags = false;
  // PyListObject
  uint32_t list_allocated = 0;
  // PyDictObject
  uint32_t dict_keys = 0;
  uint32_t dict_values = 0;
  // PyDictKeysObject
  uint32_t keys_header = 0;
  uint32_t keys_references = 0;
  uint32_t keys_size = 0;  // before 3.11; since then, the three below
  uint32_t keys_log2_size = 0;
  uint32_t keys_log2_index_bytes = 0;
  uint32_t keys_kind = 0;
  uint32_t keys_usable = 0;
  uint32_t keys_entries = 0;
  // PyDictValues: where an instance has them, and what is in front
  enum class Values : uint8_t {
    kNone,    // in its dict (before 3.11)
    kFirst,   // behind the first word of the header
    kTagged,  // behind the second one, with the lowest bit set; else that is the dict's
    kInline,  // behind the instance
  };
  Values values = Values::kNone;
  uint32_t values_embedded = 0;  // kInline: a byte that says whether they are behind an instance
  uint32_t values_valid = 0;     // and one that says whether they are in use there
  // PyLongObject: bits of the size that say something else
  uint32_t long_size_shift = 0;
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
  // PyTupleObject: since 3.14 its hash is before its items
  uint32_t tuple_items = 0;
  // PyByteArrayObject
  uint32_t bytearray_allocated = 0;
  // _Py_DebugOffsets, with which _PyRuntime begins: where it says what is above. 0: there is none.
  uint32_t debug_version = 0;
  uint32_t debug_free_threaded = 0;
  uint32_t debug_runtime_size = 0;
  uint32_t debug_first_interpreter = 0;
  uint32_t debug_interpreter_next = 0;
  uint32_t debug_interpreter_threads = 0;
  uint32_t debug_interpreter_lock_held = 0;
  uint32_t debug_interpreter_lock_holder = 0;
  uint32_t debug_thread_stack_chunk = 0;
  uint32_t debug_thread_id = 0;
  uint32_t debug_thread_frame = 0;
  uint32_t debug_frame_previous = 0;
  uint32_t debug_frame_code = 0;
  uint32_t debug_frame_instruction = 0;
  uint32_t debug_frame_owner = 0;
  uint32_t debug_frame_locals = 0;
  uint32_t debug_code_variables = 0;
  uint32_t debug_code_name = 0;
  uint32_t debug_code_file = 0;
  uint32_t debug_code_first_line = 0;
  uint32_t debug_code_lines = 0;
  uint32_t debug_code_instructions = 0;
  uint32_t debug_type_name = 0;
  uint32_t debug_type_flags = 0;
  uint32_t debug_dict_keys = 0;
  uint32_t debug_dict_values = 0;
  uint32_t debug_text_length = 0;
  uint32_t debug_text_state = 0;
  uint32_t debug_text_ascii_size = 0;

  // Whether the tracker can find the calls of a thread.
  bool has_calls() const { return runtime_thread_key != 0; }
  bool is_before_311() const { return major == 3 && minor < 11; }

  // Not in debug information: obmalloc.c, object.h and dictobject.c of the versions above.
  static constexpr uint64_t kLargestPool = 1 << 14;
  static constexpr uint64_t kAlignment = 16;     // of blocks: ALIGNMENT
  static constexpr uint64_t kLargestSlot = 512;  // SMALL_REQUEST_THRESHOLD
  static constexpr unsigned kSizeClasses = 32;
  static constexpr uint64_t kFirstArenas = 16;        // INITIAL_ARENA_OBJECTS
  static constexpr uint64_t kCollectorHeader = 16;    // PyGC_Head
  static constexpr uint64_t kManagedDictHeader = 16;  // values and dict of an instance, before that
};

// None where the version is not known.
const PythonLayout* python_layout(unsigned major, unsigned minor);

}  // namespace heapsnap
