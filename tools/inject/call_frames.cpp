#include "tools/inject/call_frames.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/byte_reader.h"
#include "tracker/cfi.h"

namespace heapsnap {

namespace {

constexpr size_t kMostFrames = 4096;
constexpr size_t kMostSegments = 64;
constexpr uint64_t kLargestTables = 16 << 20;
// DWARF's numbers of the registers, as the kernel orders them in a signal frame.
constexpr std::array<unsigned, 17> kSavedBySignal{8, 9, 10, 11, 12, 13, 14, 15, 5,
                                                  4, 6, 3,  1,  0,  2,  7,  16};
constexpr uint64_t kSavedAt = 40;  // uc_mcontext

}  // namespace

// The segment of an ELF file in which its unwind tables lie, copied, or none.
struct CallFrames::Module {
  AddressRange range;  // of all its mappings
  Address tables;      // where the copy is from
  std::vector<uint8_t> copy{};
  tracker::CfiIndex index{};

  uint64_t to_copy(uint64_t address) const {
    return reinterpret_cast<uint64_t>(copy.data()) + (address - tables.value());
  }
  uint64_t end() const { return reinterpret_cast<uint64_t>(copy.data()) + copy.size(); }
};

struct CallFrames::Frame {
  std::array<uint64_t, tracker::kRegisterCount> registers{};
  bool is_called = false;  // it is at a call, whose return address is its instruction pointer

  uint64_t place() const {
    return registers[tracker::kReturnAddress] - static_cast<uint64_t>(is_called);
  }
};

bool is_signal_return(MemoryReader& memory, uint64_t address) {
  // mov $15, %rax; syscall: debuggers know it by these bytes, so no C library has others.
  constexpr std::array<uint8_t, 9> kCode{0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  const auto code = memory.read_value<std::array<uint8_t, 9>>(Address(address));
  return code && *code == kCode;
}

CallFrames::CallFrames(const AddressSpace& space, MemoryReader& memory)
    : space_(space), memory_(memory) {}

CallFrames::~CallFrames() = default;

const CallFrames::Module* CallFrames::module_of(uint64_t place) {
  for (const auto& module : modules_) {
    if (module->range.contains(Address(place))) return module.get();
  }
  const Mapping* const code = space_.find(Address(place));
  if (code == nullptr || !code->executable || code->is_anonymous()) return nullptr;
  // A file's mappings lie side by side; the one with its header is the first.
  const std::vector<Mapping>& all = space_.mappings();
  auto first = all.begin() + (code - all.data());
  while (first->file_offset != 0 && first != all.begin() && std::prev(first)->path == code->path) {
    --first;
  }
  auto module = std::make_unique<Module>();
  module->range = code->range;
  const Address begin = first->range.begin;
  const auto header = memory_.read_value<Elf64_Ehdr>(begin);
  std::vector<Elf64_Phdr> segments;
  if (first->file_offset == 0 && header && std::memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
      header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= kMostSegments) {
    segments.resize(header->e_phnum);
    if (!memory_.read_exact(begin + header->e_phoff, std::as_writable_bytes(std::span(segments)))) {
      segments.clear();
    }
  }
  const auto find = [&](auto wanted) {
    return std::find_if(segments.begin(), segments.end(), wanted);
  };
  const auto lowest = find([](const Elf64_Phdr& each) { return each.p_type == PT_LOAD; });
  const auto index = find([](const Elf64_Phdr& each) { return each.p_type == PT_GNU_EH_FRAME; });
  const auto tables = find([&](const Elf64_Phdr& each) {
    return each.p_type == PT_LOAD && index != segments.end() && each.p_vaddr <= index->p_vaddr &&
           fits_within(index->p_vaddr - each.p_vaddr, index->p_memsz, each.p_filesz);
  });
  if (lowest != segments.end() && tables != segments.end() && tables->p_filesz <= kLargestTables) {
    const uint64_t bias = begin.value() - (lowest->p_vaddr - lowest->p_offset);
    module->tables = Address(bias + tables->p_vaddr);
    module->copy.resize(tables->p_filesz + sizeof(uint64_t));  // a NUL behind any text in it
    const auto bytes = std::as_writable_bytes(std::span(module->copy).first(tables->p_filesz));
    if (!memory_.read_exact(module->tables, bytes) ||
        !tracker::parse_eh_frame_hdr(module->to_copy(bias + index->p_vaddr), module->end(),
                                     module->index)) {
      module->index.count = 0;
    }
  }
  modules_.push_back(std::move(module));
  return modules_.back().get();
}

std::optional<uint64_t> CallFrames::word_at(uint64_t address, const StackWords& stack) const {
  if (const auto word = stack.at(address)) return word;
  return memory_.read_value<uint64_t>(Address(address));
}

bool CallFrames::leave_signal_frame(Frame& frame, const StackWords& stack) const {
  const uint64_t saved = frame.registers[tracker::kRegisterRsp] + kSavedAt;
  for (size_t i = 0; i < kSavedBySignal.size(); ++i) {
    const auto word = word_at(saved + i * sizeof(uint64_t), stack);
    if (!word) return false;
    frame.registers.at(kSavedBySignal[i]) = *word;
  }
  frame.is_called = false;
  return true;
}

// False where that cannot be told.
bool CallFrames::step_out(Frame& frame, const StackWords& stack) {
  if (is_signal_return(memory_, frame.registers[tracker::kReturnAddress])) {
    return leave_signal_frame(frame, stack);
  }
  const Module* const module = module_of(frame.place());
  if (module == nullptr || module->index.count == 0) return false;
  const uint64_t place = module->to_copy(frame.place());
  const uint64_t number = tracker::cfi_index_find(module->index, place);
  if (number == module->index.count) return false;
  tracker::CfiFunction function{};
  tracker::CfiRow row{};
  if (!tracker::parse_fde(tracker::cfi_index_fde(module->index, number),
                          reinterpret_cast<uint64_t>(module->copy.data()), module->end(),
                          function) ||
      place < function.begin || place >= function.end ||
      !tracker::cfi_row_at(function, place, row) || row.cfa_is_expression ||
      row.cfa_register >= tracker::kReturnAddress) {
    return false;
  }
  const uint64_t caller_stack =
      frame.registers.at(row.cfa_register) + static_cast<uint64_t>(row.cfa_offset);
  if (caller_stack <= frame.registers[tracker::kRegisterRsp]) return false;
  Frame caller = frame;
  for (unsigned i = 0; i < tracker::kRegisterCount; ++i) {
    const auto value = static_cast<uint64_t>(row.value[i]);
    switch (row.rule[i]) {
      case tracker::RegisterRule::kSame: break;
      case tracker::RegisterRule::kUndefined: caller.registers.at(i) = 0; break;
      case tracker::RegisterRule::kOffset: {
        const auto word = word_at(caller_stack + value, stack);
        if (!word) return false;
        caller.registers.at(i) = *word;
        break;
      }
      case tracker::RegisterRule::kValueOffset:
        caller.registers.at(i) = caller_stack + value;
        break;
      default: return false;
    }
  }
  if (row.rule[tracker::kReturnAddress] == tracker::RegisterRule::kSame) return false;
  caller.registers[tracker::kRegisterRsp] = caller_stack;
  caller.is_called = true;
  frame = caller;
  return true;
}

CallFrames::Walk CallFrames::walk(const user_regs_struct& registers, const StackWords& stack) {
  const auto& r = registers;
  Frame frame;
  frame.registers = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                     r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
  Walk walk;
  while (walk.places.size() < kMostFrames) {
    walk.places.push_back(frame.place());
    walk.reached = frame.registers[tracker::kRegisterRsp];
    if (!step_out(frame, stack)) return walk;
    // Of the first function of a thread no caller is told.
    if (frame.registers[tracker::kReturnAddress] == 0) {
      walk.reached = ~uint64_t{0};
      return walk;
    }
  }
  return walk;
}

}  // namespace heapsnap
