#include "references/root_names.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "references/variable_names.h"
#include "tracking/demangle.h"
#include "tracking/function_name.h"
#include "tracking/module_symbols.h"

namespace heapsnap {

namespace {

// The frames of all threads, to find the one that holds a word.
class FrameIndex {
 public:
  struct Frame {
    AddressRange range;
    Address code;
    int32_t tid = 0;
  };

  FrameIndex(Machine machine, const std::vector<ThreadFrames>& stacks) {
    // What the innermost function may use below the stack pointer.
    const uint64_t red_zone = machine == Machine::kX86_64 ? 128 : 0;
    // How far a frame reaches is not known of the last one, where unwinding has ended, and of one
    // that lies on another stack than its caller's, which holds a signal's context with all vector
    // registers.
    constexpr uint64_t kMostOfLast = 512;
    constexpr uint64_t kMostOnSignalStack = 16 << 10;
    for (const ThreadFrames& stack : stacks) {
      for (size_t i = 0; i < stack.frames.size(); ++i) {
        const StackFrame& frame = stack.frames[i];
        const Address begin = frame.begin - (i == 0 ? std::min(red_zone, frame.begin.value()) : 0);
        Address end = frame.begin + kMostOfLast;
        if (i + 1 < stack.frames.size()) {
          const Address next = stack.frames[i + 1].begin;
          const bool is_elsewhere = next < frame.begin || next - frame.begin > kLargestFrame;
          end = is_elsewhere ? frame.begin + kMostOnSignalStack : next;
        }
        if (begin < end) frames_.push_back({{begin, end}, frame.code, stack.tid});
      }
    }
    std::sort(frames_.begin(), frames_.end(),
              [](const Frame& a, const Frame& b) { return a.range < b.range; });
  }

  const Frame* find(Address address) const {
    const auto behind = std::upper_bound(
        frames_.begin(), frames_.end(), address,
        [](Address wanted, const Frame& frame) { return wanted < frame.range.begin; });
    if (behind == frames_.begin()) return nullptr;
    const Frame& frame = *std::prev(behind);
    return frame.range.contains(address) ? &frame : nullptr;
  }

 private:
  static constexpr uint64_t kLargestFrame = 1 << 30;
  std::vector<Frame> frames_;
};

class RootNaming {
 public:
  RootNaming(const RootContext& context, const DebugFileSearch& debug_files)
      : context_(context),
        debug_files_(debug_files),
        frames_(context.machine, context.stacks),
        of_module_(context.modules.all().size()) {}

  NamedRoots run(std::span<const RootWord> words, std::span<const RegisterWord> registers) {
    found_.place_of.resize(words.size() + registers.size());
    for (size_t i = 0; i < words.size(); ++i) sort_out(words[i], i);
    for (size_t i = 0; i < registers.size(); ++i) {
      found_.place_of[words.size() + i] = register_place(registers[i]);
    }
    for (uint32_t i = 0; i < of_module_.size(); ++i) name_module(i);
    return std::move(found_);
  }

 private:
  struct WantedVariable {
    size_t word = 0;
    int32_t tid = 0;  // of a thread-local one
    Address block;    // where that thread's block begins
    uint64_t block_size = 0;
    uint64_t address = 0;  // in the file, or in the block
  };
  struct WantedFunction {
    uint32_t place = 0;
    uint64_t address = 0;  // in the file
  };
  struct OfModule {
    std::vector<WantedVariable> variables;
    std::vector<WantedVariable> thread_locals;
    std::vector<WantedFunction> functions;
  };

  // Gives the word its place, or leaves that to its module's names.
  void sort_out(const RootWord& word, size_t number) {
    const RootRegion& region = context_.roots.regions[word.region];
    switch (region.kind) {
      case RootKind::kVariable:
        of_module_[region.module].variables.push_back(
            {number, 0, {}, 0, context_.modules[region.module].file_address(word.address)});
        return;
      case RootKind::kThreadLocal: sort_out_storage(word, region, number); return;
      case RootKind::kStack:
      case RootKind::kMapping:
        if (const FrameIndex::Frame* const frame = frame_of(word.address, region)) {
          found_.place_of[number] = frame_place(*frame);
          return;
        }
        break;
      case RootKind::kRegister:
      case RootKind::kGlobal:
      case RootKind::kLocal: break;
    }
    found_.place_of[number] =
        region.kind == RootKind::kStack ? stack_place(region) : mapping_place(region);
  }

  // What may not be read is of no frame, but of the mapping beside that of a stack.
  const FrameIndex::Frame* frame_of(Address address, const RootRegion& region) const {
    const bool may_be_of_frame = context_.space.mappings()[region.mapping].readable;
    return may_be_of_frame ? frames_.find(address) : nullptr;
  }

  void sort_out_storage(const RootWord& word, const RootRegion& region, size_t number) {
    const auto offset = static_cast<int64_t>(word.address - region.thread_pointer);
    for (const StaticTlsBlock& block : context_.roots.tls.blocks) {
      if (offset < block.offset || offset >= block.offset + static_cast<int64_t>(block.size)) {
        continue;
      }
      const Address begin = region.thread_pointer + static_cast<uint64_t>(block.offset);
      of_module_[block.module].thread_locals.push_back(
          {number, region.tid, begin, block.size, word.address - begin});
      return;
    }
    RootPlace place;
    place.kind = RootKind::kThreadLocal;
    place.tid = region.tid;
    const bool is_behind = word.address >= region.thread_pointer;
    if (is_behind != (context_.machine == Machine::kAarch64)) place.name = kControlBlockName;
    place.begin = is_behind ? region.thread_pointer : region.range.begin;
    place.size = (is_behind ? region.range.end : region.thread_pointer) - place.begin;
    found_.place_of[number] = add(std::move(place));
  }

  uint32_t register_place(const RegisterWord& word) {
    RootPlace place;
    place.kind = RootKind::kRegister;
    place.tid = word.tid;
    place.name = register_name(word.number);
    const auto number = static_cast<uint32_t>(found_.places.size());
    found_.places.push_back(std::move(place));
    return number;
  }

  const char* register_name(uint32_t number) const {
    switch (number) {
      case RegisterWord::kThreadPointer: return thread_pointer_name();
      case RegisterWord::kVector: return "xmm";
      case RegisterWord::kOtherBase: return "gs_base";
      default: return general_register_name(context_.machine, number);
    }
  }

  const char* thread_pointer_name() const {
    switch (context_.machine) {
      case Machine::kX86_64: return "fs_base";
      case Machine::kAarch64: return "tpidr_el0";
      case Machine::kI386: break;
    }
    return "gs_base";
  }

  uint32_t frame_place(const FrameIndex::Frame& frame) {
    RootPlace place;
    place.kind = RootKind::kStack;
    place.tid = frame.tid;
    place.begin = frame.range.begin;
    place.size = frame.range.size();
    const uint32_t module = context_.modules.find(frame.code);
    if (module != LoadedModules::kNone) place.module = context_.modules[module].path();
    const size_t before = found_.places.size();
    const uint32_t number = add(std::move(place));
    if (number == before && module != LoadedModules::kNone) {
      of_module_[module].functions.push_back(
          {number, context_.modules[module].file_address(frame.code)});
    }
    return number;
  }

  uint32_t stack_place(const RootRegion& region) {
    RootPlace place;
    place.kind = RootKind::kStack;
    place.tid = region.tid;
    place.begin = region.range.begin;
    place.size = region.range.size();
    return add(std::move(place));
  }

  uint32_t mapping_place(const RootRegion& region) {
    const Mapping& mapping = context_.space.mappings()[region.mapping];
    RootPlace place;
    place.kind = RootKind::kMapping;
    place.name = mapping.path;
    place.begin = mapping.range.begin;
    place.size = mapping.range.size();
    return add(std::move(place));
  }

  void name_module(uint32_t number) {
    const OfModule& wanted = of_module_[number];
    const bool has_variables = !wanted.variables.empty() || !wanted.thread_locals.empty();
    if (!has_variables && wanted.functions.empty()) return;
    const LoadedModule& module = context_.modules[number];
    auto debug_file = debug_files_.find(module.image(), module.path());
    if (has_variables) {
      const VariableNames names(module.image(), debug_file ? &*debug_file : nullptr);
      for (const WantedVariable& one : wanted.variables) {
        found_.place_of[one.word] = variable_place(module, names, one.address);
      }
      for (const WantedVariable& one : wanted.thread_locals) {
        found_.place_of[one.word] = thread_local_place(module, names, one);
      }
    }
    if (wanted.functions.empty()) return;
    // Of its own, as it takes the image.
    ModuleSymbols functions(ElfImage::from_bytes(module.image().file_bytes(), module.path()),
                            std::move(debug_file), label_of(number));
    for (const WantedFunction& one : wanted.functions) {
      if (std::string name = functions.function_at(one.address); !name.empty()) {
        found_.places[one.place].name = std::move(name);
        found_.places[one.place].module_offset = functions.begin_of_function(one.address);
      }
    }
  }

  std::string label_of(uint32_t number) {
    if (labels_.empty()) {
      std::vector<TrackedModule> modules(context_.modules.all().size());
      for (size_t i = 0; i < modules.size(); ++i) {
        modules[i].path = context_.modules[static_cast<uint32_t>(i)].path();
      }
      labels_ = module_labels(modules);
    }
    return labels_[number];
  }

  uint32_t variable_place(const LoadedModule& module, const VariableNames& names,
                          uint64_t address) {
    const auto variable = names.variable_at(address);
    const FileExtent extent = variable ? FileExtent{variable->begin, variable->size}
                                       : section_extent(module.image(), address);
    const Address begin = module.bias + extent.begin;
    // A variable may begin where its section does.
    const auto [number, is_new] =
        enter({RootKind::kVariable, 0, begin, extent.size, variable.has_value()});
    if (is_new) {
      RootPlace& place = found_.places[number];
      place.kind = RootKind::kVariable;
      place.module = module.path();
      place.begin = begin;
      place.size = extent.size;
      place.module_offset = extent.begin;
      if (variable) place.name = name_of(*variable);
    }
    return number;
  }

  uint32_t thread_local_place(const LoadedModule& module, const VariableNames& names,
                              const WantedVariable& wanted) {
    const auto variable = names.thread_local_at(wanted.address);
    const uint64_t offset = variable ? variable->begin : 0;
    const uint64_t size = variable ? variable->size : wanted.block_size;
    const Address begin = wanted.block + offset;
    const auto [number, is_new] =
        enter({RootKind::kThreadLocal, wanted.tid, begin, size, variable.has_value()});
    if (is_new) {
      const ElfSegment* const tls = module.image().tls_segment();
      RootPlace& place = found_.places[number];
      place.kind = RootKind::kThreadLocal;
      place.tid = wanted.tid;
      place.module = module.path();
      place.begin = begin;
      place.size = size;
      place.module_offset = (tls == nullptr ? 0 : tls->address) + offset;
      if (variable) place.name = name_of(*variable);
    }
    return number;
  }

  // "cache", or "cache (orders.cpp)".
  static std::string name_of(const NamedVariable& variable) {
    std::string name = demangled_variable(std::string(variable.symbol).c_str());
    return variable.file.empty() ? name : name + " (" + std::string(variable.file) + ")";
  }

  struct FileExtent {
    uint64_t begin = 0;
    uint64_t size = 0;
  };
  static FileExtent section_extent(const ElfImage& image, uint64_t address) {
    for (const ElfSection& section : image.sections()) {
      const bool is_loaded = (section.flags & SHF_ALLOC) != 0 && (section.flags & SHF_TLS) == 0;
      if (is_loaded && section.address <= address && address - section.address < section.size) {
        return {section.address, section.size};
      }
    }
    const ElfSegment* const segment = image.segment_of(address);
    return segment == nullptr ? FileExtent{address, 0}
                              : FileExtent{segment->address, segment->memory_size};
  }

  // The number of a place, and whether it is yet to be filled in.
  using Key = std::tuple<RootKind, int32_t, Address, uint64_t, bool>;
  std::pair<uint32_t, bool> enter(const Key& key) {
    const auto [entry, is_new] =
        number_of_.try_emplace(key, static_cast<uint32_t>(found_.places.size()));
    if (is_new) found_.places.emplace_back();
    return {entry->second, is_new};
  }
  uint32_t add(RootPlace place) {
    const auto [number, is_new] =
        enter({place.kind, place.tid, place.begin, place.size, !place.name.empty()});
    if (is_new) found_.places[number] = std::move(place);
    return number;
  }

  const RootContext& context_;
  const DebugFileSearch& debug_files_;
  FrameIndex frames_;
  NamedRoots found_;
  std::map<Key, uint32_t> number_of_;
  std::vector<OfModule> of_module_;
  std::vector<std::string> labels_;
};

}  // namespace

NamedRoots name_roots(const RootContext& context, std::span<const RootWord> words,
                      std::span<const RegisterWord> registers, const DebugFileSearch& debug_files) {
  return RootNaming(context, debug_files).run(words, registers);
}

}  // namespace heapsnap
