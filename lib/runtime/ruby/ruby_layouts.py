#!/usr/bin/env python3
"""Prints ruby_layouts.inc from the debug information of CRuby itself:

    ruby_layouts.py BUILD... > ruby_layouts.inc

BUILD: a folder in which the `configure` of Ruby's source has been run; its gc.o (and, since 3.4, the collector's
own object) is compiled there with debug information of all types. Needs gdb, gcc and make. The numbers are
the same for every build of a release for 64-bit machines with the default options: debug information of
distributions says the same."""

import os
import re
import subprocess
import sys

# Member of RubyLayout: expressions for gdb, of which the first one that the version knows counts.
FIELDS = {
    "vm_self": ["&((rb_vm_t*)0)->self"],
    "vm_objspace": ["&((rb_vm_t*)0)->objspace", "&((rb_vm_t*)0)->gc.objspace"],
    "space_flags": ["&((rb_objspace_t*)0)->flags"],
    "space_pages": ["&((rb_objspace_t*)0)->heap_pages.sorted"],
    "space_page_count": ["&((rb_objspace_t*)0)->heap_pages.allocated_pages"],
    "space_pages_data": ["sizeof(((rb_objspace_t*)0)->heap_pages.sorted->meta)"],
    "page_bytes": ["HEAP_PAGE_SIZE"],
    "page_slot_bytes": ["&((struct heap_page*)0)->slot_size"],
    "page_total_slots": ["&((struct heap_page*)0)->total_slots"],
    "page_flags": ["&((struct heap_page*)0)->flags"],
    "page_start": ["&((struct heap_page*)0)->start"],
    "page_mark_bits": ["&((struct heap_page*)0)->mark_bits"],
    "class_super": ["&((struct RClass*)0)->super"],
    "class_extension": ["&((struct RClass*)0)->ptr"],
    "class_variables": ["&((struct rb_classext_struct*)0)->iv_tbl"],
    "class_path": ["&((struct RClass_and_rb_classext_t*)0)->classext.classpath"],
    "class_attached": ["&((struct RClass_and_rb_classext_t*)0)->classext.as.singleton_class.attached_object"],
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
    "tree_next_shape": ["&((rb_shape_tree_t*)0)->next_shape_id"],
}
REQUIRED = ["vm_self", "vm_objspace", "space_flags", "space_pages", "space_page_count", "page_bytes", "page_total_slots", "page_flags",
            "page_start", "page_mark_bits", "class_super", "flag_singleton", "flag_shared", "struct_length_mask"]


def compile_collector(build):
    objects = ["gc.o"]
    if os.path.exists(f"{build}/../gc/default/default.c"):
        objects.append("gc/default/default.o")
        os.makedirs(f"{build}/gc/default", exist_ok=True)
    for name in objects:
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
        objects = compile_collector(build)
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
