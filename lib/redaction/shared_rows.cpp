#include "redaction/shared_rows.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <map>
#include <utility>
#include <vector>

#include "snapshot/metadata_rows.h"
#include "target/shared_process.h"

namespace heapsnap {

namespace {

constexpr uint64_t kStarted = 1;  // not 0, which would say: unknown

// Tells snapshots of one process from those of others, and nothing more: a boot id is random.
std::string identity_of(const Process& process) {
  if (process.boot_id.empty()) return {};
  const std::string all =
      fmt::format("{} {} {}", process.boot_id, process.pid, process.start_time_ticks);
  return fmt::format("{:016x}", XXH64(all.data(), all.size(), 0));
}

}  // namespace

std::string SharedRows::text(FieldRule rule, const std::string& value) {
  switch (rule) {
    case FieldRule::kKeep: return value;
    case FieldRule::kPath: return names_.path(value);
    case FieldRule::kFunction: return names_.function(value);
    case FieldRule::kVariable: return names_.variable(value);
    case FieldRule::kTypeName: return names_.type(value, TypeSource::kUnknown);
    case FieldRule::kPart: return names_.part(value);
    case FieldRule::kSourceFile: return names_.source_file(value);
    case FieldRule::kProgramName: return names_.program_name();
    case FieldRule::kThreadName: return names_.thread_name(value);
    case FieldRule::kSentence: return NameCut::sentence(value);
    case FieldRule::kAllocator: return names_.allocator(value);
    case FieldRule::kWord: return NameCut::word(value);
    case FieldRule::kBuildId: return names_.keeps_names() ? value : std::string();
    case FieldRule::kRebase:
    case FieldRule::kDrop:
    case FieldRule::kThread:
    case FieldRule::kByRow: break;
  }
  return {};
}

Process SharedRows::process(const Process& process) {
  Process shared = plain(process);
  shared.command_line = shared.exe;
  shared.hostname = process.hostname.empty() ? "" : "host";
  shared.boot_id = identity_of(process);
  shared.uid = kNobody;
  return shared;
}

FreezeRecord SharedRows::freeze(const FreezeRecord& freeze) {
  FreezeRecord shared = plain(freeze);
  shared.notes.clear();
  // "read from FILE", where the name of the file may be a single word.
  const bool has_file = freeze.method == FreezeMethod::kCore && !freeze.why.empty();
  shared.why = has_file ? "read from a file" : NameCut::sentence(freeze.why);
  return shared;
}

Mapping SharedRows::mapping(const Mapping& mapping) {
  MappingRow row;
  row.mapping = mapping;
  Mapping shared = plain(row).mapping;
  // Whether there is one says whether it is anonymous.
  shared.inode = mapping.inode == 0 ? 0 : 1;
  return shared;
}

TrackerRecord SharedRows::tracker(const TrackerRecord& tracker) {
  TrackerRecord shared = plain(tracker);
  shared.notes.clear();
  shared.modules.clear();
  shared.threads.clear();
  shared.memory.clear();
  // The clock began with the machine: only what lies between its times is kept.
  shared.started_ns = tracker.started_ns == 0 ? 0 : kStarted;
  if (tracker.limit_reached_ns != 0) {
    shared.limit_reached_ns = shared.started_ns + (tracker.limit_reached_ns - tracker.started_ns);
  }
  for (const TrackedModule& one : tracker.modules) shared.modules.push_back(module(one));
  for (const TrackedThread& one : tracker.threads) shared.threads.push_back(plain(one));
  for (const AddressRange& one : tracker.memory) shared.memory.push_back(rebase_(one));
  return shared;
}

TrackedModule SharedRows::module(const TrackedModule& module) {
  TrackedModule shared = plain(module);
  shared.range = rebase_(module.range);
  if (!module.range.is_empty()) {
    shared.bias = module.bias + (shared.range.begin - module.range.begin);
  }
  return shared;
}

RootPlace SharedRows::place(const RootPlace& place) {
  RootPlace shared = plain(place);
  switch (place.kind) {
    case RootKind::kVariable:
    case RootKind::kThreadLocal:
    case RootKind::kGlobal: shared.name = names_.variable(place.name); break;
    case RootKind::kLocal: shared.name = names_.local(place.name); break;
    case RootKind::kStack: shared.name = names_.function(place.name); break;
    case RootKind::kRegister: shared.name = NameCut::word(place.name); break;
    case RootKind::kMapping: shared.name = names_.path(place.name); break;
  }
  // Of a local variable it is an address of the process.
  const bool is_in_file = place.kind != RootKind::kLocal;
  shared.module_offset =
      is_in_file ? place.module_offset : rebase_(Address(place.module_offset)).value();
  return shared;
}

BlockType SharedRows::type(const BlockType& type) {
  BlockType shared = plain(type);
  shared.name = names_.type(type.name, type.source);
  return shared;
}

// A frame of an interpreter has no address: it keeps its number, which says nothing of a place.
Address SharedRows::moved(int32_t module, Address return_address) const {
  return is_interpreted(module, return_address) ? return_address : rebase_(return_address);
}

CallNode SharedRows::node(const CallNode& node) {
  CallNode shared = plain(node);
  shared.return_address = moved(node.module, node.return_address);
  return shared;
}

SourceFrames SharedRows::symbols(const SourceFrames& symbols) {
  // Each text is cut once for each use: it may be both a function and a file.
  std::map<std::pair<FieldRule, uint32_t>, uint32_t> known;
  SourceFrames shared;
  const auto cut = [&](const char* column, uint32_t index) {
    const FieldRule rule = rule_of("code_frames", column);
    const auto [entry, is_new] = known.try_emplace({rule, index});
    if (is_new) entry->second = shared.intern(text(rule, symbols.text(index)));
    return entry->second;
  };
  std::vector<SourceFrame> frames;
  for (const SourceFrames::Place& place : symbols.places()) {
    frames.clear();
    for (SourceFrame frame : symbols.at(place.module, place.return_address)) {
      frame.function = cut("function", frame.function);
      frame.file = cut("file", frame.file);
      if (frame.file == 0) frame.line = 0;
      frames.push_back(frame);
    }
    shared.add(place.module, moved(place.module, place.return_address), frames);
  }
  shared.sort();
  return shared;
}

}  // namespace heapsnap
