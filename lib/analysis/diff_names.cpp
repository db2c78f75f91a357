#include "analysis/diff_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "analysis/block_facts.h"
#include "analysis/program_build.h"
#include "base/file_name.h"
#include "references/local_name.h"
#include "tracking/function_name.h"

namespace heapsnap {

namespace {

constexpr std::string_view kNoFile = "code of no file";
constexpr std::string_view kNoFrames = "a stack without frames";
constexpr std::string_view kCallOf = " ← ";

std::string hex(uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

// "counter" of "counter.1234": compilers number static variables of functions in each build anew.
std::string_view unnumbered(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || dot + 1 == name.size()) return name;
  const bool is_number = name.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
  return is_number ? name.substr(0, dot) : name;
}

// Without what tells the parts apart that a compiler makes of a function.
std::string_view without_clone(std::string_view function) {
  return function.substr(0, function.find(" [clone "));
}

bool is_structure(const OwnerNode& node) {
  return node.least_size == node.most_size && node.least_size <= kLargestStructure;
}

}  // namespace

std::string unversioned_name(std::string_view path) {
  constexpr std::string_view kLibrary = ".so";
  const std::string_view file = file_name_of(path);
  const size_t end = file.find(".so.");
  return std::string(end == std::string_view::npos ? file : file.substr(0, end + kLibrary.size()));
}

ThreadNames thread_names_of(const SnapshotMetadata& metadata) {
  const bool are_known =
      std::all_of(metadata.threads.begin(), metadata.threads.end(), [&](const Thread& thread) {
        return !thread.name.empty() || thread.tid == metadata.process.pid;
      });
  return are_known ? ThreadNames::kKnown : ThreadNames::kUnknown;
}

RootNames::RootNames(const SnapshotMetadata& metadata, NameScope scope, ThreadNames threads)
    : metadata_(metadata), scope_(scope) {
  for (const Thread& thread : metadata.threads) {
    if (thread.tid == metadata.process.pid) {
      threads_.emplace(thread.tid, metadata.process.comm);
    } else if (threads == ThreadNames::kKnown) {
      threads_.emplace(thread.tid, thread.name);
    }
  }
}

std::string RootNames::thread_name(int32_t tid) const {
  const auto thread = threads_.find(tid);
  if (thread == threads_.end() || thread->second.empty()) return "a thread";
  // A thread without a name of its own has that of the program's file, which a new build may not.
  const bool is_programs = thread->second == metadata_.process.comm;
  return scope_ == NameScope::kSeveralBuilds && is_programs ? "the program" : thread->second;
}

std::string RootNames::variable_name(const RootPlace& place) const {
  const bool is_program = path_of_program(place.module) == path_of_program(metadata_.process.exe);
  const std::string module = unversioned_name(path_of_program(place.module));
  if (place.name.empty()) {
    if (place.module.empty()) return "variables without a name";
    if (scope_ == NameScope::kOneBuild) return module + "+" + hex(place.module_offset);
    return "variables without a name in " + (is_program ? "the program" : module);
  }
  const std::string name(scope_ == NameScope::kOneBuild ? std::string_view(place.name)
                                                        : unnumbered(place.name));
  // A global is of the interpreted program, whatever file the interpreter is.
  const bool is_of_program = is_program || place.kind == RootKind::kGlobal;
  return is_of_program || module.empty() ? name : name + " in " + module;
}

std::string RootNames::of(const RootPlace& place) const {
  switch (place.kind) {
    case RootKind::kVariable:
    case RootKind::kGlobal: return variable_name(place);
    // Of the same function elsewhere in it, and in whatever thread.
    case RootKind::kLocal: return std::string(local_without_line(place.name));
    case RootKind::kThreadLocal:
      return (place.name.empty() ? "a variable" : variable_name(place)) + ", thread-local of " +
             thread_name(place.tid);
    case RootKind::kStack:
      if (place.name.empty()) return thread_name(place.tid) + ", on its stack";
      return thread_name(place.tid) + ", in " + std::string(without_clone(place.name));
    case RootKind::kRegister: return thread_name(place.tid) + ", in registers";
    case RootKind::kMapping: break;
  }
  return place.name.empty() ? "anonymous memory" : place.name;
}

std::string RootNames::shown(const RootPlace& place) const {
  const uint64_t word = word_size(metadata_.process.machine);
  const bool is_variable = place.kind == RootKind::kVariable && place.name.empty();
  const bool has_offset = scope_ == NameScope::kOneBuild && !place.module.empty();
  if (!is_variable || !has_offset || place.size <= word) return of(place);
  return of(place) + " to +" + hex(place.module_offset + place.size - word);
}

std::string owner_name(const OwnerSum& owner, const OwnerSums& sums, const RootNames& roots) {
  return owner.is_several ? std::string(kSeveralRoots) : roots.of(sums.places[owner.place]);
}

std::string blocks_name(const OwnerNode& node, const std::vector<BlockType>& types) {
  if (node.type != 0 && node.type < types.size()) return types[node.type].name;
  if (!node.has_references) return "blocks without references";
  if (!is_structure(node)) return "arrays of references";
  return "blocks of " + std::to_string(node.least_size) + " bytes";
}

SaidSizes sizes_to_say(const OwnerNode& node) {
  const bool has_name = node.type != 0 || (node.has_references && is_structure(node));
  if (node.kind != OwnerNode::Kind::kBlocks || has_name) return {};
  return {node.least_size, node.most_size};
}

std::string context_name(const BlockContext& context, const ReferenceStreams& references,
                         const RootNames& roots) {
  using Holder = BlockContext::Holder;
  std::string holder;
  switch (context.kind) {
    case Holder::kNothing: return "unknown type, held by nothing";
    case Holder::kVarious: return "unknown type, held here and there";
    case Holder::kType:
      holder = context.holder < references.types.size() ? references.types[context.holder].name
                                                        : std::string();
      break;
    case Holder::kRoot:
      if (context.holder < references.places.size()) {
        holder = roots.of(references.places[context.holder]);
      }
      break;
    case Holder::kSize: holder = "blocks of " + std::to_string(context.holder) + " bytes"; break;
    case Holder::kArray: holder = "arrays"; break;
  }
  if (context.held_at != BlockContext::kSomewhere) holder += "+" + hex(context.held_at);
  return "unknown type, held by " + holder;
}

DiffStackNames::DiffStackNames(const RecordedStacks& recorded, const TrackerRecord& tracker,
                               NameScope scope, PassedFrames passed)
    : recorded_(recorded),
      scope_(scope),
      passed_(std::move(passed)),
      by_node_(recorded.stacks.nodes.size()),
      roles_(recorded.symbols.strings().size()) {
  for (const TrackedModule& module : tracker.modules) {
    modules_.push_back(module.path.empty() ? "the program" : unversioned_name(module.path));
  }
}

const std::vector<DiffStackNames::Frame>& DiffStackNames::frames_at(uint32_t node) {
  std::vector<Frame>& frames = by_node_[node];
  if (!frames.empty()) return frames;
  const CallNode& call = recorded_.stacks.nodes[node];
  const bool has_module = call.module >= 0 && static_cast<size_t>(call.module) < modules_.size();
  const std::string_view module =
      has_module ? std::string_view(modules_[static_cast<size_t>(call.module)]) : kNoFile;
  for (const SourceFrame& frame : recorded_.symbols.at(call.module, call.return_address)) {
    const std::string& function = recorded_.symbols.text(frame.function);
    if (function.empty()) continue;
    std::optional<FrameRole>& role = roles_[frame.function];
    if (frame.language != FrameLanguage::kNative) {
      frames.push_back({function, passed_.role_of(function, frame.language)});
      continue;
    }
    if (!role) role = passed_.role_of(function);
    const bool is_start = scope_ == NameScope::kSeveralBuilds && is_name_of_start(function);
    frames.push_back({is_start ? module : without_clone(function), *role});
  }
  if (frames.empty()) frames.push_back({module, FrameRole::kOwn});
  return frames;
}

const std::vector<std::string_view>& DiffStackNames::names_of(uint32_t stack) {
  names_.clear();
  all_.clear();
  stack_roles_.clear();
  if (stack >= recorded_.stacks.sites.size()) return names_;
  recorded_.stacks.walk(recorded_.stacks.sites[stack].node, [&](uint32_t node) {
    for (const Frame& frame : frames_at(node)) {
      all_.push_back(frame.name);
      stack_roles_.push_back(frame.role);
    }
  });
  if (all_.empty()) return names_;
  const size_t charged = charged_frame(stack_roles_);
  for (size_t i = charged; i < all_.size(); ++i) {
    if (i > charged && stack_roles_[i] == FrameRole::kStart) continue;
    if (names_.empty() || names_.back() != all_[i]) names_.push_back(all_[i]);
  }
  return names_;
}

DiffStackNames::Keys DiffStackNames::keys_of(uint32_t stack) {
  const std::vector<std::string_view>& names = names_of(stack);
  Keys keys{KeyedSums::key_of(names.empty() ? kNoFrames : names.front()), 0};
  keys.stack = keys.function;
  for (const std::string_view name : names) keys.stack = KeyedSums::key_of(name, keys.stack);
  return keys;
}

std::string DiffStackNames::function_of(uint32_t stack) {
  const std::vector<std::string_view>& names = names_of(stack);
  return std::string(names.empty() ? kNoFrames : names.front());
}

std::string DiffStackNames::of(uint32_t stack) {
  std::string text;
  for (const std::string_view name : names_of(stack)) {
    if (!text.empty()) text += kCallOf;
    text += name;
    if (text.size() > DiffTable::kMostNameBytes) break;
  }
  return text.empty() ? std::string(kNoFrames) : text;
}

std::string leak_name(const LeakGroup& group, const std::vector<BlockType>& types,
                      DiffStackNames* stacks) {
  std::string name;
  if (group.stack != 0 && stacks != nullptr) {
    name = stacks->of(group.stack);
  } else if (group.type != 0 && group.type < types.size()) {
    name = types[group.type].name;
  } else {
    name = group.least_size != group.most_size
               ? "blocks of several sizes"
               : "blocks of " + std::to_string(group.most_size) + " bytes";
  }
  return group.kind == LeakKind::kCycle ? "cycles with " + name : name;
}

}  // namespace heapsnap
