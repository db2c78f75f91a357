// The page in the target, near its C library, through which the entry points of the allocator lead
// to the tracker's hooks and back.
//
//   header   magic, version, number of slots
//   slot     +0    jmp *hook               the entry point jumps here
//            +16   the displaced code      what the hook calls as the original
//            +112  record: entry point, displaced range, the bytes that the jump replaced
//            +160  undo, jmp to +0         or here, if its first instruction is kept
//
// The records make the page all that is needed to take the hooks off again, by another heapsnap and
// without the file of the C library. The page stays when they are off: a thread may still be on its
// way through it. The next hooks use it again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "platform/linux/inject/code_patch.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct HookTarget {
  std::string name;
  Address entry;
  Address hook;
  Address original_word;
};

struct HookSlot {
  Address entry;
  AddressRange displaced;
  std::vector<std::byte> before;  // at displaced.begin, as many as the jump has
  std::vector<std::byte> jump;
  Address original;  // the displaced code
};

struct HookPage {
  static constexpr size_t kSize = 4096;

  Address begin;
  std::vector<HookSlot> slots;

  // On and off. The frees come first on the way on and last on the way off, so that at no moment a
  // block is recorded whose free would not be seen.
  std::vector<CodePatch> patches_on() const;
  std::vector<CodePatch> patches_off() const;
};

// Lays out the page at `begin`. `code` holds the bytes of the C library's code at `code_begin`: all
// that may jump into the entry points. Fills `bytes`. Throws Error{kUnsupported}, naming the
// entry point, when its first instructions cannot be displaced.
HookPage make_hook_page(Address begin, std::span<const HookTarget> targets,
                        std::span<const std::byte> code, Address code_begin,
                        std::vector<std::byte>& bytes);

// Reads one that is there; nothing when there is none at `begin`.
std::optional<HookPage> read_hook_page(MemoryReader& memory, Address begin);

}  // namespace heapsnap
