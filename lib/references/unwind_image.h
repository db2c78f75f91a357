// What of an ELF file libdwfl gets to unwind by: its headers and its unwind tables, each at its
// place, with nothing between them and without section headers.
//
//   file:    | headers | .text ... | .eh_frame_hdr | .eh_frame | .data ... | .debug_info ... |
//   image:   | headers | 0 0 0 ... | .eh_frame_hdr | .eh_frame |
//
// Of a whole file libdwfl would look for tables in debug information, too: unpack all of that, and
// write to the file's bytes as it does so.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

namespace heapsnap {

struct UnwindImage {
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes;
  size_t size = 0;
};

// Of a file whose tables have no index (PT_GNU_EH_FRAME), the headers only. Empty when memory is
// short. Throws Error{kBadInput} when it is no ELF file.
UnwindImage unwind_image(std::span<const std::byte> file);

}  // namespace heapsnap
