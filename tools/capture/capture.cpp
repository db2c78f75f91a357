#include "tools/capture/capture.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/alteration.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file_name.h"
#include "base/lost_pages.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/walk/heap_walker.h"
#include "heap/walk/reserved_ends.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/freeze/running_process.h"
#include "platform/linux/proc/ask_again.h"
#include "platform/linux/self/helper_thread.h"
#include "platform/linux/trace/target_lock.h"
#include "references/side_work.h"
#include "tools/capture/runtime_capture.h"
#include "tools/capture/surroundings.h"
#include "tools/capture/tracking_capture.h"
#include "tools/capture/version.h"
#include "tracking/tracker_directory.h"

namespace heapsnap {

namespace {

using Clock = std::chrono::steady_clock;

// Hands the walk on to the writer and to what takes references and runtimes, and remembers where
// chunks lie outside of segments.
class RecordingSink final : public ChunkSink {
 public:
  RecordingSink(SnapshotWriter& writer, ReferenceCapture& references, RuntimeCapture& runtimes)
      : writer_(writer), references_(references), runtimes_(runtimes) {}

  void on_batch(const ChunkBatch& batch) override {
    check_end();
    chunks_ += batch.sizes.size();
    writer_.on_batch(batch);
    references_.on_batch(batch);
    runtimes_.on_batch(batch);
  }
  void on_mmapped(const MmappedChunk& chunk) override {
    check_end();
    ++chunks_;
    mmapped_.push_back({chunk.mapping_begin, chunk.mapping_begin + chunk.total});
    writer_.on_mmapped(chunk);
    references_.on_mmapped(chunk);
    runtimes_.on_mmapped(chunk);
  }

  uint64_t chunks() const { return chunks_; }
  const std::vector<AddressRange>& mmapped() const { return mmapped_; }

 private:
  SnapshotWriter& writer_;
  ReferenceCapture& references_;
  RuntimeCapture& runtimes_;
  uint64_t chunks_ = 0;
  std::vector<AddressRange> mmapped_;
};

// The pages that any of `parts` touches: page aligned, ordered, without overlap.
std::vector<AddressRange> whole_pages(std::vector<AddressRange> parts, uint64_t page_size) {
  std::sort(parts.begin(), parts.end());
  std::vector<AddressRange> pages;
  for (const AddressRange& part : parts) {
    const AddressRange range{part.begin.align_down(page_size), part.end.align_up(page_size)};
    if (!pages.empty() && range.begin <= pages.back().end) {
      pages.back().end = std::max(pages.back().end, range.end);
    } else if (!range.is_empty()) {
      pages.push_back(range);
    }
  }
  return pages;
}

void write_residency(Target& target, const std::vector<AddressRange>& ranges,
                     SnapshotWriter& writer) {
  PageResidency& residency = target.residency();
  // Pages that a snapshot says nothing of are unknown.
  if (!residency.knows_pages()) return;
  const uint64_t page_size = residency.page_size();
  std::vector<PageState> states(64 * 1024);
  for (const AddressRange& range : ranges) {
    for (Address page = range.begin; page < range.end;) {
      const uint64_t count = std::min<uint64_t>(states.size(), (range.end - page) / page_size);
      const std::span<PageState> window(states.data(), count);
      check_end();
      residency.read(page, window);
      writer.on_pages(page, page_size, window);
      page += count * page_size;
    }
  }
}

// The bytes of all private writable memory. What was never touched is left out: it reads as zeros.
void write_contents(Target& target, SnapshotWriter& writer) {
  constexpr uint64_t kPiece = 1 << 20;
  std::vector<std::byte> bytes(kPiece);
  PageResidency& residency = target.residency();
  const uint64_t page_size = residency.page_size();
  std::vector<PageState> states(kPiece / page_size);
  for (const Mapping& mapping : target.address_space().mappings()) {
    if (!mapping.is_private_writable()) continue;
    uint64_t size = 0;
    for (AddressRange rest = mapping.range; !rest.is_empty(); rest.begin += size) {
      check_end();
      const AddressRange readable = target.memory().next_readable(rest);
      if (readable.is_empty()) break;
      const Address first = std::max(rest.begin, readable.begin.align_down(page_size));
      const Address piece =
          std::max(first, residency.absent_until({first, readable.end.align_down(page_size)}));
      rest.begin = piece;
      size = std::min(kPiece, rest.size());
      const std::span<PageState> pages(states.data(), size / page_size);
      residency.read(piece, pages);
      for (size_t first = 0; first < pages.size();) {
        const bool present = pages[first] != PageState::kAbsent;
        size_t last = first + 1;
        while (last < pages.size() && (pages[last] != PageState::kAbsent) == present) ++last;
        if (present) {
          const Address from = piece + first * page_size;
          const std::span<std::byte> window(bytes.data(), (last - first) * page_size);
          const size_t got = target.memory().read(from, window);
          if (got > 0) writer.on_contents(from, window.first(got));
        }
        first = last;
      }
    }
  }
}

// Where the tracker of a process is, and when it is read (CLOCK_MONOTONIC, 0: not known).
struct TrackerPlace {
  Address directory;
  uint64_t now_ns = 0;
};

struct WalkResult {
  uint64_t chunks = 0;
  std::vector<LocatedMalloc> mallocs;
  std::vector<AddressRange> mmapped;
  std::optional<Tracking> tracking;

  MemoryTaken memory() const {
    return {mallocs, mmapped,
            tracking ? std::span<const AddressRange>(tracking->record.memory)
                     : std::span<const AddressRange>()};
  }
};

// Whether no block has ever been had from glibc's malloc.
bool is_untouched(const HeapModel& heap) {
  return std::all_of(heap.arenas.begin(), heap.arenas.end(),
                     [](const Arena& arena) { return arena.max_system_mem == 0; }) &&
         std::all_of(heap.instances.begin(), heap.instances.end(),
                     [](const MallocInstance& one) { return one.n_mmaps == 0; });
}

// Which other allocator there is, and what is not known for that.
void describe_allocator(const AllocatorVerdict& allocator, uint64_t rss,
                        SnapshotMetadata& metadata) {
  HeapModel& heap = metadata.heap;
  heap.foreign_allocator = allocator.name;
  if (allocator.name.empty() && !allocator.beside.empty()) {
    heap.foreign_allocator = allocator.beside.front();
  }
  // A library that exports malloc may also have been loaded for its own sake, by dlopen(3).
  heap.foreign_answers_malloc = !allocator.name.empty() && is_idle(heap, rss);
  if (allocator.interposer.empty() || !allocator.name.empty()) return;
  if (is_untouched(heap)) {
    heap.foreign_allocator = file_name_of(allocator.interposer);
    heap.foreign_answers_malloc = true;
    return;
  }
  metadata.notes.push_back(allocator.interposer +
                           " has a malloc that heapsnap does not know: of what the program has "
                           "from it, only what it passes on to glibc's is in the snapshot");
}

// All passes that need the target's memory but the last, which finds references.
WalkResult walk_target(Target& target, const PreparedDiscovery& prepared,
                       const std::optional<TrackerPlace>& tracker, const CaptureOptions& options,
                       ReferenceCapture& references, RuntimeCapture& runtimes,
                       SnapshotWriter& writer, SnapshotMetadata& metadata) {
  WalkResult result;
  RecordingSink sink(writer, references, runtimes);
  std::optional<TrackedWalk> tracked;
  if (tracker) {
    try {
      tracked.emplace(target, tracker->directory, tracker->now_ns, sink);
    } catch (const Error& error) {
      // Ejected since we looked. When it is the whole target that is gone, the walk says so.
      metadata.notes.push_back(error.subject() + " are not in the snapshot: " + error.why());
    }
  }
  ChunkSink& chunks = tracked ? static_cast<ChunkSink&>(*tracked) : sink;
  result.mallocs = locate_mallocs(target, prepared);
  metadata.heap = walk_heaps(target, result.mallocs, chunks, WalkOptions{options.progress});
  describe_allocator(prepared.allocator, target.process().rss, metadata);

  std::vector<AddressRange> heap_ranges = sink.mmapped();
  for (const HeapSegment& segment : metadata.heap.segments) heap_ranges.push_back(segment.range);
  write_residency(target, whole_pages(std::move(heap_ranges), target.residency().page_size()),
                  writer);
  metadata.runtimes = runtimes.take();
  if (options.keep_contents) write_contents(target, writer);
  result.chunks = sink.chunks();
  result.mmapped = sink.mmapped();
  if (tracked) result.tracking = std::move(tracked->tracking());
  return result;
}

// The tracker's tables into the snapshot, with the names of what is in them.
void write_tracking(Target& target, std::optional<Tracking>& tracking, const OpenPath& open_path,
                    const CaptureOptions& options, SnapshotWriter& writer,
                    SnapshotMetadata& metadata) {
  if (!tracking) return;
  SourceFrames names;
  if (options.name_stacks) {
    names = name_stacks(target, *tracking, options.debug_files, open_path);
    if (names.is_full()) {
      tracking->record.notes.push_back(
          "the names in the call stacks exceed the limit of a snapshot: some were left out");
    }
  } else {
    // Nobody can look these up later.
    name_interpreted_frames(tracking->stacks, names);
    names.sort();
  }
  writer.on_call_stacks(tracking->stacks);
  if (!names.is_empty()) writer.on_symbols(names);
  metadata.tracker = std::move(tracking->record);
}

void describe_target(Target& target, const CaptureOptions& options, SnapshotMetadata& metadata) {
  metadata.writer = kWriterName;
  metadata.process = target.process();
  // Arguments may be passwords.
  if (!options.keep_arguments) metadata.process.command_line = metadata.process.exe;
  metadata.threads = target.threads();
  metadata.mappings = target.address_space().mappings();
}

uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

// The copy of a process was lost while it was read.
struct CopyLost {
  std::string why;
  uint64_t pause_ns = 0;  // that it took
};

// Throws CopyLost or ProgramReplaced, with the target released, if what was read is void.
void check_frozen(FrozenProcess& frozen) {
  if (const auto why = frozen.loss()) {
    frozen.thaw();
    throw CopyLost{*why, frozen.paused_ns()};
  }
  if (frozen.has_been_replaced()) {
    frozen.thaw();
    throw ProgramReplaced(frozen.process().pid, frozen.paused_ns());
  }
}

// What the snapshot holds without references is read by now: when the copy is lost meanwhile, only
// they are missing.
void take_references(FrozenProcess& frozen, const HeapModel& heap, const WalkResult& walk,
                     ReferenceCapture& references, SnapshotWriter& writer) {
  if (!references.budget()) return;
  frozen.set_memory_budget(*references.budget());
  try {
    references.take(heap, walk.memory(), writer);
  } catch (const Error&) {
    if (!frozen.loss()) throw;
  }
  if (auto why = frozen.loss()) references.give_up(std::move(*why));
}

// Throws CopyLost or ProgramReplaced with nothing left behind.
CaptureResult capture_once(int pid, const FreezeOptions& freeze, const CaptureOptions& options) {
  CaptureResult result;
  SnapshotMetadata& metadata = result.metadata;
  FreezeOptions freeze_options = freeze;
  freeze_options.program = ProgramIdentity::of_process(ProcFs(), pid);
  freeze_options.scans_all = options.references.choice == CaptureChoice::kYes;
  const std::unique_ptr<Target> running = open_running_process(pid);
  PreparedDiscovery prepared = prepare_discovery(*running, options.debug_files);
  if (freeze.choice == FreezeChoice::kNone) {
    prepared.most_looks = PreparedDiscovery::kLooksAtRunning;
  }
  std::optional<TrackerPlace> tracker;
  if (const auto directory = find_tracker(*running, metadata.notes)) tracker = {*directory, 0};
  const std::string build_id = program_build_id(*running);
  metadata.memory_left = find_memory_left(pid);
  if (!options.collected_place.empty()) metadata.collection = Collection{options.collected_place};
  SnapshotWriter writer(options.output);
  ReferenceCapture references(options.references, pid, options.debug_files);
  references.prepare(*running);
  RuntimeCapture runtimes(options.runtimes, pid, options.references.memory_budget,
                          options.keep_contents);
  runtimes.prepare(*running, references.modules());

  const bool may_fork =
      freeze.choice == FreezeChoice::kAuto || freeze.choice == FreezeChoice::kFork;
  if (tracker && may_fork && is_shared_memory(running->address_space(), tracker->directory)) {
    freeze_options.choice = FreezeChoice::kStop;
    metadata.notes.push_back(
        "the tracker's tables are shared memory, of which a fork makes no copy: the process was "
        "read while stopped");
  }
  for (const MallocModule& module : prepared.modules) {
    if (!module.malloc_text.is_empty()) freeze_options.malloc_text.push_back(module.malloc_text);
  }
  const auto frozen = std::make_unique<FrozenProcess>(pid, freeze_options);
  // A program at its end is gone once it is let go, and nobody waits for it to go on.
  const bool stopped = frozen->target_is_stopped() && freeze.end == nullptr;
  writer.set_deferred(stopped);
  if (tracker) tracker->now_ns = monotonic_ns();
  WalkResult walk;
  try {
    references.begin(*frozen, stopped);
    runtimes.begin(*frozen, stopped, references.objects());
    walk = walk_target(*frozen, prepared, tracker, options, references, runtimes, writer, metadata);
    if (!stopped) metadata.usage = frozen->mapping_usage();
  } catch (const Error&) {
    check_frozen(*frozen);
    throw;
  }
  check_frozen(*frozen);
  result.chunks = walk.chunks;
  take_references(*frozen, metadata.heap, walk, references, writer);
  std::optional<SideWork> thawing;
  if (stopped) {
    frozen->thaw();
    metadata.usage = frozen->mapping_usage();
    writer.set_deferred(false);
  } else if (freeze.end == nullptr) {
    // To end the copy is mostly to wait.
    thawing.emplace(start_helper_thread, [&frozen] { frozen->thaw(); });
  }
  if (walk.tracking) name_threads(frozen->threads(), pid, walk.tracking->record);
  write_tracking(*frozen, walk.tracking, paths_of_process(pid), options, writer, metadata);
  metadata.references = references.finish(writer, metadata.notes);
  for (const std::string& file : files_with_lost_pages()) {
    metadata.notes.push_back(
        file + " was truncated while it was read: some of its data on malloc or names is missing");
  }
  thawing.reset();
  frozen->thaw();
  metadata.freeze = frozen->record();
  describe_target(*frozen, options, metadata);
  metadata.process.build_id = build_id;
  result.file_size = writer.finish(metadata);
  result.capture_ns = nanoseconds_since(frozen->began());
  return result;
}

}  // namespace

CaptureResult capture_process(int pid, const FreezeOptions& freeze, const CaptureOptions& options) {
  FreezeOptions attempt = freeze;
  const auto capture = [&] {
    try {
      return capture_once(pid, attempt, options);
    } catch (const ProgramReplaced& replaced) {
      attempt.earlier_pause_ns = replaced.pause_ns;
      throw;
    }
  };
  // What went to standard output cannot be taken back, nor can a program at its end be held again.
  const bool is_unique = options.output.path == "-" || freeze.end != nullptr;
  try {
    return is_unique ? capture() : ask_again(ProcFs(), pid, capture);
  } catch (const CopyLost& lost) {
    if (options.output.path == "-") {
      throw Error(ErrorKind::kUnsupported,
                  "the copy of process " + std::to_string(pid) + " was lost", lost.why,
                  "read it while stopped: heapsnap attach --freeze stop " + std::to_string(pid));
    }
    attempt.choice = FreezeChoice::kStop;
    attempt.why_stop = lost_copy_text(lost.why);
    attempt.earlier_pause_ns = lost.pause_ns;
    return ask_again(ProcFs(), pid, capture);
  }
}

CaptureResult capture_alone(int pid, const FreezeOptions& freeze, const CaptureOptions& options) {
  std::optional<TargetLock> lock;
  if (freeze.choice != FreezeChoice::kNone) lock.emplace(ProcFs(), pid);
  return capture_process(pid, freeze, options);
}

CaptureResult capture_core(Target& core, const std::string& source,
                           const std::vector<std::string>& notes, const CaptureOptions& options) {
  CaptureResult result;
  SnapshotMetadata& metadata = result.metadata;
  const Clock::time_point start = Clock::now();
  const PreparedDiscovery prepared = prepare_discovery(core, options.debug_files);
  metadata.notes = notes;
  std::optional<TrackerPlace> tracker;
  if (const auto directory = find_tracker(core, metadata.notes)) tracker = {*directory, 0};
  SnapshotWriter writer(options.output);
  ReferenceCapture references(options.references, 0, options.debug_files);
  references.begin(core, false);
  RuntimeCapture runtimes(options.runtimes, 0, options.references.memory_budget,
                          options.keep_contents);
  runtimes.prepare(core, references.modules());
  runtimes.begin(core, false, references.objects());
  WalkResult walk =
      walk_target(core, prepared, tracker, options, references, runtimes, writer, metadata);
  references.take(metadata.heap, walk.memory(), writer);
  result.chunks = walk.chunks;
  write_tracking(core, walk.tracking, paths_below(options.sysroot), options, writer, metadata);
  metadata.references = references.finish(writer, metadata.notes);
  if (const auto lost = files_with_lost_pages(); !lost.empty()) {
    throw Error(ErrorKind::kBadInput, "cannot read " + lost.front(),
                "it was truncated or its disk failed while it was being read",
                "try again when nothing writes to it, or copy it first");
  }
  metadata.freeze.method = FreezeMethod::kCore;
  metadata.freeze.why = "read from " + source;
  metadata.freeze.threads = core.threads().size();
  describe_target(core, options, metadata);
  mark_reserved_ends(metadata.mappings, metadata.heap.segments,
                     word_size(metadata.process.machine));
  result.file_size = writer.finish(metadata);
  result.capture_ns = nanoseconds_since(start);
  return result;
}

}  // namespace heapsnap
