// Are the places of words and the classes of objects what the target says they are? Live and as a
// core, with symbols and without; names are found after the target was released.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <sstream>

#include "core/core_target.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/walk/heap_walker.h"
#include "platform/linux/freeze/frozen_process.h"
#include "references/block_types.h"
#include "references/root_names.h"
#include "references/root_regions.h"
#include "references/stack_frames.h"
#include "tests/live/checks.h"
#include "tests/live/live_target.h"
#include "tracking/function_name.h"

namespace heapsnap::live {

namespace {

struct Truth {
  std::string kind, name;
  Address address;
  std::string more;
};

std::vector<Truth> read_truth(LiveTarget& target) {
  std::vector<Truth> truth;
  for (std::string line = target.read_line(); line != "end"; line = target.read_line()) {
    REQUIRE_FALSE(line.empty());
    std::istringstream fields(line);
    Truth one;
    std::string address;
    std::getline(fields, one.kind, '\t');
    std::getline(fields, one.name, '\t');
    std::getline(fields, address, '\t');
    std::getline(fields, one.more, '\t');
    one.address = Address(std::stoull(address, nullptr, 16));
    truth.push_back(one);
  }
  return truth;
}

class MmappedRanges final : public ChunkSink {
 public:
  void on_batch(const ChunkBatch&) override {}
  void on_mmapped(const MmappedChunk& chunk) override {
    ranges.push_back({chunk.mapping_begin, chunk.mapping_begin + chunk.total});
  }
  std::vector<AddressRange> ranges;
};

// What is learnt of a target while it can be read.
struct Learnt {
  LoadedModules modules;
  RootRegions roots;
  std::vector<ThreadFrames> stacks;
  std::vector<RegisterWord> registers;
  AddressSpace space;
  std::vector<AddressRange> vtables;
  BlockTypeList types;
  VtableTypes vtable_types;
  std::map<Address, uint64_t> first_words;
  std::map<Address, TypeNumber> structures;
  std::vector<KnownBlock> known_blocks;
};

Learnt learn(Target& target, const std::vector<Truth>& truth) {
  Learnt learnt;
  const auto mallocs = locate_mallocs(target, prepare_discovery(target, DebugFileSearch()));
  MmappedRanges mmapped;
  const HeapModel heap = walk_heaps(target, mallocs, mmapped);
  CHECK(heap.corruptions.empty());
  learnt.modules = LoadedModules(target);
  learnt.roots = find_root_regions(target, learnt.modules, heap, {mallocs, mmapped.ranges, {}});
  learnt.stacks = unwind_stacks(target, learnt.modules);
  learnt.registers = register_words(target);
  learnt.space = target.address_space();
  learnt.vtables = vtable_ranges(learnt.modules, learnt.space);
  std::vector<uint64_t> words;
  for (const Truth& one : truth) {
    const auto word = target.memory().read_value<uint64_t>(one.address);
    if (!word || one.kind.find("object") == std::string::npos) continue;
    learnt.first_words[one.address] = *word;
    words.push_back(*word);
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  learnt.vtable_types = find_vtable_types(target, learnt.modules, words, learnt.types);
  for (const Truth& one : truth) {
    const auto word = target.memory().read_value<uint64_t>(one.address);
    if (!word) continue;
    const BlockWord block{one.address, 552, *word};
    learnt.structures[one.address] =
        find_structure_types(target, learnt.modules, std::span(&block, 1), learnt.types).front();
  }
  learnt.known_blocks = find_thread_blocks(target, learnt.modules, heap, learnt.types);
  return learnt;
}

class Checks {
 public:
  Checks(Learnt& learnt, bool is_stripped, bool is_core = false)
      : learnt_(learnt), is_stripped_(is_stripped), is_core_(is_core) {}

  void run(const std::vector<Truth>& truth) {
    check_regions();
    name_by_symbols(learnt_.vtable_types, learnt_.modules, DebugFileSearch(), learnt_.types);
    for (const Truth& one : truth) {
      CAPTURE(one.kind);
      CAPTURE(one.name);
      check(one);
    }
    for (const char* kind : {"variable", "thread-local", "stack", "mapping", "nowhere", "object"}) {
      CHECK(counts_[kind] > 1);
    }
  }

 private:
  void check_regions() const {
    Address end;
    for (const RootRegion& region : learnt_.roots.regions) {
      CHECK(region.range.begin >= end);
      CHECK(!region.range.is_empty());
      CHECK(learnt_.space.mappings()
                .at(region.mapping)
                .range.contains(region.range.begin, region.range.size()));
      end = region.range.end;
    }
  }

  std::optional<uint32_t> region_of(Address address) const {
    for (uint32_t i = 0; i < learnt_.roots.regions.size(); ++i) {
      if (learnt_.roots.regions[i].range.contains(address)) return i;
    }
    return std::nullopt;
  }

  RootPlace place_of(Address address, uint32_t region) const {
    const RootContext context{learnt_.roots, learnt_.modules, learnt_.stacks, learnt_.space,
                              Machine::kX86_64};
    const RootWord word{address, region};
    const NamedRoots named = name_roots(context, std::span(&word, 1), {}, DebugFileSearch());
    REQUIRE(named.place_of.size() == 1);
    REQUIRE(named.places.size() == 1);
    return named.places.front();
  }

  void check(const Truth& one) {
    ++counts_[one.kind];
    if (one.kind.find("object") != std::string::npos) return check_object(one);
    if (one.kind == "structure") {
      CHECK(learnt_.types.all()[learnt_.structures[one.address]].name == one.name);
      return;
    }
    const auto region = region_of(one.address);
    if (one.kind == "dynamic-tls") return check_dynamic_storage(one, region.has_value());
    if (one.kind == "nowhere") {
      CHECK_FALSE(region);
      return;
    }
    REQUIRE(region);
    if (one.kind == "somewhere") return;
    // gcore does not say that the process itself may not read it: so it may be a stack's.
    if (is_core_ && one.name == "protected") return;
    const RootPlace place = place_of(one.address, *region);
    CHECK(place.begin <= one.address);
    CHECK(one.address - place.begin < place.size);
    if (one.kind == "variable") return check_variable(one, place);
    if (one.kind == "thread-local") return check_thread_local(one, place);
    if (one.kind == "stack") return check_stack(one, place);
    CHECK(place.kind == RootKind::kMapping);
    CHECK(learnt_.roots.regions[*region].is_shared == (one.name == "shared"));
  }

  bool is_nameless(const RootPlace& place) const {
    return is_stripped_ && place.module.ends_with("/root_holder_stripped");
  }

  void check_variable(const Truth& one, const RootPlace& place) const {
    CHECK(place.kind == RootKind::kVariable);
    CHECK(place.name == (is_nameless(place) ? "" : one.name));
    const uint32_t module = learnt_.modules.find(one.address);
    REQUIRE(module != LoadedModules::kNone);
    CHECK(place.module == learnt_.modules[module].path());
    CHECK(place.module_offset == learnt_.modules[module].file_address(place.begin));
  }

  void check_thread_local(const Truth& one, const RootPlace& place) const {
    CHECK(place.kind == RootKind::kThreadLocal);
    CHECK(place.name == (is_nameless(place) ? "" : one.name));
    if (!one.more.empty()) CHECK(std::to_string(place.tid) == one.more);
    CHECK(place.module_offset > 0);
  }

  static void check_stack(const Truth& one, const RootPlace& place) {
    CHECK(place.kind == RootKind::kStack);
    CHECK(std::to_string(place.tid) == one.more);
    if (place.module.ends_with("/root_holder_stripped")) {
      CHECK(place.name.starts_with("root_holder_stripped+0x"));
      CHECK(is_name_of_start(place.name));
    } else {
      CHECK(place.name == one.name);
    }
  }

  // In a block, which is known by name.
  void check_dynamic_storage(const Truth& one, bool is_root) const {
    CHECK_FALSE(is_root);
    bool is_found = false;
    for (const KnownBlock& block : learnt_.known_blocks) {
      const BlockType& type = learnt_.types.all()[block.type];
      const bool is_it = type.name.find(one.name) != std::string::npos;
      is_found |= is_it && one.address - block.block < 4096;
    }
    CHECK(is_found);
  }

  void check_object(const Truth& one) const {
    const uint64_t word = learnt_.first_words.at(one.address);
    const auto& known = learnt_.vtable_types.known;
    const auto found = std::find_if(known.begin(), known.end(), [word](const VtableType& type) {
      return type.first_word == word;
    });
    if (one.kind == "no-object" || (one.kind == "symbol-object" && is_stripped_)) {
      CHECK(found == known.end());
      return;
    }
    const bool is_in_range =
        std::any_of(learnt_.vtables.begin(), learnt_.vtables.end(),
                    [word](const AddressRange& range) { return range.contains(Address(word)); });
    CHECK(is_in_range);
    REQUIRE(found != known.end());
    const BlockType& type = learnt_.types.all()[found->type];
    CHECK(type.name == one.name);
    CHECK(type.source == TypeSource::kVtable);
    CHECK(type.module.find("root_holder") != std::string::npos);
  }

  Learnt& learnt_;
  bool is_stripped_;
  bool is_core_;
  std::map<std::string, int> counts_;
};

constexpr std::array<const char*, 2> kPrograms = {ROOT_HOLDER, ROOT_HOLDER_STRIPPED};

}  // namespace

TEST_CASE("places of words and classes of objects, of a live process") {
  for (const char* const program : kPrograms) {
    for (const FreezeChoice choice : {FreezeChoice::kStop, FreezeChoice::kFork}) {
      CAPTURE(std::string(program));
      LiveTarget target({program, ROOT_HOLDER_LOADED});
      const std::vector<Truth> truth = read_truth(target);
      auto frozen = std::make_unique<FrozenProcess>(target.pid(), choose(choice));
      Learnt learnt = learn(*frozen, truth);
      frozen.reset();
      target.finish();
      CHECK(target.exit_status() == 0);
      Checks(learnt, program == kPrograms[1]).run(truth);
    }
  }
}

TEST_CASE("places of words and classes of objects, of a core") {
  std::string folder = std::filesystem::temp_directory_path() / "heapsnap-roots-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  for (const char* const program : kPrograms) {
    CAPTURE(std::string(program));
    LiveTarget target({program, ROOT_HOLDER_LOADED});
    const std::vector<Truth> truth = read_truth(target);
    const std::string command = "gcore -o " + folder + "/core " + std::to_string(target.pid()) +
                                " >" + folder + "/gcore.log 2>&1";
    if (std::system(command.c_str()) != 0) {
      MESSAGE("gcore cannot attach here");
      break;
    }
    const std::string path = folder + "/core." + std::to_string(target.pid());
    target.finish();
    std::vector<std::string> notes;
    const auto core = open_core({.core_path = path}, notes);
    Learnt learnt = learn(*core, truth);
    Checks(learnt, program == kPrograms[1], true).run(truth);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("registers are roots") {
  LiveTarget target({ROOT_HOLDER, ROOT_HOLDER_LOADED});
  const FrozenProcess frozen(target.pid(), choose(FreezeChoice::kStop));
  const auto words = register_words(frozen);
  CHECK(words.size() == frozen.threads().size() * 17);
  for (const Thread& thread : frozen.threads()) {
    REQUIRE(thread.registers);
    const auto has = [&](uint32_t number, Address value) {
      return std::find(words.begin(), words.end(),
                       RegisterWord{thread.tid, number, value.value()}) != words.end();
    };
    CHECK(has(stack_register(Machine::kX86_64), thread.registers->stack_pointer));
    CHECK(has(RegisterWord::kThreadPointer, thread.registers->thread_pointer));
  }
}

}  // namespace heapsnap::live
