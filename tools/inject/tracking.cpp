#include "tools/inject/tracking.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/alteration.h"
#include "base/count_text.h"
#include "base/error.h"
#include "elf/disassembler.h"
#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/memory_margin.h"
#include "platform/linux/proc/memory_room.h"
#include "platform/linux/proc/memory_writer.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/remote_call/caller_choice.h"
#include "tools/inject/heap_look.h"
#include "tools/inject/interpreter_frames.h"
#include "tools/inject/running_program.h"
#include "tools/inject/tracker_presence.h"
#include "tracker/tracker.h"

namespace heapsnap {

namespace {

// The library, and its tables with room to grow: 31 MiB in a process that has 1 thread, 90 MiB in
// one that has 8.
constexpr uint64_t kTablesAtFirst = 128 << 20;

std::string process_text(int pid) {
  return "process " + std::to_string(pid);
}

// What the tracker does in the kernel, now on our thread and later on all others. It does without
// the optional ones.
std::vector<SystemCall> needed_system_calls() {
  constexpr uint64_t kSize = 1 << 20;
  return {
      {SYS_mmap,
       {0, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, ~uint64_t{0},
        0}},
      {SYS_gettid, {}},
      {SYS_getpid, {}},
      {SYS_futex, {0, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0}},
  };
}
// Of each page of the interpreter's the tracker asks the kernel whether it can be read.
std::vector<SystemCall> system_calls_for_interpreter_frames() {
  return {{SYS_futex, {0, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, 0, 0}}};
}
std::vector<SystemCall> useful_system_calls() {
  constexpr uint64_t kSize = 1 << 20;
  return {
      {SYS_madvise, {0, kSize, MADV_DONTNEED, 0, 0, 0}},
      {SYS_madvise, {0, kSize, MADV_NOHUGEPAGE, 0, 0, 0}},
      {SYS_prctl, {PR_SET_VMA, PR_SET_VMA_ANON_NAME, 0, kSize, 0, 0}},
      {SYS_futex, {0, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, 0, 0}},
      {SYS_mincore, {0, 1, 0, 0, 0, 0}},
      {SYS_tgkill, {1, 1, 0, 0, 0, 0}},
      {SYS_nanosleep, {}},
      {SYS_membarrier, {1 << 4, 0, 0, 0, 0, 0}},
      {SYS_mremap, {0, kSize, kSize, MREMAP_MAYMOVE, 0, 0}},
      {SYS_readlinkat, {static_cast<uint64_t>(AT_FDCWD), 0, 0, 0, 0, 0}},
  };
}

// Seccomp filters belong to threads, and the tracker will make calls on all of them.
void check_filters_alike(int pid) {
  const ProcFs proc;
  std::optional<std::string> first;
  for (const int tid : proc.task_list(pid)) {
    const auto status = proc.try_read(tid, "status");
    if (!status) continue;
    const std::string filters = std::string(status_field(*status, "Seccomp").value_or("")) + " " +
                                std::string(status_field(*status, "Seccomp_filters").value_or(""));
    if (!first) first = filters;
    if (filters == *first) continue;
    throw Error(ErrorKind::kUnsupported, process_text(pid) + " cannot be tracked",
                "its threads have different seccomp filters, and the tracker makes system calls in "
                "all threads",
                "take a snapshot without the tracker: heapsnap attach " + std::to_string(pid));
  }
}

// Calls of the tracker would reach a handler of the program, in the middle of its malloc.
void check_dispatch(int pid, const Tracee& thread) {
  if (!dispatches_syscalls(thread)) return;
  throw Error(ErrorKind::kUnsupported, process_text(pid) + " cannot be tracked",
              "thread " + std::to_string(thread.tid()) +
                  ": its system calls are dispatched to a handler of its own, and the tracker "
                  "makes system calls in all threads",
              "take a snapshot without the tracker: heapsnap attach " + std::to_string(pid));
}

std::vector<std::byte> encode(const TrackingOptions& options) {
  HeapsnapTrackerOptions encoded{};
  encoded.size = sizeof encoded;
  encoded.max_frames = options.max_frames;
  encoded.sample_bytes = options.sample_bytes;
  encoded.memory_limit = options.memory_limit;
  encoded.table_fd = -1;
  if (options.interpreter_frames) encoded.flags = HEAPSNAP_TRACKER_INTERPRETER_FRAMES;
  const auto bytes = std::as_bytes(std::span(&encoded, 1));
  return {bytes.begin(), bytes.end()};
}

LibraryLoad call_of(const char* function, std::vector<std::byte> argument,
                    std::span<const std::byte> image) {
  LibraryLoad load;
  load.name = "libheapsnap_tracker.so";
  load.bytes = image;
  load.call = {function, std::move(argument)};
  load.system_calls = needed_system_calls();
  load.optional_system_calls = useful_system_calls();
  return load;
}

void check_start(int pid, int64_t result, const TrackingOptions& options) {
  if (result == 0) return;
  const std::string what = "the tracker cannot start in " + process_text(pid);
  switch (result) {
    case -ENOMEM:
      if (options.memory_limit != 0) {
        throw Error(ErrorKind::kUnsupported, what, "its empty tables exceed the memory limit",
                    "allow some MiB: --memory-limit 64MiB");
      }
      throw Error(ErrorKind::kUnsupported, what, "the kernel refused memory for its tables",
                  "check ulimit -v and the memory limit of its cgroup");
    case -EINVAL: throw Error(ErrorKind::kUsage, what, "it does not accept these options");
    case -ENOTSUP:
      throw Error(ErrorKind::kUnsupported, what,
                  "the process uses another allocator than glibc's malloc: the tracker only passes "
                  "its calls on",
                  "see which one: heapsnap doctor " + std::to_string(pid));
    case -EBUSY:
      throw Error(ErrorKind::kUnsupported, what,
                  "since the last eject, a thread has still not left a hook", "try again");
    case -ENOSYS:
      throw Error(ErrorKind::kUnsupported, what,
                  "it was ejected, and its old tables cannot be freed because membarrier(2) is "
                  "refused",
                  "restart the process");
    default: throw Error(ErrorKind::kUnsupported, what, errno_text(static_cast<int>(-result)));
  }
}

// The tables are the target's memory: where a limit is near, it would be ended for them. Gives the
// options with a limit for the tables that leaves as much as they may still take, which a note
// tells. `in_use`: what they have already.
TrackingOptions fit_to_memory(int pid, TrackingOptions options, uint64_t in_use,
                              std::vector<std::string>& notes) {
  constexpr uint64_t kAmple = 1ULL << 30;
  // The library and empty tables take half of that.
  const uint64_t at_once =
      std::max(uint64_t{8} << 20, 2 * tracker::least_memory_limit(options.max_frames));
  const MemoryMargin::Room room = MemoryMargin(pid).room(UINT64_MAX);
  if (in_use == 0 && room.bytes < at_once) {
    throw Error(ErrorKind::kUnsupported, process_text(pid) + " cannot be tracked",
                "only " + size_text(room.bytes) + " are left of the " + room.limit +
                    ", and the tracker needs " + size_text(at_once) + " at once",
                "raise that limit, or take a snapshot without the tracker: heapsnap attach " +
                    std::to_string(pid));
  }
  if (options.memory_limit != 0 || room.bytes / 2 >= kAmple) return options;
  options.memory_limit =
      std::max(in_use + room.bytes / 2, tracker::least_memory_limit(options.max_frames));
  notes.push_back("only " + size_text(room.bytes) + " are left of the " + room.limit +
                  ": its tables may take half of that (--memory-limit BYTES allows more)");
  return options;
}

bool is_recording(const std::optional<tracker::Directory>& directory) {
  return directory && directory->state == tracker::kStateRecording;
}

// Fills in `change` step by step.
void start(RunningProgram& target, std::span<const std::byte> image, const TrackingOptions& asked,
           TrackingChange& change) {
  load_disassembler();  // for the hooks: it is not missed when the tracker is there already
  const int pid = target.process().pid;
  const CLibrary libc = CLibrary::find(target);
  std::optional<TrackerPresence> present = find_tracker(target, libc, image);
  std::optional<tracker::Directory> directory;
  if (present) directory = read_tracker_directory(target, *present);
  const TrackingOptions options =
      fit_to_memory(pid, asked, directory ? directory->memory_used : 0, change.notes);
  std::optional<InterpreterPlace> interpreter;
  if (options.interpreter_frames) interpreter = require_interpreter(target);
  check_filters_alike(pid);
  change.look_pauses = require_sound_heap(target, libc);
  LibraryCallResult call;
  LibraryLoad load = call_of("heapsnap_tracker_start", encode(options), image);
  load.address_space = kTablesAtFirst;
  if (interpreter) {
    const auto more = system_calls_for_interpreter_frames();
    load.system_calls.insert(load.system_calls.end(), more.begin(), more.end());
  }
  if (present) {
    change.was_loaded = true;
    change.was_recording = is_recording(directory);
    call = call_library(target, libc, present->loader_name, load);
  } else {
    call = load_library(target, libc, load);
  }
  change.call = std::move(call.injection);
  check_start(pid, call.value, options);
  target.look_again();  // its mappings have changed
  present = find_tracker(target, libc, image);
  if (present) change.directory = read_tracker_directory(target, *present);
  if (!change.directory) {
    throw Error(ErrorKind::kInternal, "the tracker in " + process_text(pid),
                "it was started but cannot be found");
  }
  change.has_new_options =
      change.was_recording && change.directory->start_count != directory->start_count;
  change.is_preloaded = present->is_preloaded;
  if (interpreter) {
    TrackerMemory memory(pid);
    target.check_runs();  // what was opened is the memory of that program
    if (!memory.write(*change.directory, interpreter->layout)) {
      throw Error(ErrorKind::kUnsupported, "--interpreter-frames of " + process_text(pid),
                  "the tracker's memory cannot be written");
    }
    change.interpreter = interpreter->name;
  }
  if (!present->is_preloaded) {
    change.hooks = hook_allocator(target, libc, read_hook_table(target, *change.directory),
                                  [pid](const Tracee& thread) { check_dispatch(pid, thread); });
  }
}

// For a tracker without hooks whose tables cannot be freed. Its next start finds that it has been
// stopped (starting.cpp).
void mark_dormant(RunningProgram& target, const tracker::Directory& directory) {
  const ProcFs proc;
  const int pid = target.process().pid;
  MemoryWriter writer(proc, proc.live_tid(pid).value_or(pid));
  target.check_runs();  // what was opened is the memory of that program
  writer.write_value(Address(directory.self + offsetof(tracker::Directory, state)),
                     tracker::kStateDormant);
}

TrackingChange stop(RunningProgram& target, std::span<const std::byte> image) {
  const int pid = target.process().pid;
  const CLibrary libc = CLibrary::find(target);
  const std::optional<TrackerPresence> present = find_tracker(target, libc, image);
  std::optional<tracker::Directory> directory;
  if (present) directory = read_tracker_directory(target, *present);
  if (!present || !directory) {
    throw Error(ErrorKind::kUnsupported, process_text(pid),
                "there is nothing to remove: the tracker is not loaded in it",
                "to record call stacks, load it: heapsnap inject " + std::to_string(pid));
  }
  TrackingChange change;
  change.was_loaded = true;
  change.is_preloaded = present->is_preloaded;
  change.was_recording = is_recording(directory);
  if (!present->is_preloaded) {
    change.hooks = unhook_allocator(target, libc, read_hook_table(target, *directory));
  }
  if (!change.hooks.is_vacant) {
    change.notes.push_back(
        "the hooks have been removed, but a thread has not left one: the tables were not freed; "
        "run eject again to free them");
    change.directory = directory;
    return change;
  }
  // What is preloaded has no hooks that could be removed from outside.
  HeapLook heap;
  if (present->is_preloaded) {
    heap.pauses = require_sound_heap(target, libc);
  } else {
    heap = look_at_heap(target, libc);
  }
  change.look_pauses = std::move(heap.pauses);
  if (!heap.damage.empty()) {
    mark_dormant(target, *directory);
    change.is_heap_damaged = true;
    change.notes.push_back("its heap is damaged (" + heap.damage +
                           "): the hooks have been removed, but the tables were not freed, since "
                           "glibc would end the process when a call of heapsnap's comes upon that");
    change.directory = read_tracker_directory(target, *present);
    return change;
  }
  LibraryLoad load = call_of("heapsnap_tracker_stop", {}, image);
  load.last_resort = "it records no more; restart it to have its tables freed";
  LibraryCallResult call = call_library(target, libc, present->loader_name, load);
  change.call = std::move(call.injection);
  if (call.value == -EBUSY) {
    change.notes.push_back(
        "a thread stayed inside a hook for a second: recording has stopped, but the tables were "
        "not freed; run eject again to free them");
  } else if (call.value == -ENOSYS) {
    change.notes.push_back(
        "recording has stopped, but the tables were not freed: membarrier(2) is refused, so it "
        "cannot be known whether a thread still uses them");
  } else if (call.value != 0) {
    change.notes.push_back("the tracker says " + errno_text(static_cast<int>(-call.value)));
  }
  if (present->is_preloaded) {
    change.notes.push_back(
        "it was preloaded: allocator calls still pass through it, but are not recorded");
  }
  change.directory = read_tracker_directory(target, *present);
  return change;
}

// A tracker that was to be started is stopped again; one that was at work before has the options of
// before or the new ones.
void undo_start(RunningProgram& target, std::span<const std::byte> image,
                const TrackingChange& change) {
  if (change.was_recording) return;
  const Repair repair;
  try {
    target.look_again();
    stop(target, image);
  } catch (const Error&) {
    // It is not there, or the program is gone.
  }
}

}  // namespace

TrackingChange start_tracking(int pid, std::span<const std::byte> image,
                              const TrackingOptions& options) {
  return work_on(pid, [&](RunningProgram& program) {
    TrackingChange change;
    try {
      start(program, image, options, change);
    } catch (const EndAsked&) {
      undo_start(program, image, change);
      throw;
    } catch (const Error&) {
      // Without hooks, what was started is of no use.
      if (change.directory) undo_start(program, image, change);
      throw;
    }
    return change;
  });
}

TrackingChange stop_tracking(int pid, std::span<const std::byte> image) {
  const Repair repair;
  return work_on(pid, [&](RunningProgram& program) { return stop(program, image); });
}

}  // namespace heapsnap
