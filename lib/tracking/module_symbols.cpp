#include "tracking/module_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "elf/unpacked_size.h"
#include "tracking/demangle.h"

namespace heapsnap {

bool is_signal_return(const ElfImage& module, uint64_t address) {
  // mov $15, %rax; syscall - the shortest and the 64-bit form of gdb's own list - and
  // mov x8, #139; svc #0.
  constexpr uint8_t kX86[] = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
  constexpr uint8_t kAarch64[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};
  const auto is_here = [&](const auto& code) {
    const auto bytes = module.bytes_at(address, sizeof code);
    return bytes.size() == sizeof code && std::memcmp(bytes.data(), code, sizeof code) == 0;
  };
  switch (module.machine()) {
    case Machine::kX86_64: return is_here(kX86);
    case Machine::kAarch64: return is_here(kAarch64);
    case Machine::kI386: break;
  }
  return false;
}

ModuleSymbols::ModuleSymbols(ElfImage module, std::optional<ElfImage> debug_file)
    : module_(std::move(module)), debug_file_(std::move(debug_file)) {
  const ElfImage* const with_lines =
      debug_file_ && debug_file_->section(".debug_info") != nullptr ? &*debug_file_ : &module_;
  if (with_lines->section(".debug_info") != nullptr &&
      unpacked_size(*with_lines) <= kMostUnpackedBytes) {
    lines_ = SourceLines::open(with_lines->file_bytes());
  }
  if (debug_file_) add_functions(debug_file_->symbols());
  add_functions(module_.symbols());
  add_functions(module_.dynamic_symbols());
  // Of several names for one address the first stays: .symtab before .dynsym.
  std::stable_sort(functions_.begin(), functions_.end(),
                   [](const Function& a, const Function& b) { return a.begin < b.begin; });
  functions_.erase(std::unique(functions_.begin(), functions_.end(),
                               [](const Function& a, const Function& b) {
                                 return a.begin == b.begin && a.end == b.end;
                               }),
                   functions_.end());
}

void ModuleSymbols::add_functions(const std::vector<ElfSymbol>& symbols) {
  for (const ElfSymbol& symbol : symbols) {
    const bool is_code = symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
    if (!is_code || !symbol.is_defined || symbol.name.empty() || symbol.value == 0) continue;
    const uint64_t size = symbol.size <= ~symbol.value ? symbol.size : 0;
    functions_.push_back({symbol.value, symbol.value + size, symbol.name});
  }
}

const ModuleSymbols::Function* ModuleSymbols::function_at(uint64_t address) const {
  auto at = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t wanted, const Function& function) { return wanted < function.begin; });
  // An assembler function without a size reaches to the next one.
  constexpr int kNested = 8;
  const Function* nearest = nullptr;
  for (int i = 0; i < kNested && at != functions_.begin(); ++i) {
    --at;
    if (address < at->end) return &*at;
    if (i == 0 && at->begin == at->end) nearest = &*at;
  }
  return nearest;
}

std::vector<CodeFrame> ModuleSymbols::frames_at(uint64_t address) {
  std::vector<CodeFrame> frames;
  if (lines_) frames = lines_->frames_at(address);
  if (!frames.empty() && !frames.back().function.empty()) return frames;
  const Function* const function = function_at(address);
  if (function == nullptr) return frames;
  if (frames.empty()) frames.emplace_back();
  frames.back().function = demangled(std::string(function->name).c_str());
  frames.back().offset = address - function->begin;
  return frames;
}

}  // namespace heapsnap
