#include "references/variable_names.h"

#include <elf.h>

#include <algorithm>
#include <tuple>

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
  sort(variables_);
  sort(thread_locals_);
}

void VariableNames::add(const std::vector<ElfSymbol>& symbols, const ElfImage& module) {
  const ElfSegment* const tls = module.tls_segment();
  for (const ElfSymbol& symbol : symbols) {
    if (!symbol.is_defined || symbol.size == 0) continue;
    const std::string_view name = without_version(symbol.name);
    if (name.empty() || symbol.size > ~symbol.value) continue;
    const Extent extent{symbol.value, symbol.value + symbol.size, name,
                        symbol.binding == STB_LOCAL};
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

std::optional<NamedVariable> VariableNames::find(const Extents& extents, uint64_t address) {
  constexpr int kNested = 16;
  auto at =
      std::upper_bound(extents.begin(), extents.end(), address,
                       [](uint64_t wanted, const Extent& extent) { return wanted < extent.begin; });
  for (int i = 0; i < kNested && at != extents.begin(); ++i) {
    --at;
    if (address < at->end) {
      return NamedVariable{at->name, at->begin, at->end - at->begin};
    }
  }
  return std::nullopt;
}

}  // namespace heapsnap
