#include "heap/discovery/debug_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "base/byte_reader.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestStruct = 64 << 10;  // malloc_state, the largest of these, has 2200 bytes

// Where a member of a layout goes, and whether a struct without it is of no use.
struct Place {
  const char* name;
  uint64_t* offset;
  bool is_required = true;
};

const StructLayout* find_struct(const StructLayouts& structs, std::string_view name) {
  const auto found = structs.find(name);
  if (found == structs.end() || found->second.size > kLargestStruct) return nullptr;
  return &found->second;
}

const StructLayout::Member* find_member(const StructLayout& layout, std::string_view name) {
  const auto found = layout.members.find(name);
  if (found == layout.members.end()) return nullptr;
  const auto& member = found->second;
  const bool is_inside =
      fits_within(member.offset, std::max<uint64_t>(member.size, 1), layout.size);
  return is_inside ? &member : nullptr;
}

// Whether `layout` has every required member of `places`; only then anything is written.
bool apply(const StructLayout& layout, const char* struct_name, std::initializer_list<Place> places,
           uint64_t* size, std::vector<std::string>& disagreements) {
  for (const Place& place : places) {
    if (place.is_required && find_member(layout, place.name) == nullptr) return false;
  }
  for (const Place& place : places) {
    const auto* member = find_member(layout, place.name);
    const uint64_t offset = member == nullptr ? 0 : member->offset;
    if (offset != *place.offset) {
      disagreements.push_back(
          fmt::format("debug info puts {} of {} at offset {}, the table at {}; debug info was used",
                      place.name, struct_name, offset, *place.offset));
    }
    *place.offset = offset;
  }
  if (layout.size != *size) {
    disagreements.push_back(
        fmt::format("debug info gives {} {} bytes, the table {}; debug info was used", struct_name,
                    layout.size, *size));
  }
  *size = layout.size;
  return true;
}

constexpr uint64_t kMostFastbins = 16;  // no glibc has more than 11

bool apply_state(const StructLayout& layout, unsigned word, MallocLayout::State& state,
                 std::vector<std::string>& disagreements) {
  if (!apply(layout, "malloc_state",
             {{"fastbinsY", &state.fastbins, false},
              {"top", &state.top},
              {"bins", &state.bins},
              {"next", &state.next},
              {"attached_threads", &state.attached_threads, false},
              {"system_mem", &state.system_mem},
              {"max_system_mem", &state.max_system_mem}},
             &state.size, disagreements)) {
    return false;
  }
  const auto* fastbins = find_member(layout, "fastbinsY");
  const uint64_t count = fastbins == nullptr ? 0 : fastbins->size / word;
  if (count > kMostFastbins) return false;
  state.fastbin_count = static_cast<unsigned>(count);
  state.has_attached_threads = find_member(layout, "attached_threads") != nullptr;
  return true;
}

bool apply_par(const StructLayout& layout, MallocLayout::Par& par,
               std::vector<std::string>& disagreements) {
  return apply(layout, "malloc_par",
               {{"mmap_threshold", &par.mmap_threshold},
                {"arena_test", &par.arena_test},
                {"hp_pagesize", &par.hp_pagesize, false},
                {"n_mmaps", &par.n_mmaps},
                {"n_mmaps_max", &par.n_mmaps_max},
                {"max_n_mmaps", &par.max_n_mmaps},
                {"mmapped_mem", &par.mmapped_mem},
                {"sbrk_base", &par.sbrk_base},
                {"tcache_count", &par.tcache_count, false}},
               &par.size, disagreements);
}

// glibc can be built without a thread cache (--disable-experimental-malloc).
void apply_tcache(const StructLayout* layout, bool par_has_tcache, unsigned word,
                  MallocLayout::Tcache& tcache, std::vector<std::string>& disagreements) {
  if (tcache.exists && !par_has_tcache) {
    disagreements.push_back("debug info has no thread cache, the table does; debug info was used");
    tcache = {};
    return;
  }
  if (layout == nullptr) return;
  const auto* entries = find_member(*layout, "entries");
  const auto* num_slots = find_member(*layout, "num_slots");
  const auto* counts = num_slots != nullptr ? num_slots : find_member(*layout, "counts");
  if (entries == nullptr || counts == nullptr) return;
  const uint64_t bins = entries->size / word;
  const uint64_t count_size = bins == 0 ? 0 : counts->size / bins;
  if (count_size != 1 && count_size != 2) return;
  const MallocLayout::Tcache found = {.exists = true,
                                      .bins = static_cast<unsigned>(bins),
                                      .count_size = static_cast<unsigned>(count_size),
                                      .counts_down = num_slots != nullptr,
                                      .entries = entries->offset,
                                      .size = layout->size};
  if (!(found == tcache)) {
    disagreements.push_back(fmt::format(
        "debug info gives tcache_perthread_struct {} bytes and {} bins, the table {} and {}; debug "
        "info was used",
        found.size, found.bins, tcache.size, tcache.bins));
  }
  tcache = found;
}

}  // namespace

const std::vector<std::string>& malloc_struct_names() {
  static const std::vector<std::string> names = {"malloc_state", "malloc_par", "_heap_info",
                                                 "tcache_perthread_struct"};
  return names;
}

std::optional<DebugLayout> layout_from_structs(const StructLayouts& structs,
                                               const MallocLayout& table) {
  DebugLayout result{table, {}};
  MallocLayout& layout = result.layout;
  auto& disagreements = result.disagreements;
  const StructLayout* state = find_struct(structs, "malloc_state");
  const StructLayout* par = find_struct(structs, "malloc_par");
  if (state == nullptr || par == nullptr) return std::nullopt;
  if (!apply_state(*state, layout.word, layout.state, disagreements) ||
      !apply_par(*par, layout.par, disagreements)) {
    return std::nullopt;
  }
  if (const auto* heap = find_struct(structs, "_heap_info")) {
    apply(*heap, "heap_info",
          {{"ar_ptr", &layout.heap_info.ar_ptr},
           {"prev", &layout.heap_info.prev},
           {"size", &layout.heap_info.size}},
          &layout.heap_info.total, disagreements);
  }
  apply_tcache(find_struct(structs, "tcache_perthread_struct"), layout.par.tcache_count != 0,
               layout.word, layout.tcache, disagreements);
  return result;
}

}  // namespace heapsnap
