#include "tools/capture/tracking_capture.h"

#include <map>

#include "base/error.h"
#include "platform/linux/proc/mapped_files.h"
#include "platform/linux/proc/process_status.h"
#include "tracking/symbolizer.h"
#include "tracking/tracker_directory.h"

namespace heapsnap {

namespace {

tracker::Directory directory_of(MemoryReader& memory, Address at) {
  const auto directory = read_directory(memory, at);
  return directory.value_or(tracker::Directory{});  // without tables: nothing is found
}

// The first mapping of the module's file; null when it is not loaded any more.
const Mapping* mapping_of(const AddressSpace& space, const TrackedModule& module) {
  if (module.unloaded != 0) return nullptr;
  for (const Mapping& mapping : space.mappings()) {
    if (mapping.range.begin >= module.range.end) break;
    if (mapping.inode != 0 && mapping.range.overlaps(module.range)) return &mapping;
  }
  return nullptr;
}

}  // namespace

std::optional<Address> find_tracker(Target& target, std::vector<std::string>& notes) {
  try {
    if (const auto found = find_tracker_directory(target)) return found;
    if (const auto at = malloc_behind_idle_tracker(target)) {
      const Mapping* const mapping = target.address_space().find(*at);
      notes.push_back(
          "the tracker is loaded but records nothing and passes all calls on: malloc is provided "
          "by " +
          (mapping == nullptr ? std::string("another allocator") : mapping->path));
    }
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    notes.push_back("the process is tracked, but its call stacks are not in the snapshot: " +
                    error.why());
    return std::nullopt;
  }
}

TrackedWalk::TrackedWalk(Target& target, Address directory, uint64_t now_ns, ChunkSink& next)
    : next_(next),
      header_(2 * word_size(target.process().machine)),
      tracking_(read_tracking(target.memory(), directory, now_ns)),
      slots_(target.memory(), target.residency(), target.address_space(),
             directory_of(target.memory(), directory)) {}

void TrackedWalk::on_batch(const ChunkBatch& batch) {
  const size_t count = batch.sizes.size();
  blocks_.clear();
  Address chunk = batch.begin;
  for (size_t i = 0; i < count; ++i) {
    if (is_live(batch.states[i])) blocks_.push_back(chunk + header_);
    chunk += batch.sizes[i];
  }
  found_.resize(blocks_.size());
  slots_.look_up(blocks_, found_);
  stacks_.assign(count, tracker::kNoStack);
  slacks_.assign(count, 0);
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (!is_live(batch.states[i])) continue;
    const uint32_t slot = found_[next++];
    stacks_[i] = tracker::stack_id_of(slot);
    slacks_[i] = static_cast<uint8_t>(tracker::slack_of(slot));
  }
  ChunkBatch with_stacks = batch;
  with_stacks.stacks = stacks_;
  with_stacks.slacks = slacks_;
  next_.on_batch(with_stacks);
}

void TrackedWalk::on_mmapped(const MmappedChunk& chunk) {
  const Address block = chunk.chunk + header_;
  uint32_t slot = tracker::kEmptySlot;
  if (is_live(chunk.state)) slots_.look_up({&block, 1}, {&slot, 1});
  MmappedChunk with_stack = chunk;
  with_stack.stack = tracker::stack_id_of(slot);
  with_stack.slack = static_cast<uint8_t>(tracker::slack_of(slot));
  next_.on_mmapped(with_stack);
}

OpenPath paths_of_process(int pid) {
  // The first thread may have ended before the others.
  return [tid = ProcFs().live_tid(pid).value_or(pid)](
             const std::string& path) -> std::optional<MappedFile> {
    UniqueFd fd = MappedFiles(ProcFs(), tid).open_path(path);
    if (!fd) return std::nullopt;
    try {
      return MappedFile::from_fd(std::move(fd), path);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
}

OpenPath paths_below(const std::string& sysroot) {
  return [sysroot](const std::string& path) -> std::optional<MappedFile> {
    try {
      return MappedFile::open_in(sysroot, path);
    } catch (const Error&) {
      return std::nullopt;
    }
  };
}

void name_threads(const std::vector<Thread>& threads, int pid, TrackerRecord& record) {
  const bool is_elsewhere = record.pid != static_cast<uint32_t>(pid);
  std::map<uint32_t, const Thread*> by_tid_inside;
  for (const Thread& thread : threads) {
    int inside = thread.tid;
    if (is_elsewhere) {
      const auto status = read_process_status(ProcFs(), thread.tid);
      if (!status || status->namespace_pids.empty()) continue;
      inside = status->namespace_pids.back();
    }
    by_tid_inside.emplace(static_cast<uint32_t>(inside), &thread);
  }
  // Of several records of one tid the last is that of the thread that lives.
  for (auto one = record.threads.rbegin(); one != record.threads.rend(); ++one) {
    if (one->exited) continue;
    const auto found = by_tid_inside.find(one->tid);
    if (found == by_tid_inside.end()) continue;
    one->name = found->second->name;
    by_tid_inside.erase(found);
  }
}

SourceFrames name_stacks(Target& target, Tracking& tracking, const DebugFileSearch& debug_files,
                         const OpenPath& open_path) {
  const AddressSpace& space = target.address_space();
  for (TrackedModule& module : tracking.record.modules) {
    const Mapping* const mapping = mapping_of(space, module);
    // Where debug files lie hangs on the whole path.
    if (mapping != nullptr && !module.path.starts_with('/')) module.path = mapping->path;
  }
  return symbolize(tracking.stacks, tracking.record.modules, debug_files,
                   [&](const TrackedModule& module) -> std::optional<MappedFile> {
                     if (const Mapping* const mapping = mapping_of(space, module)) {
                       if (auto file = target.open_file(*mapping)) return file;
                     }
                     if (module.build_id.empty() || !module.path.starts_with('/')) {
                       return std::nullopt;
                     }
                     return open_path(module.path);
                   });
}

SourceFrames names_of_stacks(Target& target, int pid, Tracking& tracking,
                             std::span<const uint32_t> stacks) {
  std::vector<bool> is_wanted(tracking.stacks.nodes.size());
  for (const uint32_t stack : stacks) {
    tracking.stacks.walk(tracking.stacks.sites[stack].node,
                         [&](uint32_t node) { is_wanted[node] = true; });
  }
  for (size_t node = 0; node < is_wanted.size(); ++node) {
    if (!is_wanted[node]) tracking.stacks.nodes[node].module = -1;
  }
  return name_stacks(target, tracking, DebugFileSearch(), paths_of_process(pid));
}

}  // namespace heapsnap
