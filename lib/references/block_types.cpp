#include "references/block_types.h"

#include <elf.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace heapsnap {

namespace {

// Few, as this may be asked block by block.
constexpr size_t kCachedPages = 64;

// A vtable by its symbol: what an object begins with points into its extent.
struct VtableSymbol {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string_view name;
};

std::vector<VtableSymbol> vtable_symbols(const ElfImage& module, const ElfImage* debug_file) {
  std::vector<VtableSymbol> found;
  const auto add = [&found](const std::vector<ElfSymbol>& symbols) {
    for (const ElfSymbol& symbol : symbols) {
      if (!symbol.is_defined || symbol.type != STT_OBJECT || !symbol.name.starts_with("_ZTV") ||
          symbol.size > ~symbol.value) {
        continue;
      }
      found.push_back({symbol.value, symbol.value + symbol.size, symbol.name});
    }
  };
  if (debug_file != nullptr) add(debug_file->symbols());
  add(module.symbols());
  add(module.dynamic_symbols());
  std::sort(found.begin(), found.end(), [](const VtableSymbol& a, const VtableSymbol& b) {
    return std::tie(a.begin, a.name) < std::tie(b.begin, b.name);
  });
  return found;
}

std::string class_at(const std::vector<VtableSymbol>& symbols, uint64_t address, unsigned word) {
  auto at = std::upper_bound(
      symbols.begin(), symbols.end(), address,
      [](uint64_t wanted, const VtableSymbol& symbol) { return wanted < symbol.begin; });
  if (at == symbols.begin()) return {};
  --at;
  const bool is_inside = address - at->begin >= uint64_t{2} * word && address < at->end;
  return is_inside ? class_of_vtable_symbol(at->name) : std::string();
}

// struct _IO_FILE_plus: the members of FILE, then a pointer to functions in libc's constants,
// behind two words that are 0 (libio/libioP.h, struct _IO_jump_t).
class FileStructures {
 public:
  FileStructures(Target& target, const LoadedModules& modules)
      : cache_(target.memory(), kCachedPages),
        modules_(modules),
        space_(target.address_space()),
        word_(word_size(target.process().machine)) {}

  bool is_file(const BlockWord& block) {
    const uint64_t jump_table_at = word_ == 8 ? 0xd8 : 0x94;
    if (!may_begin_structure(block.first_word) || block.usable < jump_table_at + word_) {
      return false;
    }
    const auto table = cache_.word(block.block + jump_table_at, word_);
    if (!table) return false;
    const Address functions(*table);
    if (!functions.is_aligned(word_) || modules_.find(functions) == LoadedModules::kNone) {
      return false;
    }
    // Two that are unused, then __finish, __overflow, __underflow, __uflow ...
    for (unsigned i = 0; i < 6; ++i) {
      const auto value = cache_.word(functions + uint64_t{i} * word_, word_);
      if (!value || (i < 2 ? *value != 0 : !is_code(Address(*value)))) return false;
    }
    module_ = modules_.find(functions);
    return true;
  }
  // Of the last one that was recognized.
  const std::string& module_path() const { return modules_[module_].path(); }

 private:
  bool is_code(Address address) const {
    const Mapping* const mapping = space_.find(address);
    return mapping != nullptr && mapping->executable;
  }

  PageCache cache_;
  const LoadedModules& modules_;
  const AddressSpace& space_;
  unsigned word_;
  uint32_t module_ = 0;
};

}  // namespace

TypeNumber BlockTypeList::add(BlockType type) {
  const auto [entry, is_new] = number_of_.try_emplace(
      {type.name, type.module, type.builtin, type.part}, static_cast<TypeNumber>(types_.size()));
  if (is_new) {
    types_.push_back(std::move(type));
  } else if (!type.is_exact) {
    types_[entry->second].is_exact = false;
  }
  return entry->second;
}

std::vector<AddressRange> vtable_ranges(const LoadedModules& modules, const AddressSpace& space) {
  std::vector<AddressRange> ranges;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    const LoadedModule& module = modules[i];
    for (const ElfSegment& segment : module.image().segments()) {
      if (segment.type != PT_LOAD || segment.file_size == 0) continue;
      const AddressRange whole = range_in_memory(module.bias, segment.address,
                                                 std::min(segment.file_size, segment.memory_size));
      const auto& mappings = space.mappings();
      auto next = std::partition_point(
          mappings.begin(), mappings.end(),
          [&whole](const Mapping& mapping) { return mapping.range.end <= whole.begin; });
      for (; next != mappings.end() && next->range.begin < whole.end; ++next) {
        // Linkers that separate no code have constants beside it.
        if (!next->readable) continue;
        ranges.push_back(
            {std::max(whole.begin, next->range.begin), std::min(whole.end, next->range.end)});
      }
    }
  }
  std::sort(ranges.begin(), ranges.end());
  std::vector<AddressRange> apart;
  for (const AddressRange& range : ranges) {
    if (!apart.empty() && range.begin <= apart.back().end) {
      apart.back().end = std::max(apart.back().end, range.end);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

VtableFinder::VtableFinder(Target& target, const LoadedModules& modules, BlockTypeList& types)
    : cache_(target.memory()),
      names_(cache_, modules, target.address_space(), target.process().machine),
      modules_(modules),
      types_(types) {}

VtableFinder::Answer VtableFinder::look_at(uint64_t first_word) {
  ClassNames::Answer answer = names_.look_at(Address(first_word));
  switch (answer.verdict) {
    case ClassNames::Verdict::kNone: break;
    case ClassNames::Verdict::kWithoutRtti: return {0, true};
    case ClassNames::Verdict::kNamed:
      return {
          types_.add({std::move(answer.name), modules_[answer.module].path(), TypeSource::kVtable}),
          false};
  }
  return {};
}

VtableTypes find_vtable_types(Target& target, const LoadedModules& modules,
                              std::span<const uint64_t> first_words, BlockTypeList& types) {
  VtableFinder finder(target, modules, types);
  VtableTypes found;
  for (const uint64_t word : first_words) {
    const VtableFinder::Answer answer = finder.look_at(word);
    if (answer.lacks_rtti) found.without_rtti.push_back(word);
    if (answer.type != 0) found.known.push_back({word, answer.type});
  }
  return found;
}

void name_by_symbols(VtableTypes& found, const LoadedModules& modules,
                     const DebugFileSearch& debug_files, BlockTypeList& types) {
  std::vector<uint64_t> left;
  std::sort(found.without_rtti.begin(), found.without_rtti.end());
  uint32_t current = LoadedModules::kNone;
  std::optional<ElfImage> debug_file;
  std::vector<VtableSymbol> symbols;
  for (const uint64_t word : found.without_rtti) {
    const unsigned size = word_size(modules.all().front().image().machine());
    const uint32_t number = modules.find(Address(word) - size);
    if (number == LoadedModules::kNone) continue;
    const LoadedModule& module = modules[number];
    if (number != current) {
      debug_file = debug_files.find(module.image(), module.path());
      symbols = vtable_symbols(module.image(), debug_file ? &*debug_file : nullptr);
      current = number;
    }
    std::string name = class_at(symbols, module.file_address(Address(word)), size);
    if (name.empty()) {
      left.push_back(word);
    } else {
      found.known.push_back(
          {word, types.add({std::move(name), module.path(), TypeSource::kVtable})});
    }
  }
  found.without_rtti = std::move(left);
}

std::vector<TypeNumber> find_structure_types(Target& target, const LoadedModules& modules,
                                             std::span<const BlockWord> blocks,
                                             BlockTypeList& types) {
  FileStructures files(target, modules);
  std::vector<TypeNumber> found;
  found.reserve(blocks.size());
  for (const BlockWord& block : blocks) {
    found.push_back(files.is_file(block)
                        ? types.add({"FILE", files.module_path(), TypeSource::kStructure})
                        : TypeNumber{0});
  }
  return found;
}

}  // namespace heapsnap
