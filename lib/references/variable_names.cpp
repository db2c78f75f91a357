#include "references/variable_names.h"

#include <elf.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace heapsnap {

namespace {

// Up to the version that linkers append to the names of what they copied ("stdout@GLIBC_2.2.5").
std::string_view without_version(std::string_view name) {
  return name.substr(0, name.find('@'));
}

}  // namespace

VariableNames::VariableNames(const ElfImage& module, const ElfImage* debug_file) {
  if (debug_file != nullptr) add(debug_file->symbols(), module);
  add(module.symbols(), module);
  add(module.dynamic_symbols(), module);
  for (Extents* const extents : {&variables_, &thread_locals_}) {
    sort(*extents);
    keep_files_of_same_names(*extents);
  }
}

void VariableNames::add(const std::vector<ElfSymbol>& symbols, const ElfImage& module) {
  const ElfSegment* const tls = module.tls_segment();
  std::string_view file;  // of the local symbols that follow
  for (const ElfSymbol& symbol : symbols) {
    if (symbol.type == STT_FILE) file = symbol.name;
    if (!symbol.is_defined || symbol.size == 0) continue;
    const std::string_view name = without_version(symbol.name);
    if (name.empty() || symbol.size > ~symbol.value) continue;
    const bool is_local = symbol.binding == STB_LOCAL;
    const Extent extent{symbol.value, symbol.value + symbol.size, name,
                        is_local ? file : std::string_view(), is_local};
    if (symbol.type == STT_TLS) {
      if (tls != nullptr && extent.end <= tls->memory_size) thread_locals_.push_back(extent);
    } else if (symbol.type == STT_OBJECT || symbol.type == STT_COMMON) {
      const ElfSegment* const segment = module.segment_of(symbol.value);
      const bool is_writable = segment != nullptr && (segment->flags & PF_W) != 0;
      if (is_writable && symbol.size <= segment->memory_size - (symbol.value - segment->address)) {
        variables_.push_back(extent);
      }
    }
  }
}

// Of several names for one variable the one that other programs would use stays.
void VariableNames::sort(Extents& extents) {
  const auto key = [](const Extent& extent) {
    return std::tuple(extent.begin, ~extent.end, extent.is_local,
                      extent.name.find_first_not_of('_'), extent.name);
  };
  std::sort(extents.begin(), extents.end(),
            [&key](const Extent& a, const Extent& b) { return key(a) < key(b); });
  extents.erase(std::unique(extents.begin(), extents.end(),
                            [](const Extent& a, const Extent& b) {
                              return a.begin == b.begin && a.end == b.end;
                            }),
                extents.end());
}

void VariableNames::keep_files_of_same_names(Extents& extents) {
  std::unordered_map<std::string_view, size_t> count;
  for (const Extent& extent : extents) ++count[extent.name];
  for (Extent& extent : extents) {
    if (count[extent.name] == 1) extent.file = {};
  }
}

std::optional<NamedVariable> VariableNames::find(const Extents& extents, uint64_t address) {
  constexpr int kNested = 16;
  auto at =
      std::upper_bound(extents.begin(), extents.end(), address,
                       [](uint64_t wanted, const Extent& extent) { return wanted < extent.begin; });
  for (int i = 0; i < kNested && at != extents.begin(); ++i) {
    --at;
    if (address < at->end) {
      return NamedVariable{at->name, at->begin, at->end - at->begin, at->file};
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
