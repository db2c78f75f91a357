// Where CRuby's structures keep what: offsets and sizes by release, of 64-bit machines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapsnap {

struct RubyLayout {
  static constexpr uint32_t kNone = UINT32_MAX;  // the release has no such member

  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  // rb_vm_t
  uint32_t vm_self = 0;
  uint32_t vm_objspace = 0;
  uint32_t vm_shapes = 0;           // in 3.2; 0: a rb_shape_tree_t of their own has its shapes
  uint32_t vm_ractor = kNone;       // the first one
  uint32_t ractor_running = kNone;  // rb_ractor_t: the context that runs
  uint32_t ractor_main = kNone;     // its first thread
  // rb_objspace_t
  uint32_t space_flags = 0;
  uint32_t space_pages = 0;       // pointer to an array of pointers to them
  uint32_t space_page_count = 0;  // in the space, unless the array is a rb_darray's
  uint32_t space_pages_data = 0;  // where in a rb_darray it begins; 0: it is none
  uint32_t space_bytes = 0;
  uint32_t space_mark_chunk = 0;  // what is to be marked: a list of chunks, and of spare ones
  uint32_t space_mark_cache = 0;
  uint32_t space_finalizers = 0;    // these three: pointers to st_tables
  uint32_t space_object_of_id = 0;  // of objects whose object_id was asked for
  uint32_t space_id_of_object = 0;
  uint32_t mark_chunk_next = 0;  // in each, behind its values
  // struct heap_page
  uint32_t page_bytes = 0;           // of the page itself
  uint32_t page_slot_bytes = kNone;  // kNone: all slots have 40 bytes
  uint32_t page_total_slots = 0;
  uint32_t page_flags = 0;
  uint32_t page_start = 0;
  uint32_t page_mark_bits = 0;
  // struct RClass, and rb_classext_t
  uint32_t class_super = 0;
  uint32_t class_extension = kNone;    // pointer to what is in the slot itself otherwise
  uint32_t class_variables = 0;        // in the extension, or in the slot where there is none
  uint32_t class_methods = 0;          // the same
  uint32_t class_subclasses = 0;       // the same
  uint32_t class_call_caches = kNone;  // the same
  uint32_t class_path = kNone;         // in the slot
  uint32_t class_attached = kNone;     // in the slot
  uint32_t io_wbuf = 0;                // in rb_io_t, as the two others
  uint32_t io_rbuf = 0;
  uint32_t io_cbuf = 0;
  // Flags of objects
  uint32_t flag_singleton = 0;
  uint32_t flag_shared = 0;
  uint32_t struct_length_mask = 0;
  // struct RObject, RHash, RMatch
  uint32_t object_count = kNone;     // kNone: the shape says how many there is room for
  uint32_t hash_table = kNone;       // kNone: it is in the slot
  uint32_t match_extension = kNone;  // the same
  // rb_shape_t, rb_shape_tree_t
  uint32_t shape_bytes = kNone;
  uint32_t shape_capacity = kNone;
  uint32_t shape_type = kNone;
  uint32_t shape_parent = kNone;
  uint32_t shape_edge = kNone;
  uint32_t shape_type_complex = kNone;
  uint32_t tree_next_shape = kNone;
  // struct transient_heap, struct transient_heap_block
  uint32_t transient_bytes = kNone;  // of the first one; kNone: there is none
  uint32_t transient_using = 0;
  uint32_t transient_marked = 0;
  uint32_t transient_free = 0;
  uint32_t transient_blocks = 0;
  uint32_t transient_status = 0;
  uint32_t transient_promoted = 0;  // an array of objects
  uint32_t transient_arena = 0;
  uint32_t transient_arena_index = 0;
  uint32_t transient_block_bytes = 0;
  uint32_t transient_header_bytes = 0;
  uint32_t transient_index = 0;
  uint32_t transient_next = 0;
  // rb_thread_t, struct rb_native_thread, rb_fiber_t
  uint32_t thread_ec = 0;
  uint32_t thread_native = kNone;  // kNone: thread_id is in rb_thread_t
  uint32_t thread_id = 0;          // a pthread_t
  uint32_t thread_root_fiber = 0;
  uint32_t fiber_ec = 0;  // in it
  // rb_execution_context_t, rb_control_frame_t, rb_iseq_t
  uint32_t ec_stack = 0;
  uint32_t ec_stack_size = 0;
  uint32_t ec_frame = 0;
  uint32_t ec_thread = 0;
  uint32_t ec_locals = 0;       // Thread.current[...]
  uint32_t ec_storage = kNone;  // Fiber.current.storage; kNone: there is none
  uint32_t frame_bytes = 0;
  uint32_t frame_pc = 0;
  uint32_t frame_sp = 0;
  uint32_t frame_iseq = 0;
  uint32_t frame_self = 0;
  uint32_t frame_ep = 0;
  uint32_t frame_finish = kNone;  // flag of a frame with which a loop of the interpreter ends
  uint32_t iseq_body = 0;
  // struct rb_iseq_constant_body, struct iseq_insn_info_entry, struct succ_index_table
  uint32_t code_size = 0;
  uint32_t code_begin = 0;
  uint32_t code_optional = 0;  // where it begins with so many optional arguments
  uint32_t code_path = 0;
  uint32_t code_label = 0;
  uint32_t code_lines = 0;
  uint32_t code_line_count = 0;
  uint32_t code_line_index = 0;
  uint32_t code_locals = 0;
  uint32_t code_local_count = 0;
  uint32_t code_calls = kNone;  // of them two words each; kNone: more
  uint32_t code_call_count = 0;
  uint32_t code_constants = kNone;  // what it remembers of them; kNone: that is in imemos
  uint32_t line_bytes = 0;
  uint32_t line_number = 0;
  uint32_t line_index_blocks = 0;
  uint32_t line_index_block_bytes = 0;

  // Not in debug information, and the same in all the releases: gc.c, ruby.h, st.c, string.c,
  // id_table.h.
  static constexpr uint64_t kLeastSlot = 40;  // sizeof(RVALUE): what a mark bit stands for
  static constexpr uint64_t kPageHeader = 8;  // struct heap_page_header: its heap_page
  static constexpr uint64_t kArrayHeader = 16;
  static constexpr uint32_t kCollectorMode = 3;  // 0: rests, 1: marks, 2: sweeps
  static constexpr uint32_t kDuringCollection = 1 << 5;
  static constexpr uint32_t kBeforeSweep = 1;  // of heap_page.flags

  bool has_transient_heap() const { return transient_bytes != kNone; }
  // Of what Thread.current[...] has; before, it is a st_table.
  bool has_id_table_of_locals() const { return major >= 3; }
  // Of ObjectSpace::WeakMap; before, it has two tables (ruby_weak_maps.h).
  bool has_pairs_of_weak_maps() const { return major > 3 || (major == 3 && minor >= 3); }
  // Whether the tracker can find the calls of a thread.
  bool has_calls() const { return vm_ractor != kNone && frame_finish != kNone; }
  bool has_shapes() const { return shape_bytes != kNone; }
  // Slots of several sizes came with shapes: a string in one has a length of a word in front, an
  // array one of 7 bits.
  bool has_wide_slots() const { return has_shapes(); }
  uint64_t mark_bytes() const { return (page_bytes / kLeastSlot + 63) / 64 * 8; }
  std::string version() const;
};

// All that are known of a minor version, ascending by patch.
std::vector<const RubyLayout*> ruby_layouts(unsigned major, unsigned minor);
// "2.7, 3.1, ...": of all.
std::string known_ruby_versions();

}  // namespace heapsnap
