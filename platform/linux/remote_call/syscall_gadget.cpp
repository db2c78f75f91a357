#include "platform/linux/remote_call/syscall_gadget.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

namespace heapsnap {

namespace {

constexpr std::array<uint8_t, 3> kSyscallRet{0x0f, 0x05, 0xc3};
constexpr std::array<uint8_t, SyscallGadget::kRestoreSize> kRestoreRt{0x48, 0xc7, 0xc0, 0x0f, 0x00,
                                                                      0x00, 0x00, 0x0f, 0x05};
constexpr size_t kPiece = 256 * 1024;
constexpr uint64_t kMostOfOneMapping = 64 * 1024 * 1024;

template <size_t N>
std::optional<size_t> find_code(std::span<const std::byte> code,
                                const std::array<uint8_t, N>& wanted) {
  const auto found = std::search(code.begin(), code.end(), wanted.begin(), wanted.end(),
                                 [](std::byte a, uint8_t b) { return a == std::byte{b}; });
  if (found == code.end()) return std::nullopt;
  return static_cast<size_t>(found - code.begin());
}

template <size_t N>
bool holds(MemoryReader& memory, uint64_t address, const std::array<uint8_t, N>& wanted) {
  std::array<std::byte, N> bytes;
  return memory.read_exact(Address(address), bytes) && find_code(bytes, wanted) == 0;
}

// Lower ranks are searched first.
int search_rank(const Mapping& mapping) {
  const size_t slash = mapping.path.rfind('/');
  const std::string_view name =
      std::string_view(mapping.path).substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.starts_with("libc.") || name.starts_with("libc-")) return 0;
  if (name == "[vdso]") return 1;
  if (name.starts_with("ld-") || name.starts_with("libpthread")) return 2;
  return 3;
}

void search_mapping(const Mapping& mapping, const MappedFiles& files, MemoryReader& memory,
                    SyscallGadget& gadget) {
  const UniqueFd file = files.open(mapping);
  const bool from_memory = mapping.path == "[vdso]";
  if (!file && !from_memory) return;
  std::vector<std::byte> piece(kPiece);
  const uint64_t end = std::min(mapping.range.size(), kMostOfOneMapping);
  for (uint64_t offset = 0; offset < end; offset += kPiece - kRestoreRt.size()) {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kPiece, end - offset));
    const std::span<std::byte> out(piece.data(), wanted);
    size_t count = 0;
    if (from_memory) {
      count = memory.read(mapping.range.begin + offset, out);
    } else {
      const ssize_t got = ::pread(file.get(), out.data(), out.size(),
                                  static_cast<off_t>(mapping.file_offset + offset));
      count = got > 0 ? static_cast<size_t>(got) : 0;
    }
    const std::span<const std::byte> code(piece.data(), count);
    const uint64_t base = mapping.range.begin.value() + offset;
    if (gadget.syscall_ret == 0) {
      if (const auto at = find_syscall_ret(code)) gadget.syscall_ret = base + *at;
    }
    if (gadget.restore_rt == 0) {
      if (const auto at = find_restore_rt(code)) gadget.restore_rt = base + *at;
    }
    if ((gadget.syscall_ret != 0 && gadget.restore_rt != 0) || count < wanted) return;
  }
}

}  // namespace

std::optional<size_t> find_syscall_ret(std::span<const std::byte> code) {
  return find_code(code, kSyscallRet);
}

std::optional<size_t> find_restore_rt(std::span<const std::byte> code) {
  return find_code(code, kRestoreRt);
}

bool SyscallGadget::is_in(MemoryReader& memory) const {
  return holds(memory, syscall_ret, kSyscallRet) && holds(memory, restore_rt, kRestoreRt);
}

std::optional<SyscallGadget> find_syscall_gadget(const AddressSpace& space,
                                                 const MappedFiles& files, MemoryReader& memory) {
  std::vector<const Mapping*> candidates;
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.executable && mapping.readable && !mapping.writable) candidates.push_back(&mapping);
  }
  // Of two C libraries dlmopen(3) has loaded one, which may be unloaded while a thread is in it.
  // The kernel maps downwards, so the program's own is at the higher address.
  std::stable_sort(candidates.begin(), candidates.end(), [](const Mapping* a, const Mapping* b) {
    const int rank = search_rank(*a);
    if (rank != search_rank(*b)) return rank < search_rank(*b);
    return rank == 0 && a->range.begin > b->range.begin;
  });
  SyscallGadget gadget;
  for (const Mapping* mapping : candidates) {
    search_mapping(*mapping, files, memory, gadget);
    if (gadget.syscall_ret != 0 && gadget.restore_rt != 0) {
      if (gadget.is_in(memory)) return gadget;
      gadget = {};  // the file has changed since it was mapped
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
