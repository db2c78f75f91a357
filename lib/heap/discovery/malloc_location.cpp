// locate_mallocs(): from proposals to verified mallocs, in frozen memory.
#include <fmt/format.h>

#include <algorithm>

#include "base/file_name.h"
#include "heap/chunk_format.h"
#include "heap/discovery/arena_scan.h"
#include "heap/discovery/arena_verifier.h"
#include "heap/discovery/glibc_version.h"
#include "heap/discovery/loaded_files.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/discovery/malloc_tls.h"
#include "heap/discovery/module_bytes.h"
#include "heap/discovery/mp_counters.h"
#include "heap/struct_bytes.h"
#include "heap/thread_tcache.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMostModuleData = 64ULL << 20;
constexpr uint64_t kMostConstants = 8ULL << 20;

struct VerifiedArena {
  Address address;
  DiscoveryStrategy strategy = DiscoveryStrategy::kNone;
  ArenaCheck check;
  // Layouts whose malloc_state fits; they may differ in the other structs.
  std::vector<MallocLayout> layouts;
};

std::vector<MallocLayout> with_state(const std::vector<MallocLayout>& layouts,
                                     const MallocLayout::State& state) {
  std::vector<MallocLayout> same;
  std::copy_if(layouts.begin(), layouts.end(), std::back_inserter(same),
               [&state](const MallocLayout& layout) { return layout.state == state; });
  return same;
}

std::optional<VerifiedArena> verify_proposals(Target& target, const MallocModule& module,
                                              const std::vector<MallocLayout>& layouts) {
  for (const auto& [strategy, main_arena] : module.proposals) {
    for (const MallocLayout& layout : layouts) {
      const ArenaCheck check = check_arena(target, layout, main_arena);
      if (!is_acceptable(check, strategy)) continue;
      return VerifiedArena{main_arena, strategy, check, with_state(layouts, layout.state)};
    }
  }
  return std::nullopt;
}

std::optional<VerifiedArena> scan_module(Target& target, const MallocModule& module,
                                         const std::vector<MallocLayout>& layouts) {
  const auto found = scan_for_arenas(target, module.writable, layouts);
  const auto largest = std::max_element(
      found.begin(), found.end(),
      [](const ScannedArena& a, const ScannedArena& b) { return a.system_mem < b.system_mem; });
  if (largest == found.end()) return std::nullopt;
  return VerifiedArena{largest->address, DiscoveryStrategy::kStructuralScan,
                       check_arena(target, largest->layout, largest->address),
                       with_state(layouts, largest->layout.state)};
}

// The layouts of the module's own version go first. Those of the whole table come after them: a
// distributor may have patched malloc, or the version been read wrongly.
std::optional<VerifiedArena> find_arena(Target& target, const MallocModule& module, bool may_scan) {
  const auto all = MallocLayout::all_variants(module.layouts.front().machine);
  auto found = verify_proposals(target, module, module.layouts);
  if (!found) found = verify_proposals(target, module, all);
  if (!found && may_scan) found = scan_module(target, module, module.layouts);
  if (!found && may_scan) found = scan_module(target, module, all);
  return found;
}

std::vector<std::byte> read_up_to(MemoryReader& memory, AddressRange range, uint64_t limit) {
  std::vector<std::byte> bytes(std::min(range.size(), limit));
  bytes.resize(memory.read(range.begin, bytes));
  return bytes;
}

class MallocLocator {
 public:
  MallocLocator(Target& target, const MallocModule& module) : target_(target), module_(module) {}

  std::optional<LocatedMalloc> locate(bool may_scan) {
    auto arena = find_arena(target_, module_, may_scan);
    if (!arena) return std::nullopt;
    located_.tls_offset =
        vote_tls_offset(target_.memory(), module_.tls, arena->layouts.front().word);
    located_.tls_size = module_.tls.size;
    located_.tcache_in_tls = module_.tls.tcache;
    located_.thread_arena_in_tls = module_.tls.thread_arena;
    MallocInstance& instance = located_.instance;
    instance.module = module_.path;
    instance.build_id = module_.build_id;
    instance.version = module_.version;
    instance.strategy = arena->strategy;
    instance.main_arena = arena->address;
    instance.notes = module_.notes;
    layouts_ = std::move(arena->layouts);
    read_counters(may_scan);
    choose_layout();
    note_damage(arena->check);
    return std::move(located_);
  }

 private:
  void read_counters(bool may_scan) {
    for (const Address par : module_.malloc_pars) {
      if (accept_par(par)) return;
    }
    if (may_scan && scan_for_par()) return;
    located_.instance.notes.push_back(
        "mp_ was not found, so mmapped chunks cannot be checked against its count of them");
  }

  bool accept_par(Address par) {
    for (const MallocLayout& layout : layouts_) {
      const auto counters = read_mp_counters(target_, layout, par);
      if (!counters) continue;
      located_.instance.malloc_par = par;
      located_.instance.n_mmaps = counters->n_mmaps;
      located_.instance.mmapped_mem = counters->mmapped_mem;
      located_.instance.tcache_count = counters->tcache_count;
      sbrk_base_ = counters->sbrk_base;
      std::erase_if(layouts_, [chosen = layout.par](const MallocLayout& other) {
        return !(other.par == chosen);
      });
      return true;
    }
    return false;
  }

  bool scan_for_par() {
    for (const AddressRange& range : module_.writable) {
      const auto data = read_up_to(target_.memory(), range, kMostModuleData);
      for (const MallocLayout& layout : layouts_) {
        const auto par = scan_for_malloc_par(target_, layout, range.begin, data);
        if (par) return accept_par(*par);
      }
    }
    return false;
  }

  // More than one is left only when the version is not known. The tcaches tell then: each kind has
  // a size of its own. Without registers the first chunk of the heap does, which was the main
  // thread's tcache from 2.26 to 2.42.
  void choose_layout() {
    located_.layout = layouts_.front();
    if (layouts_.size() > 1) {
      size_t most = 0;
      for (const MallocLayout& layout : layouts_) {
        const size_t tcaches = count_tcaches(layout);
        if (tcaches > most) {
          most = tcaches;
          located_.layout = layout;
        }
      }
    }
    const MallocLayout& layout = located_.layout;
    const auto& listed = module_.layouts;
    const bool is_best_guess = layout == listed.front();
    located_.instance.layout_source =
        is_best_guess ? module_.layout_source : "table " + layout.table_row();
    if (std::find(listed.begin(), listed.end(), layout) == listed.end()) {
      located_.instance.notes.push_back(
          fmt::format("main_arena has the layout {} of glibc {}.{}, not {} as glibc {}.{} should",
                      layout.table_row(), layout.version.major, layout.version.minor,
                      module_.layout_source, module_.version.major, module_.version.minor));
    }
  }

  size_t count_tcaches(const MallocLayout& layout) {
    if (!layout.tcache.exists) return 0;
    LocatedMalloc trial = located_;
    trial.layout = layout;
    const Address arenas[] = {located_.instance.main_arena};
    size_t count = 0;
    for (const auto& thread : find_thread_allocators(target_, trial, arenas)) {
      if (!thread.tcache.is_null()) ++count;
    }
    const Address first_chunk = ChunkFormat(layout).align_up(sbrk_base_);
    if (count == 0 && is_tcache(target_.memory(), layout, first_chunk + 2 * layout.word)) ++count;
    return count;
  }

  void note_damage(const ArenaCheck& check) {
    if (!check.is_used) return;
    for (std::string& sentence : check.damage()) {
      located_.instance.notes.push_back(std::move(sentence));
    }
  }

  Target& target_;
  const MallocModule& module_;
  std::vector<MallocLayout> layouts_;
  Address sbrk_base_;
  LocatedMalloc located_;
};

uint64_t bytes_from_system(Target& target, const LocatedMalloc& malloc) {
  const auto system_mem =
      read_word(target.memory(), malloc.instance.main_arena + malloc.layout.state.system_mem,
                malloc.layout.word);
  return malloc.instance.mmapped_mem + system_mem.value_or(0);
}

// The file that a variable at `address` belongs to, .bss included; empty when there is none.
std::string path_at(const AddressSpace& space, Address address) {
  std::string path;
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.range.begin > address) break;
    if (mapping.path.starts_with('/')) path = mapping.path;
  }
  return path;
}

// Version by the banner in the constants that the target has mapped of a file: of `path`, else of
// whatever is named like libc.
GlibcVersion version_in_memory(Target& target, const std::string& path) {
  const auto version_in = [&target](const auto& is_wanted) {
    for (const Mapping& mapping : target.address_space().mappings()) {
      if (!is_wanted(mapping) || !mapping.readable || mapping.writable) continue;
      const auto bytes = read_up_to(target.memory(), mapping.range, kMostConstants);
      const auto version =
          version_in_banner({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      if (version != GlibcVersion{}) return version;
    }
    return GlibcVersion{};
  };
  const auto version = version_in([&](const Mapping& mapping) { return mapping.path == path; });
  if (version != GlibcVersion{}) return version;
  return version_in([](const Mapping& mapping) {
    const auto name = file_name_of(mapping.path);
    return name.starts_with("libc.so.6") || name.starts_with("libc-2.");
  });
}

// A malloc in no module that prepare_discovery() knew: its file is gone, or cannot be opened.
std::vector<MallocModule> modules_by_scan(Target& target) {
  const auto& space = target.address_space();
  const Machine machine = target.process().machine;
  const auto data = all_module_data(space);
  const auto variants = MallocLayout::all_variants(machine);
  std::vector<MallocModule> modules;
  for (const ScannedArena& arena : scan_for_arenas(target, data, variants)) {
    MallocModule module;
    module.path = path_at(space, arena.address);
    module.version = version_in_memory(target, module.path);
    const auto by_version = MallocLayout::for_version(machine, module.version);
    module.layouts = by_version && by_version->state == arena.layout.state
                         ? std::vector{*by_version}
                         : with_state(variants, arena.layout.state);
    module.layout_source = "table " + module.layouts.front().table_row();
    module.proposals = {{DiscoveryStrategy::kStructuralScan, arena.address}};
    module.writable = {space.writable_run(arena.address)};
    modules.push_back(std::move(module));
  }
  return modules;
}

std::vector<LocatedMalloc> look_for_mallocs(Target& target, const PreparedDiscovery& prepared) {
  std::vector<std::pair<uint64_t, LocatedMalloc>> found;
  const auto locate_in = [&](const MallocModule& module) {
    if (module.layouts.empty()) return;
    auto located = MallocLocator(target, module).locate(prepared.may_scan);
    if (!located) return;
    const uint64_t bytes = bytes_from_system(target, *located);
    found.emplace_back(bytes, *std::move(located));
  };
  for (const MallocModule& module : prepared.modules) locate_in(module);
  const bool is_any_used =
      std::any_of(found.begin(), found.end(), [](const auto& each) { return each.first > 0; });
  const AllocatorVerdict& allocator = prepared.allocator;
  const bool has_foreign =
      allocator.kind == AllocatorVerdict::Kind::kForeign || !allocator.beside.empty();
  if (!is_any_used && prepared.may_scan && !has_foreign) {
    for (const MallocModule& module : modules_by_scan(target)) {
      const bool is_known = std::any_of(found.begin(), found.end(), [&](const auto& each) {
        return each.second.instance.main_arena == module.proposals.front().main_arena;
      });
      if (!is_known) locate_in(module);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<LocatedMalloc> mallocs;
  for (auto& each : found) mallocs.push_back(std::move(each.second));
  return mallocs;
}

}  // namespace

std::vector<LocatedMalloc> locate_mallocs(Target& target, const PreparedDiscovery& prepared) {
  std::vector<LocatedMalloc> mallocs = look_for_mallocs(target, prepared);
  for (int looks = 1; mallocs.empty() && looks < prepared.most_looks; ++looks) {
    mallocs = look_for_mallocs(target, prepared);
  }
  return mallocs;
}

}  // namespace heapsnap
