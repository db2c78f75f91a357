#include "tracking/tracking_reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "elf/elf_notes.h"
#include "tracking/interpreted_frames.h"
#include "tracking/table_reader.h"
#include "tracking/tracker_directory.h"
#include "tracking/tracker_memory.h"
#include "tracking/unicode_text.h"

namespace heapsnap {

namespace {

constexpr uint64_t kMaxPendingOfThread = 64U << 10;
constexpr uint64_t kMaxPending = 4U << 20;

tracker::Directory directory_at(MemoryReader& memory, Address at) {
  const auto directory = read_directory(memory, at);
  if (directory) return *directory;
  throw Error(ErrorKind::kNoProcess, "the tracker's tables",
              "they are gone: the process exited, called execve, or its tracker was ejected",
              "if it is still running, load the tracker again: heapsnap inject PID");
}

class Reading {
 public:
  Reading(MemoryReader& memory, Address at) : memory_(memory), at_(at) {}

  // In an order that suits a process that runs on: what is pointed at after what points at it, so
  // that every id leads to an entry that was complete before.
  Tracking read(uint64_t now_ns) {
    directory_ = directory_at(memory_, at_);
    describe(now_ns);
    read_sites();
    read_threads();
    directory_ = directory_at(memory_, at_);
    read_nodes();
    directory_ = directory_at(memory_, at_);
    read_modules();
    read_functions();
    all_.record.memory = tracker_memory(memory_, directory_);
    check_references();
    merge_interpreted_frames(all_.stacks, {Address(directory_.interpreter.loop_begin),
                                           Address(directory_.interpreter.loop_end)});
    return std::move(all_);
  }

 private:
  void note(std::string text) { all_.record.notes.push_back(std::move(text)); }

  // Gives all entries of a table, and notes what is amiss with it.
  template <typename Entry, typename Receive>
  void read_table(const char* name, const tracker::ChunkedTable& table, uint64_t limit,
                  Receive receive) {
    TableReader reader(memory_, table, sizeof(Entry));
    const std::string subject = std::string("the tracker's table of ") + name;
    if (reader.is_damaged()) {
      note(subject + " is damaged and was ignored");
      return;
    }
    if (!reader.each<Entry>(limit, receive)) note(subject + " could only be read in part");
    if (reader.count() > limit) {
      note(subject + " has " + std::to_string(reader.count()) + " entries, of which the first " +
           std::to_string(limit) + " were read");
    }
  }

  void describe(uint64_t now_ns) {
    const tracker::Directory& from = directory_;
    TrackerRecord& to = all_.record;
    to.version = from.version;
    to.directory = at_;
    to.recording = from.state == tracker::kStateRecording;
    to.pid = from.pid;
    to.generation = from.process_generation;
    to.start_count = from.start_count;
    to.started_ns = from.started_monotonic_ns;
    to.recorded_ns = now_ns > to.started_ns ? now_ns - to.started_ns : 0;
    to.sample_bytes = from.sample_bytes;
    to.max_frames = from.max_frames;
    to.memory_limit = from.memory_limit;
    to.memory_reserved = from.memory_reserved;
    to.memory_used = from.memory_used;
    to.limits = from.limits;
    to.dropped_slots = from.dropped_slots;
    to.dropped_stacks = from.dropped_stacks;
    to.nested_events = from.nested_events;
    to.dropped_threads = from.dropped_threads;
    to.slow_unwinds = from.slow_unwinds;
    to.full_unwinds = from.full_unwinds;
    to.limit_reached_ns = from.limit_reached_ns;
  }

  void read_sites() {
    std::vector<AllocationSite>& sites = all_.stacks.sites;
    read_table<tracker::StackRecord>(
        "stacks", directory_.stacks, kMaxAllocationSites,
        [&sites](uint64_t, const tracker::StackRecord& record) {
          sites.push_back({record.node, record.depth, record.sample_bytes, record.allocations,
                           record.frees, record.allocated_bytes, record.freed_bytes});
        });
  }

  void read_threads() {
    read_table<tracker::ThreadRecord>("threads", directory_.threads, kMaxTrackedThreads,
                                      [this](uint64_t index, const tracker::ThreadRecord& record) {
                                        if (record.state == tracker::kThreadUnused) return;
                                        all_.record.unrecorded += record.unrecorded;
                                        add_pending(record);
                                        TrackedThread thread;
                                        thread.tid = index == 0 ? 0 : record.tid;
                                        // The threads of the parent do not exist in a forked child.
                                        thread.exited =
                                            record.state != tracker::kThreadSeen ||
                                            record.generation != directory_.process_generation;
                                        thread.allocations = record.allocations;
                                        thread.frees = record.frees;
                                        thread.allocated_bytes = record.allocated_bytes;
                                        thread.freed_bytes = record.freed_bytes;
                                        thread.without_stack = record.without_stack;
                                        thread.truncated = record.truncated;
                                        all_.record.threads.push_back(std::move(thread));
                                      });
  }

  void add_pending(const tracker::ThreadRecord& record) {
    const uint64_t count =
        std::min({record.pending_count, kMaxPendingOfThread, kMaxPending - pending_});
    if (record.pending == 0 || count == 0) return;
    pending_ += count;
    std::vector<tracker::PendingCounts> pending(count);
    const size_t got =
        memory_.read(Address(record.pending), std::as_writable_bytes(std::span(pending)));
    pending.resize(got / sizeof(tracker::PendingCounts));
    for (const tracker::PendingCounts& counts : pending) {
      if (counts.stack_id == 0 || counts.stack_id >= all_.stacks.sites.size()) continue;
      AllocationSite& site = all_.stacks.sites[counts.stack_id];
      site.allocations += counts.allocations;
      site.frees += counts.frees;
      site.allocated_bytes += counts.allocated_bytes;
      site.freed_bytes += counts.freed_bytes;
    }
  }

  void read_nodes() {
    std::vector<CallNode>& nodes = all_.stacks.nodes;
    read_table<tracker::StackNode>(
        "frames", directory_.nodes, kMaxCallNodes,
        [&nodes](uint64_t, const tracker::StackNode& node) {
          nodes.push_back(
              {node.parent, static_cast<int32_t>(node.module), Address(node.return_address)});
        });
  }

  void read_modules() {
    read_table<tracker::ModuleRecord>(
        "modules", directory_.modules, kMaxTrackedModules,
        [this](uint64_t, const tracker::ModuleRecord& record) {
          TrackedModule module;
          const uint64_t path_size = std::min<uint64_t>(record.path_size, kMaxModulePath);
          const bool has_room = path_size <= kMaxModulePaths - path_bytes_;
          std::string path(has_room ? path_size : 0, '\0');
          path_bytes_ += path.size();
          if (!has_room) ++modules_without_path_;
          path.resize(memory_.read(Address(record.path),
                                   std::as_writable_bytes(std::span(path.data(), path.size()))));
          module.path = std::move(path);
          const size_t id_size = std::min<size_t>(record.build_id_size, sizeof record.build_id);
          module.build_id = hex_text(std::as_bytes(std::span(record.build_id).first(id_size)));
          module.bias = record.bias;
          module.range = {Address(record.begin), Address(std::max(record.begin, record.end))};
          module.loaded = record.loaded;
          module.unloaded = record.unloaded;
          all_.record.modules.push_back(std::move(module));
        });
    if (modules_without_path_ != 0) {
      note("the tracker's table of modules holds more than " +
           std::to_string(kMaxModulePaths >> 20) + " MiB of paths: " +
           std::to_string(modules_without_path_) + " modules have no path here");
    }
  }

  // What names the functions of an interpreted program.
  void read_functions() {
    const tracker::Directory& from = directory_;
    if (from.takes_interpreter_frames != 0 && from.interpreter.kind == tracker::kInterpreterNone &&
        from.functions.count <= tracker::kFirstFunction) {
      note("frames of an interpreter are asked for, but none has been found in the process");
    }
    if (from.unread_interpreters != 0) {
      note("the interpreter's frames could not be read at " +
           std::to_string(from.unread_interpreters) + " allocations, whose stacks lack them");
    }
    if (from.functions.chunks == 0) return;
    all_.stacks.language = language_of(from.interpreter.kind);
    read_table<tracker::FunctionRecord>(
        "functions", from.functions, kMaxInterpretedFunctions,
        [this](uint64_t, const tracker::FunctionRecord& record) {
          InterpretedFunction function;
          function.language = language_of(record.language);
          function.first_line = record.first_line;
          function.name = text_of(record.name, tracker::kLongestName);
          function.file = text_of(record.file, tracker::kLongestFile);
          function.lines = bytes_of(record.lines, tracker::kLongestLineTable);
          function.line_index = bytes_of(record.line_index, tracker::kLongestLineTable);
          const tracker::InterpreterLayout& layout = directory_.interpreter;
          function.line_table = {record.code_words,        record.line_count,
                                 layout.line_bytes,        layout.line_number,
                                 layout.line_index_blocks, layout.line_index_block_bytes};
          all_.stacks.functions.push_back(std::move(function));
        });
    if (functions_without_text_ != 0) {
      note("the tracker's table of functions holds more than " +
           std::to_string(kMaxFunctionTexts >> 20) +
           " MiB of names: " + std::to_string(functions_without_text_) + " are not here");
    }
  }

  static FrameLanguage language_of(uint32_t kind) {
    switch (kind) {
      case tracker::kInterpreterPython: return FrameLanguage::kPython;
      case tracker::kInterpreterRuby: return FrameLanguage::kRuby;
      default: return FrameLanguage::kNative;
    }
  }

  std::vector<std::byte> bytes_of(const tracker::CopiedText& text, uint32_t most) {
    const uint32_t size = std::min(text.size, most);
    if (text.address == 0 || size == 0) return {};
    if (size > kMaxFunctionTexts - function_text_bytes_) {
      ++functions_without_text_;
      return {};
    }
    function_text_bytes_ += size;
    std::vector<std::byte> bytes(size);
    bytes.resize(memory_.read(Address(text.address), bytes));
    return bytes;
  }

  // As UTF-8; up to the first character that is none.
  std::string text_of(const tracker::CopiedText& text, uint32_t most) {
    const std::vector<std::byte> bytes = bytes_of(text, most);
    const size_t width = text.width;
    std::string result;
    if (width == 0) {
      const auto* const first = reinterpret_cast<const char*>(bytes.data());
      result.assign(first, std::find(first, first + bytes.size(), '\0'));
      return result;
    }
    if (width != 1 && width != 2 && width != 4) return result;
    for (size_t at = 0; at + width <= bytes.size(); at += width) {
      uint32_t character = 0;
      std::memcpy(&character, bytes.data() + at, width);  // little-endian, as in the process
      if (character == 0 || !is_scalar_value(character)) break;
      append_utf8(character, result);
    }
    return result;
  }

  // Makes every id lead to something, or to nothing.
  void check_references() {
    const auto module_count = static_cast<int64_t>(all_.record.modules.size());
    std::vector<CallNode>& nodes = all_.stacks.nodes;
    uint64_t bad_nodes = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].module < -1 || nodes[i].module >= module_count) nodes[i].module = -1;
      if (i < tracker::kFirstNode) {
        nodes[i] = CallNode{};
      } else if (nodes[i].parent >= i) {
        nodes[i].parent = tracker::kRootBadFrame;
        ++bad_nodes;
      }
    }
    if (const size_t cut = all_.stacks.cut_deep_stacks(); cut != 0) {
      note("the tracker's tables are damaged: call stacks of more than " +
           std::to_string(tracker::kFramesAtMost) + " frames were cut in " + std::to_string(cut) +
           " places");
    }
    uint64_t bad_sites = 0;
    for (AllocationSite& site : all_.stacks.sites) {
      if (site.node < std::max<size_t>(nodes.size(), tracker::kFirstNode)) continue;
      site.node = tracker::kRootBadFrame;
      ++bad_sites;
    }
    if (bad_nodes != 0 || bad_sites != 0) {
      note("the tracker's tables are damaged: " + std::to_string(bad_nodes) + " frames and " +
           std::to_string(bad_sites) + " stacks refer to nothing");
    }
  }

  MemoryReader& memory_;
  Address at_;
  tracker::Directory directory_{};
  Tracking all_;
  uint64_t pending_ = 0;  // entries read so far, over all threads
  uint64_t path_bytes_ = 0;
  uint64_t modules_without_path_ = 0;
  uint64_t function_text_bytes_ = 0;
  uint64_t functions_without_text_ = 0;
};

}  // namespace

Tracking read_tracking(MemoryReader& memory, Address directory, uint64_t now_ns) {
  return Reading(memory, directory).read(now_ns);
}

TrackerTotals read_tracker_totals(MemoryReader& memory, Address at) {
  const tracker::Directory directory = directory_at(memory, at);
  TrackerTotals totals;
  totals.recording = directory.state == tracker::kStateRecording;
  totals.dropped = directory.dropped_slots;
  if (directory.sample_bytes != 0) {
    // Only the weighted counts of the stacks are estimates of all that happened.
    TableReader sites(memory, directory.stacks, sizeof(tracker::StackRecord));
    sites.each<tracker::StackRecord>(
        kMaxAllocationSites, [&](uint64_t, const tracker::StackRecord& record) {
          const uint64_t unit = record.sample_bytes == 0 ? 1 : tracker::kSampledCountUnit;
          totals.allocations += record.allocations / unit;
          totals.frees += record.frees / unit;
          totals.allocated_bytes += record.allocated_bytes;
          totals.freed_bytes += record.freed_bytes;
        });
    return totals;
  }
  TableReader threads(memory, directory.threads, sizeof(tracker::ThreadRecord));
  threads.each<tracker::ThreadRecord>(kMaxTrackedThreads,
                                      [&](uint64_t, const tracker::ThreadRecord& record) {
                                        totals.allocations += record.allocations;
                                        totals.frees += record.frees;
                                        totals.allocated_bytes += record.allocated_bytes;
                                        totals.freed_bytes += record.freed_bytes;
                                      });
  return totals;
}

}  // namespace heapsnap
