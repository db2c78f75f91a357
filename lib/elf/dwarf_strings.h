// Strings of debug information that end where they should.
//
// libdw up to 0.188 gives a string of .debug_str that nothing ends as it is, and whoever reads it
// reads on behind the section.
#pragma once

struct Elf;

namespace heapsnap {

// Whether each section of strings of this file ends with a string's end. Call it once
// dwarf_begin_elf(3) has unpacked the sections.
bool has_terminated_strings(Elf* elf);

}  // namespace heapsnap
