#!/usr/bin/env python3
"""Prints python_layouts.inc from the debug information of CPython itself:

    python_layouts.py FILE... > python_layouts.inc

FILE: an interpreter, or the libpython it uses, built with debug information (python3.11-dbgsym, or a build
from source with -g). Needs gdb. The numbers are the same for every build of a version for 64-bit machines
with the default options (without Py_DEBUG, Py_TRACE_REFS): libpython3.11-dev's headers say the same."""

import re
import subprocess
import sys

# Member of PythonLayout: expression for gdb.
FIELDS = {
    "runtime_size": "sizeof(_PyRuntime)",
    "runtime_first_interpreter": "&((_PyRuntimeState*)0)->interpreters.head",
    "interpreter_next": "&((PyInterpreterState*)0)->next",
    "interpreter_runtime": "&((PyInterpreterState*)0)->runtime",
    "arena_size": "sizeof(struct arena_object)",
    "arena_address": "&((struct arena_object*)0)->address",
    "arena_pool_address": "&((struct arena_object*)0)->pool_address",
    "arena_free_pools": "&((struct arena_object*)0)->nfreepools",
    "arena_total_pools": "&((struct arena_object*)0)->ntotalpools",
    "arena_next": "&((struct arena_object*)0)->nextarena",
    "arena_previous": "&((struct arena_object*)0)->prevarena",
    "pool_header": "sizeof(struct pool_header)",
    "pool_count": "&((struct pool_header*)0)->ref",
    "pool_free_block": "&((struct pool_header*)0)->freeblock",
    "pool_arena": "&((struct pool_header*)0)->arenaindex",
    "pool_size_class": "&((struct pool_header*)0)->szidx",
    "pool_next_offset": "&((struct pool_header*)0)->nextoffset",
    "type_size": "sizeof(PyTypeObject)",
    "type_name": "&((PyTypeObject*)0)->tp_name",
    "type_basic_size": "&((PyTypeObject*)0)->tp_basicsize",
    "type_item_size": "&((PyTypeObject*)0)->tp_itemsize",
    "type_flags": "&((PyTypeObject*)0)->tp_flags",
    "type_base": "&((PyTypeObject*)0)->tp_base",
    "heap_type_keys": "&((PyHeapTypeObject*)0)->ht_cached_keys",
    "list_allocated": "&((PyListObject*)0)->allocated",
    "dict_keys": "&((PyDictObject*)0)->ma_keys",
    "dict_values": "&((PyDictObject*)0)->ma_values",
    "keys_header": "sizeof(PyDictKeysObject)",
    "keys_references": "&((PyDictKeysObject*)0)->dk_refcnt",
    "keys_log2_size": "&((PyDictKeysObject*)0)->dk_log2_size",
    "keys_log2_index_bytes": "&((PyDictKeysObject*)0)->dk_log2_index_bytes",
    "keys_kind": "&((PyDictKeysObject*)0)->dk_kind",
    "keys_usable": "&((PyDictKeysObject*)0)->dk_usable",
    "keys_entries": "&((PyDictKeysObject*)0)->dk_nentries",
    "set_mask": "&((PySetObject*)0)->mask",
    "set_table": "&((PySetObject*)0)->table",
    "set_small_table": "&((PySetObject*)0)->smalltable",
    "set_entry": "sizeof(setentry)",
    "text_length": "&((PyASCIIObject*)0)->length",
    "text_state": "&((PyASCIIObject*)0)->state",
    "text_ascii_size": "sizeof(PyASCIIObject)",
    "text_compact_size": "sizeof(PyCompactUnicodeObject)",
    "text_utf8_length": "&((PyCompactUnicodeObject*)0)->utf8_length",
    "text_utf8": "&((PyCompactUnicodeObject*)0)->utf8",
    "bytearray_allocated": "&((PyByteArrayObject*)0)->ob_alloc",
}


def ask(path, expressions):
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load no"]
    for expression in expressions:
        words += ["-ex", f"print (long)({expression})"]
    text = subprocess.run([*words, path], capture_output=True, text=True, check=True).stdout
    values = [int(value) for value in re.findall(r"^\$\d+ = (\d+)$", text, re.MULTILINE)]
    if len(values) != len(expressions):
        sys.exit(f"{path}: gdb finds only {len(values)} of {len(expressions)} in its debug information")
    return values


def main():
    print("// Made by python_layouts.py: do not edit.")
    for path in sys.argv[1:]:
        version = re.search(r"python(\d+)\.(\d+)", path)
        print("{")
        print(f"    .major = {version[1]},\n    .minor = {version[2]},")
        for name, value in zip(FIELDS, ask(path, FIELDS.values())):
            print(f"    .{name} = {value},")
        print("},")


if __name__ == "__main__":
    main()
