#!/usr/bin/env python3
"""Checks that the modules include each other only in the allowed directions.

    layering.py [ROOT]        checks the tree; exit code 1 when a rule is broken
    layering.py --self-test   proves that each rule can fail

The rules, which docs/architecture.md explains:

1. A folder is a module. It may include its own headers, those of the modules that MAY_INCLUDE names
   for it, and those that these may include in turn (so everybody above lib/base may include lib/base).
2. lib/tracker and lib/capi are loaded into other people's processes: nothing but themselves. Of the
   tracker, the two headers that say how its tables lie and how it is called are for everybody who reads
   or loads it from outside (lib/tracking, platform/linux and what may include these).
3. lib/ includes neither platform/, tools/ nor tests/; nothing but tests/ includes tests/.
4. Some modules have parts, subfolders of their own: PARTS says in which order. A part may include what its
   module may, the module's own top, and the parts named for it; the top includes no part.
5. A header includes no third-party header; doctest belongs to tests, Boost to tools/heapsnap, Capstone to
   lib/elf.
6. <sys/ptrace.h>, <sys/wait.h> and paths below /proc belong to platform/linux. (lib/capi and lib/tracker
   look at their own process, and tests may do anything. /proc/self/fd is how linkat(2) names an open
   file, and no look at a process.)
7. An include of our own is written "module/file.h" or "platform/linux/file.h", and the file is there.
   (packaging/ is built against other programs' headers as well.)
8. The DEPENDS of a library's CMakeLists.txt keep to rule 1 too.
9. A class at the top of a header has a name of its own among all that is linked into heapsnap: to the linker,
   two of one name are one.
10. In tests/unit, the CMakeLists.txt beside a *_test.cpp names it: else its tests never run.

Files of more than 500 lines are listed, but are no failure.
"""

import os
import re
import sys
import tempfile

MAY_INCLUDE = {
    "lib/base": [],
    "lib/target": ["lib/base"],
    "lib/elf": ["lib/base", "lib/target"],
    "lib/core": ["lib/target", "lib/elf"],
    "lib/heap": ["lib/target", "lib/elf"],
    "lib/tracking": ["lib/target", "lib/elf"],
    "lib/references": ["lib/target", "lib/elf", "lib/heap", "lib/tracking"],
    "lib/runtime": ["lib/target", "lib/elf", "lib/heap", "lib/references"],
    "lib/snapshot": ["lib/target", "lib/heap", "lib/tracking", "lib/references", "lib/runtime"],
    "lib/store": ["lib/snapshot"],
    "lib/analysis": ["lib/heap", "lib/tracking", "lib/references", "lib/runtime",
                     "lib/snapshot"],
    "lib/report": ["lib/analysis"],
    "lib/redaction": ["lib/analysis"],
    "lib/tracker": [],
    "lib/capi": [],
    "platform/linux": ["lib/target"],
}
# The parts of a module, each with those of them that it may include.
PARTS = {
    "lib/heap": {
        "discovery": [],
        "in_place": [],
        "walk": ["in_place"],
    },
    "platform/linux": {
        "proc": [],
        "self": ["proc"],
        "trace": ["proc", "self"],
        "remote_call": ["proc", "self", "trace"],
        "freeze": ["proc", "self", "trace", "remote_call"],
        "inject": ["proc", "self", "trace", "remote_call", "freeze"],
    },
}
# These may include every module; the last one also itself only.
OPEN_FOLDERS = ["tools", "packaging", "tests"]
TRACKER_INTERFACE = ("lib/tracker/table_layout.h", "lib/tracker/tracker.h")
TRACKER_READERS = ("lib/tracking", "platform/linux")

SOURCE_SUFFIXES = (".h", ".c", ".cpp")
THIRD_PARTY = re.compile(
    r"^(boost/|fmt/|capstone/|elfutils/|protozero/|curl/|toml\+\+/|doctest/|benchmark/|"
    r"(libelf|gelf|dwarf|libdw|zstd|zdict|zlib|xxhash|simdjson|png|lzma|ncurses|curses|nlist)\.h$)")
PROCESS_CONTROL = {"sys/ptrace.h", "sys/wait.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
PROC_PATH = re.compile(r'"/proc/(?!self/fd["/]|PID[ /])')
CLASS_DEFINITION = re.compile(r"^(?:class|struct|enum class) (\w+)\b(?!<)[^;{]*\{", re.MULTILINE)
LOADED_APART = ("lib/tracker", "lib/capi")
LONG_FILE = 500


def allowed_modules(module, table=MAY_INCLUDE):
    """The module itself and all that it may include, directly or through others."""
    reached = {module}
    todo = [module]
    while todo:
        for other in table[todo.pop()]:
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def module_of(path):
    """The module or open folder that a file (path from the root) belongs to; None for other files."""
    for module in MAY_INCLUDE:
        if path.startswith(module + "/"):
            return module
    for folder in OPEN_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    return "lib/?" if path.startswith(("lib/", "platform/")) else None


def part_of(path, module):
    """The part of `module` that a file belongs to; "" for the module's top."""
    folder = os.path.dirname(path)[len(module) + 1:]
    return folder.split("/")[0]


def check_part(module, path, header):
    """What is wrong with a file of `module` including another one; None when nothing is."""
    parts = PARTS.get(module)
    part, owner = part_of(path, module), part_of(header, module)
    if parts is None or owner in ("", part) or owner in parts.get(part, []):
        return None
    return f"{module}/{part} may not include {module}/{owner}".replace("/ may", " may")


def resolve_own(root, including, name, quoted):
    """Path from the root of the own header that an include names; None for a foreign one."""
    for prefix in ("lib/", ""):
        candidate = prefix + name
        if module_of(candidate) and os.path.isfile(os.path.join(root, candidate)):
            return candidate
    if not quoted:
        return None
    beside = os.path.normpath(os.path.join(os.path.dirname(including), name))
    if module_of(including) in OPEN_FOLDERS and os.path.isfile(os.path.join(root, beside)):
        return beside
    return None if module_of(including) == "packaging" else ""


def check_own_include(module, path, header):
    """What is wrong with the file `path` of `module` including `header`; None when nothing is."""
    owner = module_of(header)
    if owner == module:
        return check_part(module, path, header)
    if owner == "tests":
        return "only tests/ may include tests/"
    if module in OPEN_FOLDERS:
        return None
    if header in TRACKER_INTERFACE and any(reader in allowed_modules(module) for reader in TRACKER_READERS):
        return None
    if owner in OPEN_FOLDERS or owner not in allowed_modules(module):
        return f"{module} may not include {owner}"
    return None


def check_foreign_include(path, module, header):
    if module == "tests":
        return None
    if THIRD_PARTY.match(header):
        if header.startswith("doctest/"):
            return "doctest belongs to tests/"
        if header.startswith("boost/") and not path.startswith("tools/heapsnap/"):
            return "Boost belongs to tools/heapsnap"
        if header.startswith("capstone/") and module != "lib/elf":
            return "Capstone belongs to lib/elf"
        if path.endswith(".h"):
            return "a header of ours may not include a third-party header"
    if header in PROCESS_CONTROL and module not in ("platform/linux", *LOADED_APART):
        return f"<{header}> belongs to platform/linux"
    return None


def check_source(root, path, text):
    """Yields (line number, what is wrong) for one source file."""
    module = module_of(path)
    if module == "lib/?":
        yield 1, "this folder has no row in the table of tests/layering.py"
        return
    if module in PARTS and part_of(path, module) not in ("", *PARTS[module]):
        yield 1, "this part has no row in the table of tests/layering.py"
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            quoted, name = match[1] == '"', match[2]
            header = resolve_own(root, path, name, quoted)
            if header is None:
                wrong = check_foreign_include(path, module, name)
            elif header == "":
                wrong = f'"{name}" is no file of ours, seen from lib/ or from the root'
            else:
                wrong = check_own_include(module, path, header)
            if wrong:
                yield number, wrong
        elif PROC_PATH.search(line) and (module.startswith("lib/") or module == "tools"):
            if module not in LOADED_APART and not line.lstrip().startswith("//"):
                yield number, "a path below /proc belongs to platform/linux"


def check_cmake(path, text):
    """The DEPENDS of heapsnap_library() against the same table."""
    module = os.path.dirname(path)
    if module not in MAY_INCLUDE:
        return
    for call in re.finditer(r"heapsnap_library\(([^)]*)\)", text):
        words = call[1].split()
        keyword = None
        for word in words[1:]:
            if word in ("SOURCES", "DEPENDS", "PRIVATE"):
                keyword = word
            elif keyword == "DEPENDS":
                other = "platform/linux" if word == "linux" else "lib/" + word
                if other not in allowed_modules(module):
                    yield 1 + text[:call.start()].count("\n"), f"{module} may not depend on {other}"


def check_class_names(path, text, owners):
    """`owners`: where each class was found so far."""
    if not path.endswith(".h") or module_of(path) in LOADED_APART or not path.startswith(("lib/", "platform/", "tools/")):
        return
    for match in CLASS_DEFINITION.finditer(text):
        owner = owners.setdefault(match[1], path)
        if owner != path:
            yield 1 + text[:match.start()].count("\n"), f"{match[1]} is a class of {owner}, too"


def source_files(root):
    for top in ["lib", "platform"] + OPEN_FOLDERS:
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(SOURCE_SUFFIXES) or name == "CMakeLists.txt":
                    yield os.path.relpath(os.path.join(folder, name), root)


def check_is_built(root, path):
    """Rule 10."""
    if not (path.startswith("tests/unit/") and path.endswith("_test.cpp")):
        return
    folder, name = os.path.split(os.path.join(root, path))
    try:
        with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
            is_named = re.search(rf"(?<![\w/]){re.escape(name)}\b", file.read())
    except FileNotFoundError:
        is_named = None
    if not is_named:
        yield 1, "no CMakeLists.txt beside it names it"


def check_tree(root):
    """(messages of broken rules, messages of long files)."""
    broken, long_files, owners = [], [], {}
    for path in source_files(root):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if path.endswith("CMakeLists.txt"):
            found = check_cmake(path, text)
        else:
            found = [*check_source(root, path, text), *check_class_names(path, text, owners),
                     *check_is_built(root, path)]
            if text.count("\n") > LONG_FILE:
                long_files.append(f"{path}: {text.count(chr(10))} lines, more than {LONG_FILE}")
        broken += [f"{path}:{number}: {wrong}" for number, wrong in found]
    return broken, long_files


# --- self-test ---------------------------------------------------------------------------------------

GOOD_TREE = {
    "lib/base/address.h": "#include <cstdint>\n",
    "lib/target/target.h": '#include "base/address.h"\n',
    "lib/heap/chunk.cpp": '#include "base/address.h"\n#include "target/target.h"\n#include <zstd.h>\n',
    "lib/heap/CMakeLists.txt": "heapsnap_library(heap\n  SOURCES chunk.cpp\n  DEPENDS target elf)\n",
    "lib/tracker/table_layout.h": "#include <cstdint>\n",
    "lib/tracker/hook.cpp": '#include "tracker/table_layout.h"\n',
    "lib/tracking/tables.h": '#include "tracker/table_layout.h"\n',
    "platform/linux/load.cpp": '#include "tracker/table_layout.h"\n',
    "lib/capi/heapsnap.cpp": "#include <sys/wait.h>\n",
    "lib/report/text.cpp": '#include "heap/chunk.h"\n#include <fmt/format.h>\n',
    "lib/heap/chunk.h": "// \"/proc/self\" in a comment\n",
    "platform/linux/stop.cpp": '#include "target/target.h"\n#include <sys/ptrace.h>\nopen("/proc/self/maps");\n',
    "tools/heapsnap/main.cpp": '#include "report/text.h"\n#include <boost/program_options.hpp>\n',
    "lib/report/text.h": "",
    "lib/heap/walk/walk.cpp": '#include "heap/chunk.h"\n#include "heap/in_place/loops.h"\n',
    "lib/heap/in_place/loops.h": "",
    "lib/heap/discovery/find.h": "",
    "lib/snapshot/rows.h": '#include "heap/discovery/find.h"\n',
    "tests/unit/a_test.cpp": '#include <doctest/doctest.h>\n#include "platform/linux/stop.h"\n#include "fake.h"\n',
    "tests/unit/CMakeLists.txt": "heapsnap_unit_test(unit\n  SOURCES\n    a_test.cpp\n    not_b_test.cpp)\n",
    "tests/unit/fake.h": '#include <sys/wait.h>\n',
    "platform/linux/stop.h": "",
    "packaging/postgresql/glue.c": '#include "postgres.h"\n#include "capi/heapsnap.h"\n',
    "lib/capi/heapsnap.h": "",
    "tools/doctor/text.cpp": 'auto text = "/proc/PID/pagemap cannot be opened";\n',
    "lib/snapshot/output.cpp": 'auto path = "/proc/self/fd/" + number;\naccess("/proc/self/fd", X_OK);\n',
}
# One change that breaks a rule, and a part of the message that must come of it.
BAD_CHANGES = [
    ("lib/base/error.h", '#include "heap/chunk.h"\n', "lib/base may not include lib/heap"),
    ("lib/base/error.h", "#include <heap/chunk.h>\n", "lib/base may not include lib/heap"),
    ("lib/heap/chunk.h", '  #  include "report/text.h"\n', "lib/heap may not include lib/report"),
    ("lib/heap/x.cpp", '#include "platform/linux/stop.h"\n', "lib/heap may not include platform/linux"),
    ("lib/report/x.cpp", '#include "tools/heapsnap/command.h"\n', "lib/report may not include tools"),
    ("lib/report/x.cpp", '#include "tests/unit/fake.h"\n', "only tests/ may include tests/"),
    ("tools/heapsnap/x.cpp", '#include "tests/unit/fake.h"\n', "only tests/ may include tests/"),
    ("platform/linux/x.cpp", '#include "heap/chunk.h"\n', "platform/linux may not include lib/heap"),
    ("lib/tracker/x.cpp", '#include "base/address.h"\n', "lib/tracker may not include lib/base"),
    ("lib/tracker/x.cpp", '#include "tracking/call_stack.h"\n', "lib/tracker may not include lib/tracking"),
    ("lib/tracking/x.cpp", '#include "tracker/unwind.h"\n', "lib/tracking may not include lib/tracker"),
    ("lib/heap/x.cpp", '#include "tracker/table_layout.h"\n', "lib/heap may not include lib/tracker"),
    ("lib/capi/x.cpp", '#include "base/address.h"\n', "lib/capi may not include lib/base"),
    ("lib/elf/x.h", "#include <gelf.h>\n", "third-party header"),
    ("lib/elf/x.h", "#include <elfutils/libdw.h>\n", "third-party header"),
    ("lib/report/x.h", "#include <fmt/format.h>\n", "third-party header"),
    ("lib/report/x.cpp", "#include <boost/json.hpp>\n", "Boost belongs to tools/heapsnap"),
    ("lib/report/x.cpp", "#include <doctest/doctest.h>\n", "doctest belongs to tests/"),
    ("lib/heap/x.cpp", "#include <capstone/capstone.h>\n", "Capstone belongs to lib/elf"),
    ("lib/heap/x.cpp", "#include <sys/ptrace.h>\n", "belongs to platform/linux"),
    ("tools/heapsnap/x.cpp", "#include <sys/wait.h>\n", "belongs to platform/linux"),
    ("lib/heap/x.cpp", 'auto f = open("/proc/self/maps");\n', "below /proc"),
    ("tools/heapsnap/x.cpp", 'auto f = open("/proc/self/maps");\n', "below /proc"),
    ("lib/heap/x.cpp", '#include "chunk.h"\n', "is no file of ours"),
    ("lib/heap/x.cpp", '#include "heap/gone.h"\n', "is no file of ours"),
    ("lib/colour/x.cpp", "\n", "has no row in the table"),
    ("lib/heap/attic/x.cpp", "\n", "this part has no row"),
    ("lib/heap/x.cpp", '#include "heap/discovery/find.h"\n', "lib/heap may not include lib/heap/discovery"),
    ("lib/heap/walk/x.cpp", '#include "heap/discovery/find.h"\n', "lib/heap/walk may not include"),
    ("lib/heap/x.h", "class Chunk {\n};\n", "Chunk is a class of lib/base/x.h, too"),
    ("tests/unit/b_test.cpp", "", "no CMakeLists.txt beside it names it"),
    ("lib/base/CMakeLists.txt", "heapsnap_library(base\n SOURCES a.cpp\n DEPENDS heap)\n", "may not depend on lib/heap"),
]


def write_tree(root, tree):
    for path, text in tree.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def self_test():
    failures = []
    headers = {"tools/heapsnap/command.h": "", "lib/tracking/call_stack.h": "", "lib/tracker/unwind.h": "",
               "lib/base/x.h": "struct Chunk {};\nclass Later;\n"}
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {**headers, **GOOD_TREE})
        broken, _ = check_tree(root)
        failures += [f"a clean tree was refused: {message}" for message in broken]
    for path, text, expected in BAD_CHANGES:
        with tempfile.TemporaryDirectory() as root:
            write_tree(root, {**headers, **GOOD_TREE, path: text})
            broken, _ = check_tree(root)
            if not any(message.startswith(path + ":") and expected in message for message in broken):
                failures.append(f"{path} with {text!r} was not refused with '{expected}': {broken}")
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {"lib/base/long.cpp": "\n" * (LONG_FILE + 1)})
        if len(check_tree(root)[1]) != 1:
            failures.append("a long file was not listed")
    try:
        allowed_modules("a", {"a": ["b"], "b": ["a"]})  # a cycle ends
    except RecursionError:
        failures.append("a cycle in the table does not end")
    for failure in failures:
        print(failure)
    print(f"layering self-test: {len(BAD_CHANGES) + 3} cases, {len(failures)} failed")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    broken, long_files = check_tree(root)
    for message in long_files:
        print(f"warning: {message}")
    for message in broken:
        print(message)
    print(f"layering: {len(broken)} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
