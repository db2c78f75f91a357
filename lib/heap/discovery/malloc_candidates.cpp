#include "heap/discovery/malloc_candidates.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "base/byte_reader.h"
#include "elf/disassembler.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestFunction = 64 << 10;
// libc has some 40 KB of initialised variables; those of a static executable are the program's too.
constexpr uint64_t kLargestData = 16 << 20;

bool is_relative(Machine machine, uint32_t type) {
  switch (machine) {
    case Machine::kX86_64: return type == R_X86_64_RELATIVE;
    case Machine::kAarch64: return type == R_AARCH64_RELATIVE;
    case Machine::kI386: return type == R_386_RELATIVE;
  }
  return false;
}

// Whether the file image of `arena` is the initialiser of main_arena. The word at `next` is not
// looked at: with RELA relocations it is 0.
bool is_initial_arena(const ElfImage& image, uint64_t arena, const MallocLayout& layout) {
  const auto& state = layout.state;
  if (!is_writable(image, arena, state.size)) return false;
  const auto bytes = image.bytes_at(arena, state.size);
  if (bytes.size() < state.size) return false;
  for (uint64_t offset = 0; offset + layout.word <= state.size; offset += layout.word) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, layout.word);
    const bool is_one = state.has_attached_threads && offset == state.attached_threads;
    if (offset != state.next && value != (is_one ? 1 : 0)) return false;
  }
  return true;
}

constexpr uint64_t kInitialThreshold = 128 << 10;  // DEFAULT_TRIM_, _TOP_PAD, _MMAP_THRESHOLD

// Whether the file image of `par` is the initialiser of mp_.
bool is_initial_par(const ElfImage& image, uint64_t address, const MallocLayout& layout) {
  constexpr uint32_t kMostMmaps = 65536;                 // DEFAULT_MMAP_MAX
  const uint64_t arena_test = layout.word == 4 ? 2 : 8;  // NARENAS_FROM_NCORES (1)
  const auto& par = layout.par;
  const auto holds = [&](uint64_t offset, unsigned size, uint64_t value) {
    return file_word(image, address + offset, size) == value;
  };
  return holds(0, layout.word, kInitialThreshold) &&
         holds(layout.word, layout.word, kInitialThreshold) &&
         holds(par.mmap_threshold, layout.word, kInitialThreshold) &&
         holds(par.arena_test, layout.word, arena_test) && holds(par.n_mmaps, 4, 0) &&
         holds(par.n_mmaps_max, 4, kMostMmaps) && holds(par.max_n_mmaps, 4, 0) &&
         holds(par.mmapped_mem, layout.word, 0) && holds(par.sbrk_base, layout.word, 0);
}

// Calls `visit(address, value)` for each word of initialised writable data, up to kLargestData.
template <typename Visit>
void for_each_data_word(const ElfImage& image, Visit visit) {
  const unsigned word = word_size(image.machine());
  for (const ElfSegment& segment : image.segments()) {
    if (segment.type != PT_LOAD || (segment.flags & PF_W) == 0) continue;
    const uint64_t begin = (segment.address + word - 1) & ~uint64_t{word - 1};
    const auto bytes = image.bytes_at(begin, std::min(segment.file_size, kLargestData));
    for (uint64_t offset = 0; offset + word <= bytes.size(); offset += word) {
      uint64_t value = 0;
      std::memcpy(&value, bytes.data() + offset, word);
      visit(begin + offset, value);
    }
  }
}

const ElfSymbol* exported_function(const ElfImage& image, std::string_view name) {
  const auto& symbols = image.dynamic_symbols();
  const auto found = std::find_if(symbols.begin(), symbols.end(), [name](const ElfSymbol& symbol) {
    return symbol.is_defined && symbol.name == name &&
           (symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC);
  });
  return found == symbols.end() ? nullptr : &*found;
}

std::vector<Instruction> disassemble_at(const ElfImage& image, uint64_t address, uint64_t size) {
  // i386 code reaches variables relative to _GLOBAL_OFFSET_TABLE_, which DT_PLTGOT names.
  const uint64_t got_base = dynamic_value(image, DT_PLTGOT).value_or(0);
  const auto code = image.bytes_at(address, std::min(size, kLargestFunction));
  return disassemble(image.machine(), code, address, got_base);
}

// Whose code counts in a vote. libc_malloc_debug.so.0 exports wrappers; the functions that they
// call are static and of unknown length.
enum class Reach { kFunctions, kCallees };
constexpr uint64_t kAssumedCallee = 1024;

// Writable variables whose address is taken by the code at `address`, or by what it calls.
std::set<uint64_t> variables_taken(const ElfImage& image, uint64_t address, uint64_t size,
                                   Reach reach) {
  std::set<uint64_t> taken;
  std::set<uint64_t> callees;
  for (const Instruction& instruction : disassemble_at(image, address, size)) {
    if (instruction.is_address_load && is_writable(image, instruction.data_address, 1)) {
      taken.insert(instruction.data_address);
    }
    if (instruction.call_target != 0) callees.insert(instruction.call_target);
  }
  if (reach == Reach::kFunctions) return taken;
  for (const uint64_t callee : callees) {
    taken.merge(variables_taken(image, callee, kAssumedCallee, Reach::kFunctions));
  }
  return taken;
}

std::vector<uint64_t> count_votes(const ElfImage& image, Reach reach) {
  constexpr std::string_view kVoters[] = {
      "malloc_trim", "malloc_stats", "mallinfo2", "mallinfo", "mallopt",        "__libc_mallopt",
      "free",        "realloc",      "calloc",    "malloc",   "__libc_memalign"};
  constexpr size_t kEnoughVotes = 2;
  constexpr size_t kMostCandidates = 3;
  std::map<uint64_t, std::set<uint64_t>> voters_of;  // variable -> functions, aliases once
  for (const std::string_view name : kVoters) {
    const ElfSymbol* function = exported_function(image, name);
    if (function == nullptr) continue;
    for (const uint64_t variable : variables_taken(image, function->value, function->size, reach)) {
      voters_of[variable].insert(function->value);
    }
  }
  std::vector<std::pair<uint64_t, size_t>> votes;
  for (const auto& [variable, voters] : voters_of) {
    if (voters.size() >= kEnoughVotes) votes.emplace_back(variable, voters.size());
  }
  std::stable_sort(votes.begin(), votes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  votes.resize(std::min(votes.size(), kMostCandidates));
  std::vector<uint64_t> candidates;
  for (const auto& vote : votes) candidates.push_back(vote.first);
  return candidates;
}

}  // namespace

MallocSymbols find_malloc_symbols(const ElfImage& image) {
  MallocSymbols found;
  for (const ElfSymbol& symbol : image.symbols()) {
    if (!symbol.is_defined) continue;
    const bool is_variable = symbol.type == STT_OBJECT && symbol.size > 0;
    const bool is_tls = symbol.type == STT_TLS && symbol.size == word_size(image.machine());
    if (is_variable && symbol.name == "main_arena") found.main_arena = symbol.value;
    if (is_variable && symbol.name == "mp_") found.malloc_par = symbol.value;
    if (is_tls && symbol.name == "tcache") found.tcache = symbol.value;
    if (is_tls && symbol.name == "thread_arena") found.thread_arena = symbol.value;
  }
  return found;
}

std::vector<uint64_t> find_self_pointing_arenas(const ElfImage& image,
                                                const std::vector<MallocLayout>& layouts) {
  std::vector<uint64_t> found;
  const auto consider = [&](uint64_t word_address, uint64_t target) {
    for (const MallocLayout& layout : layouts) {
      if (word_address != target + layout.state.next) continue;
      if (!is_initial_arena(image, target, layout)) continue;
      if (std::find(found.begin(), found.end(), target) == found.end()) found.push_back(target);
    }
  };
  if (image.type() == ET_EXEC) {
    for_each_data_word(image, consider);
  } else {
    for (const ElfRelocation& relocation : image.relocations()) {
      if (is_relative(image.machine(), relocation.type)) {
        consider(relocation.offset, relocation.addend);
      }
    }
  }
  return found;
}

std::vector<uint64_t> vote_for_arena(const ElfImage& image) {
  const auto candidates = count_votes(image, Reach::kFunctions);
  return candidates.empty() ? count_votes(image, Reach::kCallees) : candidates;
}

std::vector<uint64_t> find_initial_malloc_pars(const ElfImage& image,
                                               const std::vector<MallocLayout>& layouts) {
  std::vector<uint64_t> found;
  for_each_data_word(image, [&](uint64_t address, uint64_t value) {
    if (value == kInitialThreshold &&
        std::any_of(layouts.begin(), layouts.end(), [&](const MallocLayout& layout) {
          return is_initial_par(image, address, layout);
        })) {
      found.push_back(address);
    }
  });
  return found;
}

std::vector<MallocLayout> layouts_that_fit(const ElfImage& image,
                                           const std::vector<MallocLayout>& layouts) {
  // Came with safe-linking (a1a486d70e, 2.32).
  const bool has_safe_linking = has_constant(image, "malloc(): unaligned tcache chunk detected");
  std::vector<MallocLayout> fitting;
  for (const MallocLayout& layout : layouts) {
    if (layout.safe_linking == has_safe_linking &&
        !find_self_pointing_arenas(image, {layout}).empty() &&
        !find_initial_malloc_pars(image, {layout}).empty()) {
      fitting.push_back(layout);
    }
  }
  return fitting.empty() ? layouts : fitting;
}

std::optional<uint64_t> find_malloc_par_in_mallopt(const ElfImage& image) {
  constexpr uint64_t kWordsSet = 5;  // trim_threshold, top_pad, mmap_threshold, arena_test, _max
  const ElfSymbol* mallopt = exported_function(image, "mallopt");
  if (mallopt == nullptr) return std::nullopt;
  const unsigned word = word_size(image.machine());
  std::set<uint64_t> variables;
  for (const Instruction& instruction : disassemble_at(image, mallopt->value, mallopt->size)) {
    if (is_writable(image, instruction.data_address, word)) {
      variables.insert(instruction.data_address);
    }
  }
  for (const uint64_t base : variables) {
    uint64_t set = 1;
    while (set < kWordsSet && variables.contains(base + set * word)) ++set;
    if (set == kWordsSet) return base;
  }
  return std::nullopt;
}

}  // namespace heapsnap
