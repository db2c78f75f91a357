// The first instructions of a function, moved elsewhere, so that a jump can take their place.
//
//   entry:    push %r12; push %rbp; push %rbx; mov %rdi,%rbx; ...               x86-64
//             └ kept ─┘  └──── displaced: whole instructions, 5 bytes or more ─┘ └─ resume
//   undo:     lea 8(%rsp),%rsp
//   copy:     push %r12; push %rbp; push %rbx; mov %rdi,%rbx; jmp resume
//
// The copy does what the entry did: operands relative to the instruction pointer and jumps lead to
// where they led. Code that cannot be moved (a call, whose return address would be another; a jump
// back into what is displaced) is refused.
//
// The first instruction is kept where what it does can be undone, because others put breakpoints
// there: for a uprobe (perf probe, bpftrace) the kernel executes the instruction of the file and
// goes on behind it, whatever the memory holds; when it ends, the first byte of the file is back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace heapsnap {

inline constexpr size_t kJumpSize = 5;  // jmp rel32

struct DisplacedCode {
  AddressRange displaced;       // behind the first instruction, if that is kept
  AddressRange guarded;         // no jump may lead into it, but to its first byte
  std::vector<std::byte> undo;  // code, at any address: undoes what the kept instruction did
  std::vector<std::byte> copy;  // for the address that was asked for
};

// `code` begins with the function at `entry` and goes on as far as it is known; `copy_at` is where
// the copy is to lie, within 2 GiB of all that the instructions refer to. Nothing when it cannot be
// done.
std::optional<DisplacedCode> displace_code(std::span<const std::byte> code, uint64_t entry,
                                           uint64_t copy_at);

// Whether `code`, which lies at `address`, holds a direct jump or call to the inside of `range`:
// not to its first byte.
bool jumps_into(std::span<const std::byte> code, uint64_t address, const AddressRange& range);

// jmp rel32 from `from` to `to`; nothing when they are too far apart.
std::optional<std::vector<std::byte>> encode_jump(uint64_t from, uint64_t to);

}  // namespace heapsnap
