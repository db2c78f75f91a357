#include "tracking/source_lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <unordered_map>

#include "elf/dwarf_entry.h"
#include "elf/dwarf_strings.h"
#include "tracking/demangle.h"

namespace heapsnap {

namespace {

// DIEs nest as deep as source does; damaged ones may nest without end.
constexpr int kDeepest = 64;

struct End {
  void operator()(Elf* elf) const { elf_end(elf); }
  void operator()(Dwarf* dwarf) const { dwarf_end(dwarf); }
};

struct CodeRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t index = 0;  // of whose code it is

  bool operator<(const CodeRange& other) const { return begin < other.begin; }
};

// The range that holds `address`; the narrowest begin where several do.
const CodeRange* range_of(const std::vector<CodeRange>& sorted, uint64_t address) {
  auto at = std::upper_bound(sorted.begin(), sorted.end(), CodeRange{address, 0, 0});
  constexpr int kOverlaps = 16;
  for (int i = 0; i < kOverlaps && at != sorted.begin(); ++i) {
    --at;
    if (address < at->end) return &*at;
  }
  return nullptr;
}

void append_ranges(Dwarf_Die& die, uint64_t index, std::vector<CodeRange>& to) {
  Dwarf_Addr base = 0, begin = 0, end = 0;
  for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &begin, &end)) > 0;) {
    // A function that the linker dropped begins at 0.
    if (begin != 0 && begin < end) to.push_back({begin, end, index});
  }
}

bool has_code_attributes(Dwarf_Die& die) {
  return dwarf_hasattr(&die, DW_AT_low_pc) != 0 || dwarf_hasattr(&die, DW_AT_ranges) != 0;
}

DwarfEntry entry_of(const Dwarf_Die& die) {
  return DwarfEntry::from_parts(std::bit_cast<DwarfEntry::Parts>(die));
}

const char* text_attribute(const Dwarf_Die& die, unsigned name) {
  const char* const text = entry_of(die).text(name);
  return text == nullptr || *text == '\0' ? nullptr : text;
}

// Where the function is declared: in a class or a namespace, perhaps.
Dwarf_Die declaration_of(const Dwarf_Die& die) {
  DwarfEntry entry = entry_of(die);
  for (int i = 0; i < kDeepest; ++i) {
    const DwarfEntry origin = entry.origin();
    if (!origin) break;
    entry = origin;
  }
  return std::bit_cast<Dwarf_Die>(entry.parts());
}

// The way from sibling to sibling. Damaged files have lists without an end, and such that lie in
// each other, which a recursion would follow in exponential time: so each traversal only goes
// forward, and all together go so far and no further.
class SiblingWalk {
 public:
  // `most_bytes`: of entries that may be walked over.
  explicit SiblingWalk(uint64_t most_bytes) : left_(most_bytes) {}

  bool is_spent() const { return left_ == 0; }
  // A traversal in the order of the file, of which the entries are asked for one by one.
  void begin() { furthest_ = nullptr; }
  bool first_child(Dwarf_Die& parent, Dwarf_Die& child) {
    return dwarf_child(&parent, &child) == 0 && is_ahead(child);
  }
  bool next(Dwarf_Die& die) {
    Dwarf_Die next{};
    const bool is_walked = dwarf_hasattr(&die, DW_AT_sibling) == 0;
    const int result = dwarf_siblingof(&die, &next);
    if (is_walked) {
      // Where a list ends, `next` is there; a list without an end leads through all of its unit.
      constexpr uint64_t kWithoutEnd = 1 << 20;
      const auto from = static_cast<const std::byte*>(die.addr);
      const auto to = static_cast<const std::byte*>(next.addr);
      left_ -= std::min(left_, to > from ? static_cast<uint64_t>(to - from) : kWithoutEnd);
    }
    if (result != 0 || !is_ahead(next)) return false;
    die = next;
    return true;
  }

 private:
  bool is_ahead(const Dwarf_Die& die) {
    if (left_ == 0 || die.addr <= furthest_) return false;
    furthest_ = die.addr;
    return true;
  }

  uint64_t left_;
  const void* furthest_ = nullptr;
};

bool is_without_scopes(int language) {
  return language == DW_LANG_C89 || language == DW_LANG_C || language == DW_LANG_C99 ||
         language == DW_LANG_C11 || language == DW_LANG_Mips_Assembler;
}

// "outer::(anonymous namespace)::" of what the declaration stands in.
std::string scope_prefix(Dwarf_Die declaration, SiblingWalk& walk) {
  Dwarf_Die holder;
  if (dwarf_diecu(&declaration, &holder, nullptr, nullptr) == nullptr) return {};
  if (is_without_scopes(dwarf_srclang(&holder))) return {};
  std::string prefix;
  walk.begin();
  Dwarf_Die next;
  for (int depth = 0; depth < kDeepest && walk.first_child(holder, next); ++depth) {
    // The last one that does not begin behind the declaration.
    Dwarf_Die child = next;
    while (next.addr < declaration.addr && walk.next(next) && next.addr <= declaration.addr) {
      child = next;
    }
    if (walk.is_spent()) return {};  // `child` need not be what holds it
    if (child.addr >= declaration.addr) break;
    const int tag = dwarf_tag(&child);
    const char* const name = text_attribute(child, DW_AT_name);
    if (tag == DW_TAG_namespace) {
      prefix += std::string(name == nullptr ? "(anonymous namespace)" : name) + "::";
    } else if (name != nullptr && (tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
                                   tag == DW_TAG_union_type)) {
      prefix += std::string(name) + "::";
    }
    holder = child;
    walk.begin();
  }
  return prefix;
}

std::string function_name(Dwarf_Die& die, SiblingWalk& walk) {
  const char* mangled = text_attribute(die, DW_AT_linkage_name);
  if (mangled == nullptr) mangled = text_attribute(die, DW_AT_MIPS_linkage_name);
  if (mangled != nullptr) return demangled(mangled);
  // Functions that exist inlined only have no such name.
  const char* const name = text_attribute(die, DW_AT_name);
  return name == nullptr ? std::string() : scope_prefix(declaration_of(die), walk) + name;
}

uint32_t number_attribute(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(&die, name, &attribute) == nullptr || dwarf_formudata(&attribute, &value) != 0 ||
      value > UINT32_MAX) {
    return 0;
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

struct SourceLines::State {
  // In this order: each is used by the one after it until that is closed.
  std::vector<std::byte> copy;
  std::unique_ptr<Elf, End> elf;
  std::unique_ptr<Dwarf, End> dwarf;

  // Each unit's functions are listed once; names and inlined functions are looked for again and
  // again, in parts of a unit.
  static constexpr uint64_t kMostWalks = 256;
  SiblingWalk walk{0};
  std::vector<Dwarf_Die> units;
  std::vector<CodeRange> unit_ranges;
  struct Functions {
    std::vector<Dwarf_Die> dies;
    std::vector<CodeRange> ranges;
  };
  std::map<uint64_t, Functions> functions;          // by unit, when first asked for
  std::unordered_map<uint64_t, std::string> names;  // by offset of the declaration

  bool open(std::span<const std::byte> file) {
    if (elf_version(EV_CURRENT) == EV_NONE) return false;
    elf.reset(elf_memory(writable(file), file.size()));
    if (!elf) return false;
    dwarf.reset(dwarf_begin_elf(elf.get(), DWARF_C_READ, nullptr));
    if (!dwarf || !has_terminated_strings(elf.get())) return false;
    walk = SiblingWalk(kMostWalks * std::max(file.size(), size_t{1} << 20));
    list_units();
    return !unit_ranges.empty();
  }

  // libelf writes to the image (it clears SHF_COMPRESSED once it has decompressed a section). A
  // private mapping takes that by copying the page; anything else is copied whole.
  char* writable(std::span<const std::byte> file) {
    auto* const data = const_cast<std::byte*>(file.data());
    const auto page_size = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    if (reinterpret_cast<uintptr_t>(data) % page_size == 0 &&
        ::mprotect(data, file.size(), PROT_READ | PROT_WRITE) == 0) {
      return reinterpret_cast<char*>(data);
    }
    copy.assign(file.begin(), file.end());
    return reinterpret_cast<char*>(copy.data());
  }

  void list_units() {
    Dwarf_CU* unit = nullptr;
    Dwarf_Half version = 0;
    uint8_t type = 0;
    Dwarf_Die die, split;
    while (dwarf_get_units(dwarf.get(), unit, &unit, &version, &type, &die, &split) == 0) {
      if (type != DW_UT_compile && type != DW_UT_skeleton) continue;
      append_ranges(die, units.size(), unit_ranges);
      const bool is_split = type == DW_UT_skeleton && dwarf_tag(&split) == DW_TAG_compile_unit &&
                            has_terminated_strings(dwarf_getelf(dwarf_cu_getdwarf(split.cu)));
      units.push_back(is_split ? split : die);
    }
    std::sort(unit_ranges.begin(), unit_ranges.end());
  }

  const Functions& functions_of(uint64_t unit) {
    const auto [entry, is_new] = functions.try_emplace(unit);
    if (is_new) {
      walk.begin();
      list_functions(units[unit], entry->second, 0);
      std::sort(entry->second.ranges.begin(), entry->second.ranges.end());
    }
    return entry->second;
  }

  void list_functions(Dwarf_Die& parent, Functions& to, int depth) {
    Dwarf_Die die;
    if (depth == kDeepest || !walk.first_child(parent, die)) return;
    do {
      switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
          if (has_code_attributes(die)) {
            append_ranges(die, to.dies.size(), to.ranges);
            to.dies.push_back(die);
          }
          [[fallthrough]];
        case DW_TAG_namespace:
        case DW_TAG_module:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_lexical_block: list_functions(die, to, depth + 1); break;
        default: break;
      }
    } while (walk.next(die));
  }

  // The inlined functions that hold `address`, outermost first.
  void list_inlined(Dwarf_Die& parent, uint64_t address, std::vector<Dwarf_Die>& to, int depth) {
    Dwarf_Die die;
    if (depth == kDeepest || !walk.first_child(parent, die)) return;
    do {
      const int tag = dwarf_tag(&die);
      if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_lexical_block) continue;
      const bool is_mere_scope = tag == DW_TAG_lexical_block && !has_code_attributes(die);
      if (!is_mere_scope && dwarf_haspc(&die, address) != 1) continue;
      const size_t before = to.size();
      if (tag == DW_TAG_inlined_subroutine) to.push_back(die);
      list_inlined(die, address, to, depth + 1);
      if (!is_mere_scope || to.size() != before) return;
    } while (walk.next(die));
  }

  // A name takes a look at much of its unit, and inlined functions occur again and again.
  const std::string& name_of(Dwarf_Die& die) {
    Dwarf_Die declaration = declaration_of(die);
    const auto [entry, is_new] = names.try_emplace(dwarf_dieoffset(&declaration));
    if (is_new) entry->second = function_name(die, walk);
    return entry->second;
  }

  static std::string file_name(Dwarf_Die& unit, uint32_t index) {
    Dwarf_Files* files = nullptr;
    size_t count = 0;
    if (dwarf_getsrcfiles(&unit, &files, &count) != 0 || index >= count) return {};
    const char* const name = dwarf_filesrc(files, index, nullptr, nullptr);
    return name == nullptr ? std::string() : std::string(name);
  }

  static void set_line(Dwarf_Die& unit, uint64_t address, CodeFrame& frame) {
    Dwarf_Line* const line = dwarf_getsrc_die(&unit, address);
    int number = 0;
    if (line == nullptr || dwarf_lineno(line, &number) != 0) return;
    const char* const name = dwarf_linesrc(line, nullptr, nullptr);
    if (name != nullptr) frame.file = name;
    frame.line = static_cast<uint32_t>(std::max(number, 0));
  }
};

SourceLines::SourceLines(std::unique_ptr<State> state) : state_(std::move(state)) {}
SourceLines::~SourceLines() = default;

std::unique_ptr<SourceLines> SourceLines::open(std::span<const std::byte> file) {
  auto state = std::make_unique<State>();
  if (!state->open(file)) return nullptr;
  return std::unique_ptr<SourceLines>(new SourceLines(std::move(state)));
}

std::vector<CodeFrame> SourceLines::frames_at(uint64_t address) {
  const CodeRange* const unit_range = range_of(state_->unit_ranges, address);
  if (unit_range == nullptr) return {};
  Dwarf_Die& unit = state_->units[unit_range->index];
  const State::Functions& functions = state_->functions_of(unit_range->index);
  const CodeRange* const range = range_of(functions.ranges, address);

  std::vector<Dwarf_Die> chain;
  uint64_t offset = 0;
  if (range != nullptr) {
    Dwarf_Die function = functions.dies[range->index];
    Dwarf_Addr entry = 0;
    if (dwarf_entrypc(&function, &entry) == 0 && entry <= address) offset = address - entry;
    chain.push_back(function);
    state_->walk.begin();
    state_->list_inlined(function, address, chain, 0);
  }
  std::vector<CodeFrame> frames;
  CodeFrame frame;
  State::set_line(unit, address, frame);
  while (!chain.empty()) {
    Dwarf_Die& die = chain.back();
    frame.function = state_->name_of(die);
    frame.is_inlined = chain.size() > 1;
    frame.offset = frame.is_inlined ? 0 : offset;
    frames.push_back(frame);
    frame = CodeFrame{};
    if (frames.back().is_inlined) {
      frame.file = State::file_name(unit, number_attribute(die, DW_AT_call_file));
      frame.line = number_attribute(die, DW_AT_call_line);
    }
    chain.pop_back();
  }
  if (frames.empty()) frames.push_back(frame);  // code that is in no function: assembler
  return frames;
}

}  // namespace heapsnap
