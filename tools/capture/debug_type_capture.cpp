#include "tools/capture/debug_type_capture.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "analysis/node_links.h"
#include "base/clock.h"
#include "base/file_name.h"
#include "elf/dwarf_image.h"
#include "elf/unpacked_size.h"
#include "references/container_storage.h"

namespace heapsnap {

namespace {

constexpr size_t kMostFramesOfModule = 512;
// Those of BlockShape, and an array that a container keeps its elements in.
constexpr unsigned kOfContainer = 4;
constexpr unsigned kShapes = kOfContainer + 1;

// "libc.so.6", "libm-2.31.so", "ld-linux-x86-64.so.2"
bool is_of_c_library(std::string_view path) {
  static constexpr std::array<std::string_view, 8> kBeginnings = {
      "libc.so", "libc-2.", "libm.so", "libm-2.", "ld.so", "ld-2.", "ld-linux", "ld64.so"};
  const std::string_view name = file_name_of(path);
  return std::ranges::any_of(kBeginnings,
                             [name](std::string_view one) { return name.starts_with(one); });
}

uint64_t size_of_debug_information(const ElfImage& file) {
  uint64_t bytes = unpacked_size(file);
  for (const ElfSection& section : file.sections()) {
    if (section.name.starts_with(".debug_") && bytes < UINT64_MAX - section.size) {
      bytes += section.size;
    }
  }
  return bytes;
}

}  // namespace

// Questions of one module, and the blocks that the answers are of.
struct DebugTypeCapture::Asked {
  struct Word {
    uint64_t at = 0;
    BlockNumber block = kNoBlock;
    bool operator<(const Word& other) const { return at < other.at; }
  };
  std::vector<Word> variables;
  std::vector<Word> thread_locals;
  std::vector<TypeQuestions::Frame> frames;
  std::vector<std::vector<BlockNumber>> blocks_of_frames;
};

namespace {

std::vector<uint64_t> places_of(const auto& words) {
  std::vector<uint64_t> places;
  places.reserve(words.size());
  for (const auto& word : words) places.push_back(word.at);
  return places;
}

void add_claims(const auto& words, const std::vector<Pointee>& answers,
                std::vector<BlockTyping::Claim>& claims) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (answers[i].type != 0) claims.push_back({words[i].block, answers[i]});
  }
}

}  // namespace

DebugTypeCapture::DebugTypeCapture(const LoadedModules& modules, const DebugFileSearch& debug_files,
                                   const Limits& limits)
    : limits_(limits) {
  for (const LoadedModule& module : modules.all()) {
    const bool is_there =
        std::any_of(sources_.begin(), sources_.end(),
                    [&module](const Source& source) { return source.module == module.file; });
    if (is_there || module.file->is_from_memory || is_of_c_library(module.path())) continue;
    Source source{module.file, std::nullopt};
    if (!may_describe_types(module.image())) {
      source.debug_file = debug_files.find(module.image(), module.path());
      if (!source.debug_file || !may_describe_types(*source.debug_file)) continue;
    }
    if (size_of_debug_information(source.image()) > limits_.most_file_bytes) {
      notes_.push_back("types by the debug information of " + module.path() +
                       " are left out: there is too much of it");
      continue;
    }
    sources_.push_back(std::move(source));
  }
  // What libraries define for the program comes after what the program declares.
  std::stable_partition(sources_.begin(), sources_.end(), [](const Source& source) {
    return source.module->image.has_interpreter();
  });
}

DebugTypeCapture::~DebugTypeCapture() = default;

DebugTypeCapture::ClassKey DebugTypeCapture::key_of(const BlockType& type) {
  const bool is_local = type.name.find("(anonymous namespace)") != std::string::npos;
  return {type.name, is_local ? type.module : std::string()};
}

void DebugTypeCapture::run(const Known& known) {
  if (known.edges.is_cut_off()) {
    notes_.emplace_back(
        "types by debug information are left out: memory is too short for the references");
    return;
  }
  std::vector<Asked> asked(known.context.modules.all().size());
  ask_for_words(known, asked);
  for (const BlockType& entry : known.entries) {
    if (entry.source == TypeSource::kVtable) classes_.emplace(key_of(entry), 0);
  }
  DebugTypeLimits limits;
  limits.deadline_ns = monotonic_ns() + limits_.patience_ns;
  debug_types_ = std::make_unique<DebugTypes>(limits);
  type_modules_.resize(1);
  Claims claims;
  for (const Source& source : sources_) {
    // One that is loaded several times is asked about its first place.
    const auto& modules = known.context.modules.all();
    const auto module =
        std::find_if(modules.begin(), modules.end(),
                     [&source](const LoadedModule& one) { return one.file == source.module; });
    if (module != modules.end()) {
      read(source, asked[static_cast<size_t>(module - modules.begin())], claims);
    }
  }
  if (debug_types_->is_cut_off()) {
    notes_.emplace_back(
        "types by debug information are incomplete: there is more of it than is read");
  }
  follow(known, claims);
}

// The words of variables and of stack frames that lead to first bytes of blocks.
void DebugTypeCapture::ask_for_words(const Known& known, std::vector<Asked>& asked) {
  const RootContext& context = known.context;
  std::vector<std::pair<Address, BlockNumber>> on_stacks;
  for (size_t i = 0; i < known.words.size(); ++i) {
    if (known.roots[i].interior) continue;
    const RootWord& word = known.words[i];
    const RootRegion& region = context.roots.regions[word.region];
    const BlockNumber block = known.roots[i].target;
    if (region.kind == RootKind::kVariable) {
      asked[region.module].variables.push_back(
          {context.modules[region.module].file_address(word.address), block});
    } else if (region.kind == RootKind::kThreadLocal) {
      const auto offset = static_cast<int64_t>(word.address - region.thread_pointer);
      for (const StaticTlsBlock& tls : context.roots.tls.blocks) {
        if (offset < tls.offset || offset >= tls.offset + static_cast<int64_t>(tls.size)) continue;
        asked[tls.module].thread_locals.push_back(
            {static_cast<uint64_t>(offset - tls.offset), block});
      }
    } else {
      on_stacks.emplace_back(word.address, block);
    }
  }
  std::sort(on_stacks.begin(), on_stacks.end());
  for (const ThreadFrames& thread : context.stacks) {
    for (size_t i = 0; i + 1 < thread.frames.size(); ++i) {
      const uint32_t module = context.modules.find(thread.frames[i].code);
      if (module == LoadedModules::kNone || asked[module].frames.size() >= kMostFramesOfModule) {
        continue;
      }
      // Where the caller's frame begins once the function has returned.
      const AddressRange frame{thread.frames[i].begin, thread.frames[i + 1].begin};
      TypeQuestions::Frame question{context.modules[module].file_address(thread.frames[i].code),
                                    {}};
      std::vector<BlockNumber> blocks;
      auto word = std::lower_bound(on_stacks.begin(), on_stacks.end(),
                                   std::pair(frame.begin, BlockNumber{0}));
      for (; word != on_stacks.end() && word->first < frame.end; ++word) {
        question.words.push_back(-static_cast<int64_t>(frame.end - word->first));
        blocks.push_back(word->second);
      }
      if (blocks.empty()) continue;
      asked[module].frames.push_back(std::move(question));
      asked[module].blocks_of_frames.push_back(std::move(blocks));
    }
  }
}

void DebugTypeCapture::read(const Source& source, Asked& asked, Claims& claims) {
  std::sort(asked.variables.begin(), asked.variables.end());
  std::sort(asked.thread_locals.begin(), asked.thread_locals.end());
  TypeQuestions questions;
  questions.variables = places_of(asked.variables);
  questions.thread_locals = places_of(asked.thread_locals);
  questions.frames = std::move(asked.frames);
  std::vector<DebugTypeNumber*> wanted;
  for (auto& [key, type] : classes_) {
    if (type != 0 || (!key.module.empty() && key.module != source.module->path)) continue;
    questions.classes.push_back(key.name);
    wanted.push_back(&type);
  }
  const TypeAnswers answers = debug_types_->read(source.image(), questions);
  type_modules_.resize(debug_types_->graph().types.size(), source.module->path);
  for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = answers.classes[i];
  add_claims(asked.variables, answers.variables, claims.of_variables);
  add_claims(asked.thread_locals, answers.thread_locals, claims.of_variables);
  for (size_t i = 0; i < answers.frames.size(); ++i) {
    for (size_t word = 0; word < answers.frames[i].size(); ++word) {
      const Pointee to = answers.frames[i][word];
      if (to.type != 0) claims.of_frames.push_back({asked.blocks_of_frames[i][word], to});
    }
  }
}

void DebugTypeCapture::follow(const Known& known, const Claims& claims) {
  const TypeGraph& graph = debug_types_->graph();
  number_of_.resize(graph.types.size() * kShapes);
  word_ = word_size(known.context.machine);
  typing_ =
      std::make_unique<BlockTyping>(graph, known.edges, known.context.machine, known.slack_words);
  std::vector<DebugTypeNumber> type_of_entry(known.entries.size());
  for (TypeNumber entry = 1; entry < known.entries.size(); ++entry) {
    const TypeNumber elements = known.elements[entry];
    const auto found = classes_.find(key_of(known.entries[elements != 0 ? elements : entry]));
    if (found != classes_.end()) type_of_entry[entry] = found->second;
  }
  // Where the entry of unknown types is the only one, no block has another.
  const BlockNumber blocks = known.entries.size() == 1 ? 0 : known.edges.blocks();
  auto slack = known.slack_words.begin();
  for (BlockNumber block = 0; block < blocks; ++block) {
    const TypeNumber entry = known.block_entries[block];
    if (entry == 0) continue;
    while (slack != known.slack_words.end() && slack->block < block) ++slack;
    const bool is_destroyed =
        slack != known.slack_words.end() && slack->block == block && slack->are_all();
    if (type_of_entry[entry] == 0 || is_destroyed) {
      typing_->add_undescribed(block);
      continue;
    }
    const bool is_array = known.elements[entry] != 0;
    typing_->add_known({block, type_of_entry[entry], is_array, known.elements_at[entry]});
  }
  typing_->run(claims.of_variables, claims.of_frames);
  if (typing_->has_too_many_disputes()) {
    notes_.emplace_back(
        "types by debug information are incomplete: the pointers to too many blocks contradict "
        "each other");
  }
}

uint64_t DebugTypeCapture::pointers_of(const DebugType& type) const {
  constexpr uint64_t kMostWords = 64;
  uint64_t words = 0;
  for (const PointerMember& pointer : type.pointers) {
    uint64_t offset = pointer.offset;
    for (uint64_t i = 0; i < pointer.count && offset / word_ < kMostWords; ++i) {
      if (offset % word_ == 0) words |= uint64_t{1} << (offset / word_);
      if (pointer.stride == 0) break;
      offset += pointer.stride;
    }
  }
  return words;
}

void DebugTypeCapture::describe(BlockType& named, const DebugType& type) const {
  named.pointers = pointers_of(type);
  named.bytes = type.is_open_ended || type.is_beginning ? 0 : type.size;
}

void DebugTypeCapture::describe(BlockType& named) const {
  const auto found = classes_.find(key_of(named));
  if (found == classes_.end() || !debug_types_) return;
  describe(named, debug_types_->graph().types[found->second]);
}

TypeNumber DebugTypeCapture::type_of(BlockNumber block, bool has_elements) {
  return typing_ ? number_of(typing_->type_of(block), has_elements) : 0;
}

bool DebugTypeCapture::is_contradicted(BlockNumber block, StorageKind kind) const {
  if (!typing_ || typing_->is_sure(block)) return false;
  const TypedBlock typed = typing_->type_of(block);
  const std::string& name = debug_types_->graph().types[typed.type].name;
  switch (kind) {
    case StorageKind::kArray: return typed.shape != BlockShape::kArray;
    case StorageKind::kText:
    case StorageKind::kText16:
    case StorageKind::kText32: return typed.shape != BlockShape::kText;
    case StorageKind::kListNode:
    case StorageKind::kTreeNode:
    case StorageKind::kHashNode:
      return typed.shape != BlockShape::kObject ||
             node_template({name, "", TypeSource::kDebugInfo}).empty();
    default: return false;
  }
}

std::vector<UnusedWord> DebugTypeCapture::find_unused_words() const {
  return typing_ ? typing_->find_unused_words() : std::vector<UnusedWord>();
}

bool DebugTypeCapture::is_of_container(BlockNumber block) const {
  return typing_ && typing_->is_of_container(block);
}

bool DebugTypeCapture::is_other_array(BlockNumber block) const {
  return typing_ && typing_->type_of(block).shape == BlockShape::kArray && !is_of_container(block);
}

TypeNumber DebugTypeCapture::whole_of(BlockNumber block) {
  return typing_ ? number_of(typing_->whole_of(block), false) : 0;
}

TypeNumber DebugTypeCapture::number_of(const TypedBlock& typed, bool has_elements) {
  if (typed.type == 0) return 0;
  const bool is_of_container = has_elements && typed.shape == BlockShape::kArray;
  const unsigned shape = is_of_container ? kOfContainer : static_cast<unsigned>(typed.shape);
  TypeNumber& number = number_of_[typed.type * kShapes + shape];
  if (number != 0) return number;
  number = static_cast<TypeNumber>(types_.size());
  const DebugType& type = debug_types_->graph().types[typed.type];
  BlockType named{type.name, type_modules_[typed.type], TypeSource::kDebugInfo};
  switch (typed.shape) {
    case BlockShape::kObject: describe(named, type); break;
    case BlockShape::kArray:
      named.name += "[]";
      if (is_of_container) named.pointers = ~uint64_t{0};
      break;
    case BlockShape::kText: named.name = to_string(text_of(type.size)); break;
    case BlockShape::kBuckets: named.name = to_string(StorageKind::kHashBuckets); break;
  }
  const bool is_of_nobody = type.is_scalar || named.name.starts_with("std::");
  if (is_of_nobody) named.module.clear();
  types_.push_back(std::move(named));
  is_plain_.push_back(type.is_scalar && typed.shape != BlockShape::kText);
  return number;
}

}  // namespace heapsnap
