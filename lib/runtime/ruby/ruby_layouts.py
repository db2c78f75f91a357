#!/usr/bin/env python3
"""Prints ruby_layouts.inc from the debug information of CRuby itself:

    ruby_layouts.py BUILD... > ruby_layouts.inc

BUILD: a folder in which the `configure` of Ruby's source has been run; a few of its objects (OBJECTS)
are compiled there with debug information of all types. Needs gdb, gcc and make. The numbers are
the same for every build of a release for 64-bit machines with the default options: debug information of
distributions says the same."""

import os
import re
import subprocess
import sys

# Where the extension of a class is in its slot, in 3.2, which has no name for the two together.
BEHIND_CLASS = "sizeof(struct RClass) + 0 * sizeof(((struct rb_classext_struct*)0)->iv_ptr)"
# Member of RubyLayout: expressions for gdb, of which the first one that the version knows counts.
FIELDS = {
    "vm_self": ["&((rb_vm_t*)0)->self"],
    "vm_objspace": ["&((rb_vm_t*)0)->objspace", "&((rb_vm_t*)0)->gc.objspace"],
    "vm_shapes": ["&((rb_vm_t*)0)->shape_list"],
    "vm_ractor": ["&((rb_vm_t*)0)->ractor.main_ractor"],
    "ractor_running": ["&((rb_ractor_t*)0)->threads.running_ec"],
    "ractor_main": ["&((rb_ractor_t*)0)->threads.main"],
    "space_flags": ["&((rb_objspace_t*)0)->flags"],
    "space_pages": ["&((rb_objspace_t*)0)->heap_pages.sorted"],
    "space_page_count": ["&((rb_objspace_t*)0)->heap_pages.allocated_pages"],
    "space_pages_data": ["sizeof(((rb_objspace_t*)0)->heap_pages.sorted->meta)"],
    "space_bytes": ["sizeof(rb_objspace_t)"],
    "space_mark_chunk": ["&((rb_objspace_t*)0)->mark_stack.chunk"],
    "space_mark_cache": ["&((rb_objspace_t*)0)->mark_stack.cache"],
    "space_finalizers": ["&((rb_objspace_t*)0)->finalizer_table"],
    "space_object_of_id": ["&((rb_objspace_t*)0)->id_to_obj_tbl"],
    "space_id_of_object": ["&((rb_objspace_t*)0)->obj_to_id_tbl"],
    "mark_chunk_next": ["&((struct stack_chunk*)0)->next"],
    "page_bytes": ["HEAP_PAGE_SIZE"],
    "page_slot_bytes": ["&((struct heap_page*)0)->slot_size"],
    "page_total_slots": ["&((struct heap_page*)0)->total_slots"],
    "page_flags": ["&((struct heap_page*)0)->flags"],
    "page_start": ["&((struct heap_page*)0)->start"],
    "page_mark_bits": ["&((struct heap_page*)0)->mark_bits"],
    "class_super": ["&((struct RClass*)0)->super"],
    "class_extension": ["&((struct RClass*)0)->ptr"],
    "class_variables": ["&((struct RClass_and_rb_classext_t*)0)->classext.iv_ptr",
                        f"{BEHIND_CLASS} + (unsigned long)&((struct rb_classext_struct*)0)->iv_ptr",
                        "&((struct rb_classext_struct*)0)->iv_tbl"],
    "class_methods": ["&((struct rb_classext_struct*)0)->m_tbl", "&((struct RClass*)0)->m_tbl"],
    "class_subclasses": ["&((struct RClass_and_rb_classext_t*)0)->classext.subclasses",
                         f"{BEHIND_CLASS} + (unsigned long)&((struct rb_classext_struct*)0)->subclasses",
                         "&((struct rb_classext_struct*)0)->subclasses"],
    "class_call_caches": ["&((struct RClass_and_rb_classext_t*)0)->classext.cc_tbl",
                          f"{BEHIND_CLASS} + (unsigned long)&((struct rb_classext_struct*)0)->cc_tbl",
                          "&((struct rb_classext_struct*)0)->cc_tbl"],
    "class_path": ["&((struct RClass_and_rb_classext_t*)0)->classext.classpath"],
    "class_attached": ["&((struct RClass_and_rb_classext_t*)0)->classext.as.singleton_class.attached_object"],
    "io_wbuf": ["&((rb_io_t*)0)->wbuf"],
    "io_rbuf": ["&((rb_io_t*)0)->rbuf"],
    "io_cbuf": ["&((rb_io_t*)0)->cbuf"],
    "flag_singleton": ["RUBY_FL_SINGLETON"],
    "flag_shared": ["RUBY_ELTS_SHARED"],
    "struct_length_mask": ["RSTRUCT_EMBED_LEN_MASK"],
    "object_count": ["&((struct RObject*)0)->as.heap.numiv"],
    "hash_table": ["&((struct RHash*)0)->as"],
    "match_extension": ["&((struct RMatch*)0)->rmatch"],
    "shape_bytes": ["sizeof(rb_shape_t)"],
    "shape_capacity": ["&((rb_shape_t*)0)->capacity"],
    "shape_type": ["&((rb_shape_t*)0)->type"],
    "shape_parent": ["&((rb_shape_t*)0)->parent_id"],
    "shape_edge": ["&((rb_shape_t*)0)->edge_name"],
    "shape_type_complex": ["SHAPE_OBJ_TOO_COMPLEX"],
    "tree_next_shape": ["&((rb_shape_tree_t*)0)->next_shape_id",
                        "(unsigned long)&((rb_vm_t*)0)->next_shape_id - (unsigned long)&((rb_vm_t*)0)->shape_list"],
    "transient_bytes": ["sizeof(struct transient_heap)"],
    "transient_using": ["&((struct transient_heap*)0)->using_blocks"],
    "transient_marked": ["&((struct transient_heap*)0)->marked_blocks"],
    "transient_free": ["&((struct transient_heap*)0)->free_blocks"],
    "transient_blocks": ["&((struct transient_heap*)0)->total_blocks"],
    "transient_status": ["&((struct transient_heap*)0)->status"],
    "transient_promoted": ["&((struct transient_heap*)0)->promoted_objects"],
    "transient_arena": ["&((struct transient_heap*)0)->arena"],
    "transient_arena_index": ["&((struct transient_heap*)0)->arena_index"],
    "transient_block_bytes": ["sizeof(struct transient_heap_block)"],
    "transient_header_bytes": ["&((struct transient_heap_block*)0)->buff"],
    "transient_index": ["&((struct transient_heap_block*)0)->info.index"],
    "transient_next": ["&((struct transient_heap_block*)0)->info.next_block"],
    "thread_ec": ["&((rb_thread_t*)0)->ec"],
    "thread_native": ["&((rb_thread_t*)0)->nt"],
    "thread_id": ["&((rb_thread_t*)0)->thread_id", "&((struct rb_native_thread*)0)->thread_id"],
    "thread_root_fiber": ["&((rb_thread_t*)0)->root_fiber"],
    "fiber_ec": ["&((rb_fiber_t*)0)->cont.saved_ec"],
    "ec_stack": ["&((rb_execution_context_t*)0)->vm_stack"],
    "ec_stack_size": ["&((rb_execution_context_t*)0)->vm_stack_size"],
    "ec_frame": ["&((rb_execution_context_t*)0)->cfp"],
    "ec_thread": ["&((rb_execution_context_t*)0)->thread_ptr"],
    "ec_locals": ["&((rb_execution_context_t*)0)->local_storage"],
    "ec_storage": ["&((rb_execution_context_t*)0)->storage"],
    "frame_bytes": ["sizeof(rb_control_frame_t)"],
    "frame_pc": ["&((rb_control_frame_t*)0)->pc"],
    "frame_sp": ["&((rb_control_frame_t*)0)->sp"],
    "frame_iseq": ["&((rb_control_frame_t*)0)->iseq"],
    "frame_self": ["&((rb_control_frame_t*)0)->self"],
    "frame_ep": ["&((rb_control_frame_t*)0)->ep"],
    "frame_finish": ["VM_FRAME_FLAG_FINISH"],
    "iseq_body": ["&((rb_iseq_t*)0)->body"],
    "code_size": ["&((struct rb_iseq_constant_body*)0)->iseq_size"],
    "code_begin": ["&((struct rb_iseq_constant_body*)0)->iseq_encoded"],
    "code_optional": ["&((struct rb_iseq_constant_body*)0)->param.opt_table"],
    "code_path": ["&((struct rb_iseq_constant_body*)0)->location.pathobj"],
    "code_label": ["&((struct rb_iseq_constant_body*)0)->location.label"],
    "code_lines": ["&((struct rb_iseq_constant_body*)0)->insns_info.body"],
    "code_line_count": ["&((struct rb_iseq_constant_body*)0)->insns_info.size"],
    "code_line_index": ["&((struct rb_iseq_constant_body*)0)->insns_info.succ_index_table"],
    "code_locals": ["&((struct rb_iseq_constant_body*)0)->local_table"],
    "code_local_count": ["&((struct rb_iseq_constant_body*)0)->local_table_size"],
    "code_calls": ["(unsigned long)&((struct rb_iseq_constant_body*)0)->call_data + 0 * sizeof(struct rb_callcache)"],
    "code_call_count": ["&((struct rb_iseq_constant_body*)0)->ci_size"],
    "code_constants": ["(unsigned long)&((struct rb_iseq_constant_body*)0)->is_entries + 0 * sizeof(struct iseq_inline_cache_entry)"],
    "line_bytes": ["sizeof(struct iseq_insn_info_entry)"],
    "line_number": ["&((struct iseq_insn_info_entry*)0)->line_no"],
    "line_index_blocks": ["&((struct succ_index_table*)0)->succ_part"],
    "line_index_block_bytes": ["sizeof(struct succ_dict_block)"],
}
# Those of which a version that has no such file has none.
OBJECTS = {"gc.o": "gc.c", "gc/default/default.o": "gc/default/default.c", "transient_heap.o": "transient_heap.c",
           "cont.o": "cont.c", "iseq.o": "iseq.c", "io.o": "io.c"}
REQUIRED = ["vm_self", "vm_objspace", "space_flags", "space_pages", "space_page_count", "page_bytes", "page_total_slots", "page_flags",
            "page_start", "page_mark_bits", "class_super", "class_variables", "class_methods", "class_subclasses", "io_wbuf", "io_rbuf", "io_cbuf", "flag_singleton", "flag_shared", "struct_length_mask", "thread_ec",
            "thread_id", "thread_root_fiber", "fiber_ec", "ec_stack", "ec_frame", "frame_bytes", "iseq_body", "code_locals",
            "line_bytes", "line_index_blocks"]


def compile_objects(build):
    objects = [name for name, source in OBJECTS.items() if os.path.exists(f"{build}/../{source}")]
    for name in objects:
        os.makedirs(os.path.dirname(f"{build}/{name}"), exist_ok=True)
        if os.path.exists(f"{build}/{name}"):
            os.remove(f"{build}/{name}")
    subprocess.run(["make", *objects, "-o", "revision.h", "CFLAGS=-g -O0 -fPIC -fno-eliminate-unused-debug-types"],
                   cwd=build, check=True, stdout=sys.stderr)
    return [f"{build}/{name}" for name in objects]


def ask(objects, expression):
    """None where no object's debug information knows it."""
    for name in objects:
        done = subprocess.run(["gdb", "-nx", "-batch", "-iex", "set auto-load no", "-ex",
                               f"print (unsigned long)({expression})", name], capture_output=True, text=True)
        found = re.search(r"^\$1 = (\d+)$", done.stdout, re.MULTILINE)
        if found:
            return int(found[1])
    return None


def version_of(build):
    def number(path, name):
        with open(f"{build}/../{path}", encoding="utf-8") as file:
            return re.search(rf"^#\s*define {name} (\d+)", file.read(), re.MULTILINE)[1]

    api = "include/ruby/version.h"
    return [number(api, "RUBY_API_VERSION_MAJOR"), number(api, "RUBY_API_VERSION_MINOR"),
            number("version.h", "RUBY_VERSION_TEENY")]


def main():
    print("// Made by ruby_layouts.py: do not edit.")
    for build in sys.argv[1:]:
        version = version_of(build)
        objects = compile_objects(build)
        print("{")
        for name, value in zip(("major", "minor", "patch"), version):
            print(f"    .{name} = {value},")
        for name, expressions in FIELDS.items():
            known = [value for value in (ask(objects, one) for one in expressions) if value is not None]
            if known:
                print(f"    .{name} = {known[0]},")
            elif name in REQUIRED:
                sys.exit(f"{build}: gdb does not find {name} in the debug information")
        print("},")


if __name__ == "__main__":
    main()
