// Existing instructions of the target with which its threads make system calls for heapsnap.
//
//   syscall; ret                    in libc, the vdso or the program itself
//   mov $15,%rax; syscall           __restore_rt: rt_sigreturn, by which every handler returns
//
// Nothing is ever written into the target's code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "platform/linux/proc/mapped_files.h"
#include "target/address_space.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct SyscallGadget {
  uint64_t syscall_ret = 0;
  uint64_t restore_rt = 0;

  static constexpr uint64_t kSyscallSize = 2;
  static constexpr uint64_t kRestoreSize = 9;

  // Whether the instructions are in memory now.
  bool is_in(MemoryReader& memory) const;
};

// Offsets in `code` of the two instruction sequences.
std::optional<size_t> find_syscall_ret(std::span<const std::byte> code);
std::optional<size_t> find_restore_rt(std::span<const std::byte> code);

// Searches the executable mappings, libc first. Reads the files, not the target's memory, so that
// no further page of the target becomes resident.
std::optional<SyscallGadget> find_syscall_gadget(const AddressSpace& space,
                                                 const MappedFiles& files, MemoryReader& memory);

}  // namespace heapsnap
