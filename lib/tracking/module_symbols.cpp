#include "tracking/module_symbols.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

#include "elf/unpacked_size.h"
#include "tracking/demangle.h"
#include "tracking/function_name.h"

namespace heapsnap {

namespace {

// Symbols that mark a place for linkers or disassemblers and start no function.
bool is_mark(std::string_view name) {
  constexpr std::array<std::string_view, 4> kMarks = {"etext", "_etext", "__etext",
                                                      "__executable_start"};
  return name.starts_with('$') || name.starts_with('.') ||
         std::find(kMarks.begin(), kMarks.end(), name) != kMarks.end();
}

bool is_thread_start(std::string_view function) {
  constexpr std::array<std::string_view, 5> kNames = {"clone", "__clone", "clone3", "__clone3",
                                                      "start_thread"};
  return std::find(kNames.begin(), kNames.end(), function) != kNames.end();
}

}  // namespace

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

ModuleSymbols::ModuleSymbols(ElfImage module, std::optional<ElfImage> debug_file, std::string label)
    : module_(std::move(module)), debug_file_(std::move(debug_file)), label_(std::move(label)) {
  if (debug_file_) add_functions(debug_file_->symbols(), true);
  add_functions(module_.symbols(), true);
  add_functions(module_.dynamic_symbols(), false);
  // Of several names for one function the one that other programs would use stays.
  const auto key = [](const Function& function) {
    return std::tie(function.begin, function.end, function.is_label, function.is_local);
  };
  std::stable_sort(functions_.begin(), functions_.end(), [&](const Function& a, const Function& b) {
    if (key(a) != key(b)) return key(a) < key(b);
    return a.name.find_first_not_of('_') < b.name.find_first_not_of('_');
  });
  functions_.erase(std::unique(functions_.begin(), functions_.end(),
                               [](const Function& a, const Function& b) {
                                 return a.begin == b.begin && a.end == b.end;
                               }),
                   functions_.end());
}

void ModuleSymbols::add_functions(const std::vector<ElfSymbol>& symbols, bool is_full) {
  for (const ElfSymbol& symbol : symbols) {
    const bool is_label = symbol.type == STT_NOTYPE;
    const bool is_code = is_label || symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC;
    if (!is_code || !symbol.is_defined || symbol.name.empty() || symbol.value == 0) continue;
    if (is_label && (!is_full || is_mark(symbol.name) || !is_code_at(symbol.value))) continue;
    const uint64_t size = symbol.size <= ~symbol.value ? symbol.size : 0;
    functions_.push_back({symbol.value, symbol.value + size, symbol.name, is_full, is_label,
                          symbol.binding == STB_LOCAL});
  }
}

bool ModuleSymbols::is_code_at(uint64_t address) const {
  const ElfSegment* const segment = module_.segment_of(address);
  return segment != nullptr && (segment->flags & PF_X) != 0;
}

const UnwindEntries& ModuleSymbols::unwind_entries() {
  if (!unwind_entries_) unwind_entries_.emplace(module_);
  return *unwind_entries_;
}

SourceLines* ModuleSymbols::lines() {
  if (!std::exchange(has_opened_lines_, true)) {
    const ElfImage* const with_lines =
        debug_file_ && debug_file_->section(".debug_info") != nullptr ? &*debug_file_ : &module_;
    if (with_lines->section(".debug_info") != nullptr &&
        unpacked_size(*with_lines) <= kMostUnpackedBytes) {
      lines_ = SourceLines::open(with_lines->file_bytes());
    }
  }
  return lines_.get();
}

ModuleSymbols::Functions::const_iterator ModuleSymbols::first_behind(uint64_t address) const {
  return std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t wanted, const Function& function) { return wanted < function.begin; });
}

const ModuleSymbols::Function* ModuleSymbols::sized_function_at(uint64_t address) const {
  constexpr int kNested = 8;
  auto at = first_behind(address);
  for (int i = 0; i < kNested && at != functions_.begin(); ++i) {
    --at;
    if (address < at->end) return &*at;
  }
  return nullptr;
}

const ModuleSymbols::Function* ModuleSymbols::function_from(uint64_t begin) const {
  const Function* found = nullptr;
  for (auto at = first_behind(begin); at != functions_.begin() && std::prev(at)->begin == begin;) {
    --at;
    if (found == nullptr || found->is_label || !at->is_label) found = &*at;
  }
  return found;
}

// An assembler function with neither a size nor unwind information reaches to the next symbol or
// unwind entry. Only a table of all functions says where the next one is.
const ModuleSymbols::Function* ModuleSymbols::assembler_function_at(uint64_t address) {
  const auto behind = first_behind(address);
  if (behind == functions_.begin()) return nullptr;
  const Function* const nearest = function_from(std::prev(behind)->begin);
  const bool is_sizeless = nearest->begin == nearest->end;
  const bool is_in_gap = unwind_entries().gap_at(address).contains(nearest->begin);
  return is_sizeless && is_in_gap && nearest->is_listed_in_full ? nearest : nullptr;
}

bool ModuleSymbols::is_entry_code(uint64_t address) {
  // Linkers also gave libraries a meaningless entry point. ld.so, which has no interpreter either,
  // is recognised by what it exports for debuggers.
  const bool is_started = module_.type() == ET_EXEC || module_.has_interpreter() ||
                          module_.find_symbol("_r_debug") != nullptr;
  const uint64_t entry_point = module_.entry();
  if (!is_started || entry_point == 0 || address < entry_point) return false;
  const auto entry = unwind_entries().entry_at(address);
  return (entry ? *entry : unwind_entries().gap_at(address)).contains(entry_point);
}

bool ModuleSymbols::is_outermost(uint64_t address) {
  if (is_entry_code(address)) return true;
  const Function* const function = sized_function_at(address);
  return function != nullptr && is_thread_start(function->name) &&
         (module_.find_symbol("__libc_start_main") != nullptr ||
          module_.find_symbol("pthread_create") != nullptr);
}

void ModuleSymbols::name_without_lines(uint64_t address, CodeFrame& frame) {
  const Function* function = sized_function_at(address);
  std::optional<CodeStretch> entry;
  if (function == nullptr) {
    entry = unwind_entries().entry_at(address);
    function = entry ? function_from(entry->begin) : assembler_function_at(address);
  }
  if (function != nullptr) {
    frame.function = demangled(std::string(function->name).c_str());
    frame.offset = address - function->begin;
  } else if (is_entry_code(address)) {
    frame.function = kEntryPointName;
    frame.offset = address - module_.entry();
  } else if (entry) {
    frame.function = name_of_start(label_, entry->begin);
    frame.offset = address - entry->begin;
  }
}

std::vector<CodeFrame> ModuleSymbols::frames_at(uint64_t address) {
  std::vector<CodeFrame> frames;
  if (lines() != nullptr) frames = lines()->frames_at(address);
  if (!frames.empty() && !frames.back().function.empty()) return frames;
  CodeFrame outermost = frames.empty() ? CodeFrame{} : frames.back();
  name_without_lines(address, outermost);
  if (outermost.function.empty()) return frames;
  if (frames.empty()) frames.emplace_back();
  frames.back() = std::move(outermost);
  return frames;
}

std::string ModuleSymbols::function_at(uint64_t address) {
  const Function* const function = sized_function_at(address);
  // "parse.cold", "parse.part.0": parts of a function, as only lines tell.
  if (function != nullptr && function->is_listed_in_full && !function->is_label &&
      function->name.find('.') == std::string_view::npos) {
    return demangled(std::string(function->name).c_str());
  }
  std::vector<CodeFrame> frames = frames_at(address);
  return frames.empty() ? std::string() : std::move(frames.back().function);
}

uint64_t ModuleSymbols::begin_of_function(uint64_t address) {
  if (const Function* const function = sized_function_at(address)) return function->begin;
  const auto entry = unwind_entries().entry_at(address);
  return entry ? entry->begin : 0;
}

}  // namespace heapsnap
