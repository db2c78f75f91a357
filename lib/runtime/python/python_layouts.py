#!/usr/bin/env python3
"""Prints python_layouts.inc from the debug information of CPython itself:

    python_layouts.py FILE... > python_layouts.inc

FILE: an interpreter, or the libpython it uses (named after its version), built with debug information
(python3.11-dbgsym, or a build from source with -g). Since 3.14 also the folder of its headers, named after its version
(/usr/include/python3.14 of libpython3.14-dev): these are compiled. Needs gdb, and for headers gcc. The numbers are the
same for every build of a version for 64-bit machines with the default options (without Py_DEBUG, Py_TRACE_REFS):
libpython3.11-dev's headers say the same."""

import os
import re
import subprocess
import sys
import tempfile

# What is in no debug information, of the versions since that one: obmalloc.c, object.h, pycore_dict.h, longintrepr.h.
CONSTANTS = {
    (3, 9): {"arena_bytes": 256 << 10, "pool_bytes": 4 << 10},
    (3, 10): {"arena_bytes": 1 << 20, "pool_bytes": 16 << 10, "lines": "PythonLineTable::kRanges",
              "stack_top": "PythonLayout::StackTop::kDepth"},
    (3, 11): {"header_flags": 1 << 4, "values": "PythonLayout::Values::kFirst", "has_c_frame": "true", "last_frame_owner": 3,
              "lines": "PythonLineTable::kLocations", "stack_top": "PythonLayout::StackTop::kFromLocals"},
    (3, 12): {"header_flags": 3 << 3, "values": "PythonLayout::Values::kTagged", "long_size_shift": 3},
    (3, 13): {"has_c_frame": "false", "is_obmalloc_elsewhere": "true", "inline_flag": 1 << 2,
              "values": "PythonLayout::Values::kInline"},
    (3, 14): {"stack_top": "PythonLayout::StackTop::kSaved", "stack_tag": 3, "last_frame_owner": 4,
              "has_object_flags": "true"},
}
# Member of PythonLayout: expression for gdb; of some versions only.
ONLY = {
    "frame_back": lambda version: version < (3, 11),
    "keys_size": lambda version: version < (3, 11),
    "keys_log2_size": lambda version: version >= (3, 11),
    "keys_log2_index_bytes": lambda version: version >= (3, 11),
    "keys_kind": lambda version: version >= (3, 11),
    "interpreter_obmalloc": lambda version: version >= (3, 12),
    "obmalloc_arenas": lambda version: version >= (3, 12),
    "obmalloc_arena_count": lambda version: version >= (3, 12),
    "values_embedded": lambda version: version >= (3, 13),
    "values_valid": lambda version: version >= (3, 13),
}
# Members of _Py_DebugOffsets, with which _PyRuntime begins.
DEBUG_OFFSETS = {
    "version": "version",
    "free_threaded": "free_threaded",
    "runtime_size": "runtime_state.size",
    "first_interpreter": "runtime_state.interpreters_head",
    "interpreter_next": "interpreter_state.next",
    "interpreter_threads": "interpreter_state.threads_head",
    "interpreter_lock_held": "interpreter_state.gil_runtime_state_locked",
    "interpreter_lock_holder": "interpreter_state.gil_runtime_state_holder",
    "thread_stack_chunk": "thread_state.datastack_chunk",
    "thread_id": "thread_state.thread_id",
    "thread_frame": "thread_state.current_frame",
    "frame_previous": "interpreter_frame.previous",
    "frame_code": "interpreter_frame.executable",
    "frame_instruction": "interpreter_frame.instr_ptr",
    "frame_owner": "interpreter_frame.owner",
    "frame_locals": "interpreter_frame.localsplus",
    "code_variables": "code_object.localsplusnames",
    "code_name": "code_object.qualname",
    "code_file": "code_object.filename",
    "code_first_line": "code_object.firstlineno",
    "code_lines": "code_object.linetable",
    "code_instructions": "code_object.co_code_adaptive",
    "type_name": "type_object.tp_name",
    "type_flags": "type_object.tp_flags",
    "dict_keys": "dict_object.ma_keys",
    "dict_values": "dict_object.ma_values",
    "text_length": "unicode_object.length",
    "text_state": "unicode_object.state",
    "text_ascii_size": "unicode_object.asciiobject_size",
}
# Where an interpreter keeps what it does not own: objects for reuse, and what it remembers.
FREE = "((PyInterpreterState*)0)->"


# Since 3.14: lists of free ones, of which several lie one behind the other (struct _Py_freelists).
CHAINS = (("numbers", "floats", 2), ("containers", "tuples", 24), ("keys", "dictkeys", 1), ("slices", "slices", 1),
          ("ranges", "ranges", 2), ("contexts", "contexts", 4), ("functions", "pycfunctionobject", 3))


def free_array(items, count):
    return [f"&{FREE}{items}", f"sizeof({FREE}{items}) / sizeof(void*)", f"&{FREE}{count}"]


def free_objects(version):
    if version < (3, 10):
        return {}  # variables of C files, whose places differ between builds
    if version >= (3, 14):
        lists = f"{FREE}object_state.freelists."
        return {f"chained_{name}": [f"&{lists}{first}", str(count)] for name, first, count in CHAINS} | memories(version)
    if version >= (3, 13):
        lists = "object_state.freelists"
        names = {"lists": "lists", "dicts": "dicts", "keys": "dictkeys", "values": "async_gens", "sends": "async_gen_asends"}
        found = {f"free_{name}": free_array(f"{lists}.{one}.items", f"{lists}.{one}.numfree") for name, one in names.items()}
        tuples, slices = f"{lists}.tuples.items", f"{lists}.slices.slice_cache"
    else:
        found = {
            "free_lists": free_array("list.free_list", "list.numfree"),
            "free_dicts": free_array("dict_state.free_list", "dict_state.numfree"),
            "free_keys": free_array("dict_state.keys_free_list", "dict_state.keys_numfree"),
            "free_values": free_array("async_gen.value_freelist", "async_gen.value_numfree"),
            "free_sends": free_array("async_gen.asend_freelist", "async_gen.asend_numfree"),
        }
        tuples, slices = "tuple.free_list", "slice_cache"
    # In 3.10, the first one is the tuple of no items, which is no list.
    others = 1 if version < (3, 11) else 0
    found["free_tuples"] = [f"&{FREE}{tuples}[{others}]", f"sizeof({FREE}{tuples}) / sizeof(void*) - {others}",
                            "&((PyTupleObject*)0)->ob_item"]
    found["free_slices"] = [f"&{FREE}{slices}", "1", "0"]
    if version < (3, 11):
        found["free_frames"] = [f"&{FREE}frame.free_list", "1", "&((PyFrameObject*)0)->f_back"]
    return found | memories(version)


def memories(version):
    """What an interpreter remembers without owning it, and the memory of its threads' frames."""
    cache = "type_cache" if version < (3, 12) else "types.type_cache"
    found = {"type_cache": [f"&{FREE}{cache}", f"sizeof({FREE}{cache})"]}
    if version >= (3, 13):
        functions = "func_state.func_version_cache"
        found["function_cache"] = [f"&{FREE}{functions}", f"sizeof({FREE}{functions})"]
    if version < (3, 11):
        return found
    return found | {
        "thread_stack_chunk": "&((PyThreadState*)0)->datastack_chunk",
        "thread_stack_top": "&((PyThreadState*)0)->datastack_top",
        "chunk_previous": "&((_PyStackChunk*)0)->previous",
        "chunk_size": "&((_PyStackChunk*)0)->size",
        "chunk_top": "&((_PyStackChunk*)0)->top",
        "chunk_data": "&((_PyStackChunk*)0)->data",
    }


def frames(version):
    """Calls of functions, and what each of a function has in common."""
    threads = "tstate_head" if version < (3, 11) else "threads.head"
    innermost = "frame" if version < (3, 11) else "cframe" if version < (3, 13) else "current_frame"
    code = "&((PyCodeObject*)0)->"
    found = {
        "interpreter_threads": f"&{FREE}{threads}",
        "thread_next": "&((PyThreadState*)0)->next",
        "thread_id": "&((PyThreadState*)0)->thread_id",
        "thread_frame": f"&((PyThreadState*)0)->{innermost}",
        "code_stack_size": f"{code}co_stacksize",
        "code_file": f"{code}co_filename",
        "code_first_line": f"{code}co_firstlineno",
        "code_lines": f"{code}{'co_lnotab' if version < (3, 10) else 'co_linetable'}",
    }
    if version < (3, 11):
        return found | {
            "frame_previous": "&((PyFrameObject*)0)->f_back",
            "frame_code": "&((PyFrameObject*)0)->f_code",
            "frame_instruction": "&((PyFrameObject*)0)->f_lasti",
            "frame_stack_top": f"&((PyFrameObject*)0)->{'f_stacktop' if version < (3, 10) else 'f_stackdepth'}",
            "frame_locals": "&((PyFrameObject*)0)->f_localsplus",
            "code_variables": f"{code}co_varnames",
            "code_cells": f"{code}co_cellvars",
            "code_free": f"{code}co_freevars",
            "code_name": f"{code}co_name",
        }
    frame = "&((struct _PyInterpreterFrame*)0)->"
    if version < (3, 13):
        found["c_frame_current"] = "&((_PyCFrame*)0)->current_frame"
    if version < (3, 12):
        found["runtime_thread_key"] = "&((_PyRuntimeState*)0)->gilstate.autoTSSkey"
        found["runtime_current_thread"] = "&((_PyRuntimeState*)0)->gilstate.tstate_current"
        found["frame_entry"] = f"{frame}is_entry"
    elif version < (3, 14):
        found["runtime_thread_key"] = "&((_PyRuntimeState*)0)->autoTSSkey"
        found["interpreter_lock_held"] = f"&{FREE}_gil.locked"
        found["interpreter_lock_holder"] = f"&{FREE}_gil.last_holder"
    return found | {
        "frame_previous": f"{frame}previous",
        "frame_code": f"{frame}{'f_code' if version < (3, 13) else 'f_executable'}",
        "frame_instruction": f"{frame}{'prev_instr' if version < (3, 13) else 'instr_ptr'}",
        "frame_stack_top": f"{frame}{'stacktop' if version < (3, 14) else 'stackpointer'}",
        "frame_owner": f"{frame}owner",
        "frame_locals": f"{frame}localsplus",
        "generator_frame": "&((PyGenObject*)0)->gi_iframe",
        "generator_state": "&((PyGenObject*)0)->gi_frame_state",
        "frame_object_data": "&((PyFrameObject*)0)->_f_frame_data",
        "frame_object_frame": "&((PyFrameObject*)0)->f_frame",
        "code_variables": f"{code}co_localsplusnames",
        "code_name": f"{code}co_qualname",
        "code_instructions": f"{code}co_code_adaptive",
        "code_first_traceable": f"{code}_co_firsttraceable",
    }


ONLY |= {f"debug_{name}": lambda version: version >= (3, 13) for name in DEBUG_OFFSETS}
# Where the tracker reads the frames that run: it does not know the tagged ones of 3.14.
ONLY |= {f"debug_interpreter_lock_{name}": lambda version: version == (3, 13) for name in ("held", "holder")}
FIELDS = {
    "runtime_size": "sizeof(_PyRuntime)",
    "runtime_first_interpreter": "&((_PyRuntimeState*)0)->interpreters.head",
    "interpreter_next": "&((PyInterpreterState*)0)->next",
    "interpreter_runtime": "&((PyInterpreterState*)0)->runtime",
    "interpreter_obmalloc": "&((PyInterpreterState*)0)->obmalloc",
    "obmalloc_arenas": "&((struct _obmalloc_state*)0)->mgmt.arenas",
    "obmalloc_arena_count": "&((struct _obmalloc_state*)0)->mgmt.maxarenas",
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
    "frame_back": "&((PyFrameObject*)0)->f_back",
    "heap_type_keys": "&((PyHeapTypeObject*)0)->ht_cached_keys",
    "list_allocated": "&((PyListObject*)0)->allocated",
    "dict_keys": "&((PyDictObject*)0)->ma_keys",
    "dict_values": "&((PyDictObject*)0)->ma_values",
    "keys_header": "sizeof(PyDictKeysObject)",
    "keys_references": "&((PyDictKeysObject*)0)->dk_refcnt",
    "keys_size": "&((PyDictKeysObject*)0)->dk_size",
    "keys_log2_size": "&((PyDictKeysObject*)0)->dk_log2_size",
    "keys_log2_index_bytes": "&((PyDictKeysObject*)0)->dk_log2_index_bytes",
    "keys_kind": "&((PyDictKeysObject*)0)->dk_kind",
    "keys_usable": "&((PyDictKeysObject*)0)->dk_usable",
    "keys_entries": "&((PyDictKeysObject*)0)->dk_nentries",
    "values_embedded": "&((struct _dictvalues*)0)->embedded",
    "values_valid": "&((struct _dictvalues*)0)->valid",
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
    "tuple_items": "&((PyTupleObject*)0)->ob_item",
    "bytearray_allocated": "&((PyByteArrayObject*)0)->ob_alloc",
    **{f"debug_{name}": f"&((struct _Py_DebugOffsets*)0)->{member}" for name, member in DEBUG_OFFSETS.items()},
}


# In the order in which they are declared, as an initializer needs them.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_layout.h"), encoding="utf-8") as header:
    MEMBERS = re.findall(r"^  (?:unsigned|uint\d+_t|bool|Values|FreeArray|FreeList|FreeChain|Cache|PythonLineTable|StackTop) (\w+) = ", header.read(), re.MULTILINE)


# What the headers of a version declare, with a variable as the program has it.
HEADERS = """#define Py_BUILD_CORE 1
#include <Python.h>
#include "pycore_runtime.h"
#include "pycore_runtime_structs.h"
#include "pycore_interp_structs.h"
#include "pycore_obmalloc.h"
#include "pycore_dict.h"
#include "pycore_frame.h"
#include "pycore_interpframe.h"
#include "pycore_genobject.h"
#include "pycore_debug_offsets.h"
_PyRuntimeState _PyRuntime;
"""


def compiled(headers, folder):
    """An object file with the debug information of all types that the headers declare."""
    with open(f"{folder}/headers.c", "w", encoding="utf-8") as source:
        source.write(HEADERS)
    path = f"{folder}/{os.path.basename(os.path.normpath(headers))}"
    subprocess.run(["gcc", "-g", "-c", "-fno-eliminate-unused-debug-types", f"-I{headers}", f"-I{headers}/internal",
                    f"-I{headers}/..", source.name, "-o", path], check=True)
    return path


def ask(path, expressions):
    words = ["gdb", "-nx", "-batch", "-iex", "set auto-load no"]
    for expression in expressions:
        words += ["-ex", f"print (long)({expression})"]
    text = subprocess.run([*words, path], capture_output=True, text=True, check=True).stdout
    values = [int(value) for value in re.findall(r"^\$\d+ = (\d+)$", text, re.MULTILINE)]
    if len(values) != len(expressions):
        sys.exit(f"{path}: gdb finds only {len(values)} of {len(expressions)} in its debug information")
    return values


def ask_all(path, fields):
    """The value of each expression; of a list of them, an initializer."""
    lists = [one if isinstance(one, list) else [one] for one in fields.values()]
    values = iter(ask(path, [expression for each in lists for expression in each]))
    found = {}
    for name, one in fields.items():
        words = [next(values) for _ in (one if isinstance(one, list) else [one])]
        found[name] = f"{{{', '.join(map(str, words))}}}" if isinstance(one, list) else words[0]
    return found


def main():
    print("// Made by python_layouts.py: do not edit.")
    for path in sys.argv[1:]:
        version = tuple(map(int, re.search(r"python(\d+)\.(\d+)[^/]*$", path).groups()))
        fields = {name: one for name, one in FIELDS.items() if ONLY.get(name, lambda _: True)(version)}
        with tempfile.TemporaryDirectory() as folder:
            built = compiled(path, folder) if os.path.isdir(path) else path
            values = ask_all(built, fields | free_objects(version) | frames(version))
        for since, constants in CONSTANTS.items():
            if since <= version:
                values |= constants
        print("{")
        print(f"    .major = {version[0]},\n    .minor = {version[1]},")
        for name in MEMBERS:
            if name in values:
                print(f"    .{name} = {values[name]},")
        print("},")


if __name__ == "__main__":
    main()
