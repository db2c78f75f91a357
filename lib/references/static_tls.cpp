#include "references/static_tls.h"

#include <elf.h>

#include <algorithm>
#include <bit>
#include <set>
#include <string_view>

#include "heap/discovery/module_bytes.h"
#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestTls = 16 << 20;  // of one module
constexpr uint64_t kMostDtvEntries = 1 << 12;

enum class TlsWord { kNone, kOffset, kModule, kDescriptor };

TlsWord tls_word(Machine machine, uint32_t type) {
  switch (machine) {
    case Machine::kX86_64:
      return type == R_X86_64_TPOFF64    ? TlsWord::kOffset
             : type == R_X86_64_DTPMOD64 ? TlsWord::kModule
             : type == R_X86_64_TLSDESC  ? TlsWord::kDescriptor
                                         : TlsWord::kNone;
    case Machine::kAarch64:
      return type == R_AARCH64_TLS_TPREL    ? TlsWord::kOffset
             : type == R_AARCH64_TLS_DTPMOD ? TlsWord::kModule
             : type == R_AARCH64_TLSDESC    ? TlsWord::kDescriptor
                                            : TlsWord::kNone;
    case Machine::kI386:
      return type == R_386_TLS_TPOFF      ? TlsWord::kOffset
             : type == R_386_TLS_DTPMOD32 ? TlsWord::kModule
                                          : TlsWord::kNone;
  }
  return TlsWord::kNone;
}

// The program by its path; or else by what libraries lack: an interpreter and no name to be linked
// by (ld.so may have been started with the program as an argument).
uint32_t find_program(const LoadedModules& modules, const Process& process) {
  constexpr std::string_view kDeleted = " (deleted)";
  std::string_view exe = process.exe;
  if (exe.ends_with(kDeleted)) exe.remove_suffix(kDeleted.size());
  uint32_t by_kind = LoadedModules::kNone;
  for (uint32_t i = 0; i < modules.all().size(); ++i) {
    const ElfImage& image = modules[i].image();
    if (image.tls_segment() == nullptr) continue;
    if (modules[i].path() == exe) return i;
    const bool is_kind =
        image.type() == ET_EXEC || (image.has_interpreter() && !dynamic_value(image, DT_SONAME));
    if (is_kind && by_kind == LoadedModules::kNone) by_kind = i;
  }
  return by_kind;
}

bool is_sane(const ElfSegment& tls) {
  return tls.memory_size != 0 && tls.memory_size <= kLargestTls &&
         std::has_single_bit(std::max<uint64_t>(tls.alignment, 1)) && tls.alignment <= kLargestTls;
}

// elf/dl-tls.c, _dl_determine_tlsoffset(), for the first module.
int64_t offset_of_program(Machine machine, const ElfSegment& tls) {
  const uint64_t alignment = std::max<uint64_t>(tls.alignment, 1);
  const uint64_t first_byte = (0 - tls.address) & (alignment - 1);
  const auto aligned = [alignment](uint64_t size) {
    return (size + alignment - 1) & ~(alignment - 1);
  };
  if (machine == Machine::kAarch64) {
    constexpr uint64_t kControlBlock = 16;
    uint64_t offset = aligned(kControlBlock);
    if (offset - kControlBlock < first_byte) offset += alignment;
    return static_cast<int64_t>(offset - first_byte);
  }
  return -static_cast<int64_t>(aligned(tls.memory_size - std::min(first_byte, tls.memory_size)) +
                               first_byte);
}

class TlsSearch {
 public:
  TlsSearch(Target& target, const LoadedModules& modules)
      : target_(target), modules_(modules), machine_(target.process().machine) {}

  ModuleTls find() {
    for (const Thread& thread : target_.threads()) {
      if (!thread.registers || thread.registers->thread_pointer.is_null()) continue;
      const Address tp = thread.registers->thread_pointer;
      if (threads_.size() == kMostThreads) break;
      if (auto dtv = read_dtv(target_.memory(), machine_, tp)) {
        threads_.push_back({tp, std::move(*dtv)});
      }
    }
    program_ = find_program(modules_, target_.process());
    for (uint32_t i = 0; i < modules_.all().size(); ++i) look_at(i);
    keep_apart();
    return std::move(found_);
  }

 private:
  // Offsets are the same in all; a few settle it.
  static constexpr size_t kMostThreads = 16;
  struct ThreadDtv {
    Address thread_pointer;
    Dtv dtv;
  };

  void look_at(uint32_t number) {
    const LoadedModule& module = modules_[number];
    const ElfSegment* const tls = module.image().tls_segment();
    if (tls == nullptr || !is_sane(*tls)) return;
    std::optional<int64_t> offset;
    if (number == program_) {
      constexpr uint64_t kNumberOfProgram = 1;
      found_.modules.emplace(kNumberOfProgram, number);
      offset = offset_of_program(machine_, *tls);
    } else {
      offset = vote(number);
    }
    const auto place = std::find_if(found_.modules.begin(), found_.modules.end(),
                                    [number](const auto& each) { return each.second == number; });
    if (place != found_.modules.end()) {
      // What the loader has in its own table is right, where it has anything.
      const DtvOffset by_dtv = offset_by_dtv(place->first);
      if (by_dtv.is_known) offset = by_dtv.offset;
    }
    if (offset && is_possible(*offset, tls->memory_size)) {
      found_.blocks.push_back({number, *offset, tls->memory_size});
    }
  }

  bool is_possible(int64_t offset, uint64_t size) const {
    constexpr int64_t kFurthest = int64_t{kLargestTls} * 4;
    if (machine_ == Machine::kAarch64) return offset >= 0 && offset < kFurthest;
    return offset < 0 && offset > -kFurthest && size <= static_cast<uint64_t>(-offset);
  }

  std::optional<uint64_t> word_at(const LoadedModule& module, uint64_t address) {
    return read_word(target_.memory(), module.bias + address, word_size(machine_));
  }

  // What most of the module's GOT words say; remembers its number on the way.
  std::optional<int64_t> vote(uint32_t number) {
    const LoadedModule& module = modules_[number];
    const unsigned word = word_size(machine_);
    std::map<int64_t, size_t> votes;
    size_t voters = 0;
    constexpr size_t kMostVoters = 4096;
    for (const ElfRelocation& relocation : module.image().relocations()) {
      const TlsWord kind = tls_word(machine_, relocation.type);
      if (kind == TlsWord::kNone || voters == kMostVoters) continue;
      if (kind == TlsWord::kModule) {
        const auto value = word_at(module, relocation.offset);
        // Of a variable of another module it is that module's number.
        const bool is_own = place_in_block(module, relocation).has_value();
        if (value && is_own && *value != 0 && *value < kMostDtvEntries) {
          found_.modules.emplace(*value, number);
        }
        continue;
      }
      const auto in_block = place_in_block(module, relocation);
      const uint64_t at = relocation.offset + (kind == TlsWord::kDescriptor ? word : 0);
      const auto value = in_block ? word_at(module, at) : std::nullopt;
      if (!value) continue;
      const uint64_t difference = *value - *in_block;
      const int64_t offset =
          word == 4 ? static_cast<int32_t>(difference) : static_cast<int64_t>(difference);
      ++voters;
      // The argument of a descriptor for memory from malloc is an address.
      if (is_possible(offset, module.image().tls_segment()->memory_size)) ++votes[offset];
    }
    for (const auto& [offset, count] : votes) {
      if (count * 2 > voters) return offset;
    }
    return std::nullopt;
  }

  // Where in the module's own block the variable of a relocation lies; nothing when it may be
  // another module's.
  static std::optional<uint64_t> place_in_block(const LoadedModule& module,
                                                const ElfRelocation& relocation) {
    if (relocation.symbol == 0) return relocation.addend;
    const auto& symbols = module.image().dynamic_symbols();
    if (relocation.symbol >= symbols.size()) return std::nullopt;
    const ElfSymbol& symbol = symbols[relocation.symbol];
    if (!symbol.is_defined || symbol.type != STT_TLS) return std::nullopt;
    return symbol.value + relocation.addend;
  }

  // That of a static block is the same in all threads.
  struct DtvOffset {
    bool is_known = false;
    std::optional<int64_t> offset;
  };
  DtvOffset offset_by_dtv(uint64_t module_number) const {
    DtvOffset found;
    for (const ThreadDtv& thread : threads_) {
      for (const DtvEntry& entry : thread.dtv.entries) {
        if (entry.module != module_number) continue;
        const auto offset = static_cast<int64_t>(entry.block - thread.thread_pointer);
        if (!entry.to_free.is_null()) return {true, std::nullopt};
        if (found.is_known && found.offset != offset) return {true, std::nullopt};
        found = {true, offset};
      }
    }
    return found;
  }

  void keep_apart() {
    auto& blocks = found_.blocks;
    std::sort(blocks.begin(), blocks.end(),
              [](const StaticTlsBlock& a, const StaticTlsBlock& b) { return a.offset < b.offset; });
    std::vector<StaticTlsBlock> apart;
    for (const StaticTlsBlock& block : blocks) {
      const bool overlaps =
          !apart.empty() &&
          block.offset < apart.back().offset + static_cast<int64_t>(apart.back().size);
      if (!overlaps) apart.push_back(block);
    }
    blocks = std::move(apart);
  }

  Target& target_;
  const LoadedModules& modules_;
  Machine machine_;
  uint32_t program_ = LoadedModules::kNone;
  std::vector<ThreadDtv> threads_;
  ModuleTls found_;
};

}  // namespace

std::optional<Dtv> read_dtv(MemoryReader& memory, Machine machine, Address thread_pointer) {
  const unsigned word = word_size(machine);
  const uint64_t at = machine == Machine::kAarch64 ? 0 : word;
  const auto pointer = read_word(memory, thread_pointer + at, word);
  const uint64_t entry_size = uint64_t{2} * word;
  if (!pointer || *pointer < entry_size || *pointer % word != 0) return std::nullopt;
  Dtv dtv;
  dtv.begin = Address(*pointer) - entry_size;
  const auto length = read_word(memory, dtv.begin, word);
  if (!length || *length == 0 || *length > kMostDtvEntries) return std::nullopt;
  std::vector<std::byte> bytes((*length + 2) * entry_size);
  bytes.resize(memory.read(dtv.begin, bytes));
  const StructBytes fields(bytes, word);
  const uint64_t unallocated = word == 4 ? UINT32_MAX : UINT64_MAX;  // TLS_DTV_UNALLOCATED
  for (uint64_t i = 1; i <= *length; ++i) {
    const Address block(fields.word_at((i + 1) * entry_size));
    uint64_t to_free = fields.word_at((i + 1) * entry_size + word);
    if (block.is_null() || block.value() == unallocated) continue;
    // Up to glibc 2.24: whether the block is static.
    if (to_free < 4096) to_free = 0;
    dtv.entries.push_back({i, block, Address(to_free)});
  }
  return dtv;
}

ModuleTls find_module_tls(Target& target, const LoadedModules& modules) {
  return TlsSearch(target, modules).find();
}

}  // namespace heapsnap
