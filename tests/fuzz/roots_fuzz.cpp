// Memory of any contents, with threads whose registers are any: what is found in it of stacks,
// thread-local storage, roots, classes and structures. Regions are disjoint, in order and in
// readable mappings; types and names come out of bounded work.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "references/block_types.h"
#include "references/root_names.h"
#include "references/root_regions.h"
#include "references/stack_frames.h"
#include "tests/unit/heap/fake_target.h"
#include "tests/unit/references/fake_module.h"

namespace {

using namespace heapsnap;

constexpr Address kFuzzModule{0x10000};
constexpr Address kFuzzStack{0x20000};

void require_that(bool condition) {
  if (!condition) std::abort();
}

uint64_t word_of(std::span<const std::byte> data, size_t number) {
  uint64_t word = 0;
  if ((number + 1) * 8 <= data.size()) std::memcpy(&word, data.data() + number * 8, 8);
  return word;
}

// The first words are registers; what follows is laid out over the module's pages and the stack.
void fill(FakeTarget& target, std::span<const std::byte> data) {
  constexpr size_t kRegisterWords = 40;
  constexpr size_t kPiece = 4096;
  for (int i = 0; i < 2; ++i) {
    Registers registers;
    const size_t first = static_cast<size_t>(i) * 20;
    registers.instruction_pointer = Address(word_of(data, first));
    registers.stack_pointer = Address(word_of(data, first + 1));
    registers.thread_pointer = Address(word_of(data, first + 2));
    for (size_t k = 0; k < 16; ++k) {
      registers.general.values.at(k) = word_of(data, first + 3 + k);
    }
    registers.general.values[7] = registers.stack_pointer.value();
    registers.general.are_known = true;
    target.editable_threads().push_back({i + 1, "", registers});
  }
  std::span<const std::byte> rest = data.subspan(std::min(data.size(), kRegisterWords * 8));
  const std::vector<Address> pieces = {kFuzzModule + 0x1000, kFuzzModule + 0x2000, kFuzzStack,
                                       kFuzzStack + 0x1000};
  for (const Address piece : pieces) {
    const auto part = rest.first(std::min(rest.size(), kPiece));
    target.put_bytes(piece, part);
    rest = rest.subspan(part.size());
  }
}

void check_regions(const RootRegions& roots, const FakeTarget& target) {
  Address end;
  for (const RootRegion& region : roots.regions) {
    require_that(region.range.begin >= end && !region.range.is_empty());
    end = region.range.end;
    const Mapping& mapping = target.address_space().mappings().at(region.mapping);
    require_that(mapping.readable);
    require_that(mapping.range.contains(region.range.begin, region.range.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  FakeTarget target(Machine::kX86_64);
  target.editable_process().exe = "/bin/fuzz";
  test::FakeModule module;
  module.symbols = {{"_ZTV4Fuzz", 0x1000, 0x100},
                    {"table", 0x2000, 0x100},
                    {"word", 0, 8, STT_TLS},
                    {"code", 0x100, 0x100, STT_FUNC}};
  module.tls = {PT_TLS, PF_R, 0x1000, 0x1000, 0, 0x40, 16};
  module.load(target, kFuzzModule, "/bin/fuzz");
  target.map("20000-28000 rw-p 00000000 00:00 0");
  fill(target, bytes);

  const LoadedModules modules(target);
  const RootRegions roots = find_root_regions(target, modules, HeapModel(), {});
  check_regions(roots, target);
  const std::vector<ThreadFrames> stacks = unwind_stacks(target, modules, {64, 100});
  require_that(stacks.size() == 2 && stacks[0].frames.size() <= 64);

  std::vector<RootWord> words;
  for (uint32_t i = 0; i < roots.regions.size(); ++i) {
    words.push_back({roots.regions[i].range.begin, i});
    words.push_back({roots.regions[i].range.end - 8, i});
  }
  const auto registers = register_words(target);
  const NamedRoots named =
      name_roots({roots, modules, stacks, target.address_space(), Machine::kX86_64}, words,
                 registers, DebugFileSearch());
  require_that(named.place_of.size() == words.size() + registers.size());
  for (const uint32_t place : named.place_of) require_that(place < named.places.size());

  BlockTypeList types;
  std::vector<uint64_t> first_words;
  for (uint64_t at = 0; at < 0x2000; at += 8)
    first_words.push_back((kFuzzModule + 0x1000 + at).value());
  VtableTypes found = find_vtable_types(target, modules, first_words, types);
  name_by_symbols(found, modules, DebugFileSearch(), types);
  for (const VtableType& one : found.known) require_that(one.type < types.all().size());
  const BlockWord block{kFuzzStack, 4096,
                        target.memory().read_value<uint64_t>(kFuzzStack).value_or(0)};
  require_that(find_structure_types(target, modules, std::span(&block, 1), types).size() == 1);
  find_thread_blocks(target, modules, HeapModel(), types);
  return 0;
}
