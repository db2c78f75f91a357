// What the file of a module tells about main_arena and mp_.
//
// Each function here is one strategy of discovery. All addresses are the file's own; they are
// verified only as far as the file itself allows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "elf/elf_image.h"
#include "heap/malloc_layout.h"

namespace heapsnap {

// Symbols of malloc.c in a file that still has them (the module, or its separate debug file).
struct MallocSymbols {
  std::optional<uint64_t> main_arena;
  std::optional<uint64_t> malloc_par;
  std::optional<uint64_t> tcache;  // places in the module's TLS block
  std::optional<uint64_t> thread_arena;
};
MallocSymbols find_malloc_symbols(const ElfImage& image);

// main_arena.next points to main_arena in the initialiser, so a position-independent module has a
// relative relocation (RELA, REL or RELR) at main_arena + offset of next whose addend is
// main_arena; in an ET_EXEC the linker has put the value there itself. Gives every address for
// which one of `layouts` makes that true and the rest of the initialiser is as malloc.c has it:
// attached_threads 1, bins and counters 0.
std::vector<uint64_t> find_self_pointing_arenas(const ElfImage& image,
                                                const std::vector<MallocLayout>& layouts);

// Exported functions take main_arena's address: malloc_trim, malloc_stats, mallinfo2, mallopt,
// free, ... Each that takes the address of a writable variable gives it a vote; where none of them
// does, what they call directly votes for them. Gives the addresses with at least two votes, most
// votes first, at most three.
std::vector<uint64_t> vote_for_arena(const ElfImage& image);

// mp_ by its initialiser: thresholds of 128 KiB, arena_test 8 (2 with 32 bits), n_mmaps_max 65536.
// This works whatever values the running process has set since.
std::vector<uint64_t> find_initial_malloc_pars(const ElfImage& image,
                                               const std::vector<MallocLayout>& layouts);

// For a module of unknown version: those of `layouts` that fit both initialisers, and the messages
// that malloc prints. All of them when none does.
std::vector<MallocLayout> layouts_that_fit(const ElfImage& image,
                                           const std::vector<MallocLayout>& layouts);

// mp_ by mallopt(), which reaches its first five words one by one.
std::optional<uint64_t> find_malloc_par_in_mallopt(const ElfImage& image);

}  // namespace heapsnap
