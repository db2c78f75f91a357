// Names roots: the variable, the thread-local variable, the function of the frame, the mapping.
//
// All of it comes from files, after the target has been released:
//
//   variable      .symtab of the module or its debug file, .gnu_debugdata, .dynsym: the object
//                 whose extent holds the word; where there is none, the place is the section
//   thread-local  the same for STT_TLS; then the module's block; or "struct pthread"
//   stack         the function of the frame, by the rules of tracking/module_symbols.h
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "elf/debug_file_search.h"
#include "references/root.h"
#include "references/root_regions.h"
#include "references/stack_frames.h"
#include "target/address_space.h"

namespace heapsnap {

// A word that holds an address in a block.
struct RootWord {
  Address address;
  uint32_t region = 0;  // index into RootRegions::regions
};

// What was learnt of the target while it could be read. All outlive the call.
struct RootContext {
  const RootRegions& roots;
  const LoadedModules& modules;
  const std::vector<ThreadFrames>& stacks;
  const AddressSpace& space;
  Machine machine = Machine::kX86_64;
};

struct NamedRoots {
  std::vector<RootPlace> places;  // each holds at least one of the words
  // For each of `words`, then for each of `registers`: index into `places`. A word's offset in its
  // place is its address less the place's begin; a register's is 0.
  std::vector<uint32_t> place_of;
};

// Files of one module are open at a time.
NamedRoots name_roots(const RootContext& context, std::span<const RootWord> words,
                      std::span<const RegisterWord> registers, const DebugFileSearch& debug_files);

}  // namespace heapsnap
