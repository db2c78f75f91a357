#include "heap/discovery/malloc_discovery.h"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "elf/struct_layout.h"
#include "heap/discovery/allocator_survey.h"
#include "heap/discovery/debug_layout.h"
#include "heap/discovery/foreign_allocator.h"
#include "heap/discovery/glibc_version.h"
#include "heap/discovery/loaded_files.h"
#include "heap/discovery/malloc_candidates.h"
#include "heap/discovery/malloc_code_range.h"
#include "heap/discovery/malloc_tls.h"
#include "heap/discovery/module_bytes.h"

namespace heapsnap {

namespace {

bool may_hold_malloc(const ElfImage& image) {
  // malloc_info and malloc_trim are glibc's own; other allocators replace malloc() and mallopt().
  if (is_static_executable(image)) return has_constant(image, "free(): invalid pointer");
  return exports(image, "malloc_info") && exports(image, "malloc_trim") &&
         exports(image, "mallopt");
}

// libc_malloc_debug.so.0 holds a malloc without thread caches (malloc/malloc-debug.c, 2.34).
bool is_malloc_debug(const ElfImage& image) {
  return !is_static_executable(image) && !exports(image, "gnu_get_libc_version");
}

// What one file tells, in addresses of the file; a copy of it is made for each load.
class ModuleReader {
 public:
  ModuleReader(const ElfImage& image, const std::string& path, GlibcVersion version,
               const DebugFileSearch& debug_files, const DiscoveryOptions& options)
      : image_(image), options_(options) {
    module_.path = path;
    module_.build_id = image.build_id();
    module_.version = version;
    if (options.allows(DiscoveryStrategy::kDebugSymbol)) {
      debug_file_ = debug_files.find(image, path);
    }
  }

  MallocModule read() {
    choose_layouts();
    propose_arenas();
    propose_pars();
    module_.tls = read_malloc_tls(image_, is_static_executable(image_));
    module_.tls.tcache = symbols_.tcache;
    module_.tls.thread_arena = symbols_.thread_arena;
    // In libc_malloc_debug.so.0 malloc is inlined into wrappers all over its 24 KB of code.
    module_.malloc_text =
        is_malloc_debug(image_) ? all_code(image_) : find_malloc_text(image_, symbol_file());
    return std::move(module_);
  }

 private:
  const ElfImage& symbol_file() const { return debug_file_ ? *debug_file_ : image_; }

  std::optional<uint64_t> code_of_malloc() const {
    for (const char* name : {"__libc_malloc", "malloc"}) {
      const ElfSymbol* const symbol = symbol_file().find_symbol(name);
      if (symbol != nullptr) return symbol->value;
    }
    return std::nullopt;
  }

  void choose_layouts() {
    const Machine machine = image_.machine();
    const auto by_version = MallocLayout::for_version(machine, module_.version);
    if (by_version) {
      module_.layouts = {with_fitting_par(*by_version)};
    } else {
      module_.layouts = layouts_that_fit(image_, MallocLayout::all_variants(machine));
    }
    if (is_malloc_debug(image_)) {
      for (MallocLayout& layout : module_.layouts) layout = layout.without_thread_caches();
    }
    module_.layout_source = "table " + module_.layouts.front().table_row();
    if (!options_.allows(DiscoveryStrategy::kDebugSymbol)) return;
    const auto structs =
        read_struct_layouts(symbol_file(), malloc_struct_names(), code_of_malloc());
    // Where the version is not known, the layout that needs least correction is nearest.
    std::optional<DebugLayout> best;
    for (const MallocLayout& layout : module_.layouts) {
      auto corrected = layout_from_structs(structs, layout);
      if (corrected && (!best || corrected->disagreements.size() < best->disagreements.size())) {
        best = std::move(corrected);
      }
    }
    if (!best) return;
    module_.layouts = {best->layout};
    module_.layout_source = "debug info";
    module_.notes = std::move(best->disagreements);  // in place of guesses about mp_
  }

  // 2.35 to 2.37 leave the hugepage members of mp_ out when built without tunables.
  MallocLayout with_fitting_par(MallocLayout layout) {
    if (!find_initial_malloc_pars(image_, {layout}).empty()) return layout;
    for (const MallocLayout& other : MallocLayout::all_variants(layout.machine)) {
      if (find_initial_malloc_pars(image_, {other}).empty()) continue;
      module_.notes.push_back(fmt::format("mp_ has the layout {}, not {} as glibc {}.{} should",
                                          other.table_row(), layout.table_row(),
                                          layout.version.major, layout.version.minor));
      layout.par = other.par;
      break;
    }
    return layout;
  }

  void propose(DiscoveryStrategy strategy, uint64_t main_arena) {
    module_.proposals.push_back({strategy, Address(main_arena)});
  }

  void propose_arenas() {
    if (options_.allows(DiscoveryStrategy::kDebugSymbol)) {
      symbols_ = find_malloc_symbols(symbol_file());
      if (symbols_.main_arena) propose(DiscoveryStrategy::kDebugSymbol, *symbols_.main_arena);
    }
    if (options_.allows(DiscoveryStrategy::kRelocation)) {
      for (const uint64_t arena : find_self_pointing_arenas(image_, module_.layouts)) {
        propose(DiscoveryStrategy::kRelocation, arena);
      }
    }
    if (options_.allows(DiscoveryStrategy::kDisassembly)) {
      for (const uint64_t arena : vote_for_arena(image_)) {
        propose(DiscoveryStrategy::kDisassembly, arena);
      }
    }
  }

  void propose_pars() {
    std::vector<uint64_t> found;
    if (symbols_.malloc_par) found.push_back(*symbols_.malloc_par);
    for (const uint64_t par : find_initial_malloc_pars(image_, module_.layouts)) {
      found.push_back(par);
    }
    if (options_.allows(DiscoveryStrategy::kDisassembly)) {
      if (const auto par = find_malloc_par_in_mallopt(image_)) found.push_back(*par);
    }
    for (const uint64_t par : found) {
      const Address address(par);
      auto& known = module_.malloc_pars;
      if (std::find(known.begin(), known.end(), address) == known.end()) known.push_back(address);
    }
  }

  const ElfImage& image_;
  const DiscoveryOptions& options_;
  std::optional<ElfImage> debug_file_;
  MallocSymbols symbols_;
  MallocModule module_;
};

MallocModule loaded_at(MallocModule module, const ElfImage& image, Address bias,
                       const AddressSpace& space) {
  const uint64_t shift = bias.value();
  module.load_bias = bias;
  for (ArenaProposal& proposal : module.proposals) proposal.main_arena += shift;
  for (Address& par : module.malloc_pars) par += shift;
  for (MallocTls::Word& word : module.tls.words) word.word += shift;
  if (!module.malloc_text.is_empty()) {
    module.malloc_text.begin += shift;
    module.malloc_text.end += shift;
  }
  module.writable = writable_ranges(image, bias, space);
  return module;
}

std::optional<ElfImage> open_image(Target& target, const LoadedFile& file) {
  try {
    auto opened = target.open_file(file.mappings.front());
    if (!opened) return std::nullopt;
    return ElfImage::from_file(*std::move(opened), file.path);
  } catch (const Error&) {
    return std::nullopt;  // no ELF file, or none that can be read
  }
}

}  // namespace

bool DiscoveryOptions::allows(DiscoveryStrategy strategy) const {
  return std::find(strategies.begin(), strategies.end(), strategy) != strategies.end();
}

PreparedDiscovery prepare_discovery(Target& target, const DebugFileSearch& debug_files,
                                    const DiscoveryOptions& options) {
  struct Candidate {
    LoadedFile file;
    ElfImage image;
    GlibcVersionGuess guess;
  };
  PreparedDiscovery prepared;
  AllocatorSurvey survey;
  prepared.may_scan = options.allows(DiscoveryStrategy::kStructuralScan);
  std::vector<Candidate> candidates;
  GlibcVersion exact_version;
  for (LoadedFile& file : files_with_code(target.address_space())) {
    auto image = open_image(target, file);
    if (!image) continue;
    survey.add(*image, file.path, file.mappings.front().deleted);
    if (image->machine() != target.process().machine || !may_hold_malloc(*image)) continue;
    const auto guess = guess_glibc_version(*image, file.path);
    if (guess.is_exact) exact_version = guess.version;
    candidates.push_back({std::move(file), *std::move(image), guess});
  }
  prepared.allocator = survey.verdict();
  for (const auto& [file, image, guess] : candidates) {
    // libc_malloc_debug.so.0 carries no banner; it comes from the same build as libc.
    const bool is_told_by_libc = !guess.is_exact && exact_version != GlibcVersion{};
    const MallocModule module =
        ModuleReader(image, file.path, is_told_by_libc ? exact_version : guess.version, debug_files,
                     options)
            .read();
    for (const Address bias : load_biases(image, file)) {
      prepared.modules.push_back(loaded_at(module, image, bias, target.address_space()));
    }
  }
  return prepared;
}

}  // namespace heapsnap
