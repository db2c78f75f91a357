#include "tracker/starting.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracker/control_block.h"
#include "tracker/function_table.h"
#include "tracker/futex_lock.h"
#include "tracker/interpreter_frames.h"
#include "tracker/modules.h"
#include "tracker/originals.h"
#include "tracker/recording.h"
#include "tracker/stack_table.h"
#include "tracker/table_space.h"
#include "tracker/tracker.h"

#define HEAPSNAP_EXPORT extern "C" __attribute__((visibility("default")))

HEAPSNAP_EXPORT uint64_t heapsnap_tracker_directory;
uint64_t heapsnap_tracker_directory = 0;

// What pthread_atfork(3) of glibc is made of. musl has none, and must be able to load the library
// all the same, since children inherit LD_PRELOAD. NOLINTBEGIN(readability-identifier-naming): the
// C library's
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(),
                                 void* library) __attribute__((weak));
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;
// NOLINTEND(readability-identifier-naming)
extern char** environ;

namespace heapsnap::tracker {

namespace {

constexpr int kQuietTries = 1000;  // milliseconds

enum PreloadState : uint32_t { kUndecided = 0, kDeciding = 1, kDecided = 2 };
uint32_t preload_state = kUndecided;
constinit FutexLock start_lock;
bool has_tables = false;
bool has_records = false;
bool is_fork_watched = false;
bool holds_stack_table = false;  // across a fork
bool holds_modules = false;      // the same
bool holds_functions = false;    // the same

uint32_t own_pid() {
  return static_cast<uint32_t>(system_call(SYS_getpid));
}

void stop_being_busy() {
  ThreadState* state = thread_state;
  if (state != nullptr && load(state->busy) == kBusyForking) set_idle(*state);
}

// Handlers that other libraries registered earlier run between ours and the fork itself, and may
// allocate: the busy flag keeps them from the lock that we hold.
void before_fork() {
  ThreadState* state = thread_state;
  if (state != nullptr && !is_busy(*state)) set_busy(*state, kBusyForking);
  holds_functions = lock_function_table();
  if (lock_modules()) holds_modules = true;
  holds_stack_table = lock_stack_table();
}

void after_fork_in_parent() {
  if (holds_stack_table) unlock_stack_table();
  if (__atomic_exchange_n(&holds_modules, false, __ATOMIC_RELAXED)) unlock_modules();
  if (holds_functions) unlock_function_table();
  stop_being_busy();
}

void after_fork_in_child() {
  reset_stack_table_lock();
  reset_module_lock();
  // Else it may be half changed, and stays locked.
  if (holds_functions) reset_function_table_lock();
  holds_modules = false;
  start_lock = FutexLock();
  Directory* directory = control.directory;
  if (directory == nullptr) return;
  if (!detach_tables_from_file()) {
    store(control.recording, 0);
    raise_epoch();
    return;
  }
  directory->pid = own_identity().tid;  // the only thread's
  directory->process_generation += 1;
  keep_only_this_thread();
  stop_being_busy();
}

// Each thread of the process has passed a full barrier since this was called: what it marked before
// is to be seen, and what it looks at from now on is new. False: the kernel or a filter refuses.
bool pass_barrier_on_all_threads() {
  constexpr int kPrivateExpedited = 1 << 3;
  constexpr int kRegisterPrivateExpedited = 1 << 4;
  return !failed(system_call(SYS_membarrier, kRegisterPrivateExpedited, 0)) &&
         !failed(system_call(SYS_membarrier, kPrivateExpedited, 0));
}

// Recording has stopped. Gives the tables back when no event can touch them any more.
int clear_when_quiet() {
  if (!pass_barrier_on_all_threads()) return -ENOSYS;
  for (int tries = 0; !threads_are_quiet(); ++tries) {
    if (tries == kQuietTries) return -EBUSY;
    timespec millisecond{0, 1'000'000};
    system_call(SYS_nanosleep, reinterpret_cast<long>(&millisecond), 0);
  }
  forget_threads();
  forget_modules();
  clear_stack_table();
  clear_interpreter_frames();
  clear_tables();
  has_records = false;
  return 0;
}

int start_locked(const HeapsnapTrackerOptions& options) {
  const bool takes_interpreter_frames = (options.flags & HEAPSNAP_TRACKER_INTERPRETER_FRAMES) != 0;
  if ((options.flags & ~HEAPSNAP_TRACKER_INTERPRETER_FRAMES) != 0 ||
      options.max_frames > kFramesAtMost || options.sample_bytes > 1ULL << 40 ||
      (options.memory_limit != 0 &&
       options.memory_limit < least_memory_limit(options.max_frames))) {
    return -EINVAL;
  }
  const BoundAllocator& bound = bind_originals();
  if (!has_tables) {
    if (!create_tables(options.table_fd)) return -ENOMEM;
    has_tables = true;
    publish_hooks();
    control.directory->malloc_address = bound.malloc;
    if (!bound.is_glibc) control.directory->allocator = kAllocatorForeign;
  }
  Directory& directory = *control.directory;
  if (!bound.is_glibc) {
    directory.pid = own_pid();
    store_release(heapsnap_tracker_directory, directory.self);
    return -ENOTSUP;
  }
  // Without its hooks it may have been stopped from outside, in a process where no call is safe.
  if (load(control.recording) != 0 && load(directory.state) == kStateDormant) {
    store(control.recording, 0);
    raise_epoch();
  }
  const bool is_running = load(control.recording) != 0;
  if (!is_running && has_records) {  // a stop that could not come to its end
    if (const int result = clear_when_quiet(); result != 0) return result;
  }
  const uint32_t max_frames = options.max_frames != 0 ? options.max_frames : kFramesAtMost;
  const bool is_changed = !is_running || options.sample_bytes != directory.sample_bytes ||
                          max_frames != directory.max_frames ||
                          options.memory_limit != directory.memory_limit ||
                          takes_interpreter_frames != (directory.takes_interpreter_frames != 0);
  // What ended recording may be over where it was not the limit, which is as it was.
  if (is_changed || (load(directory.limits) & kLimitAddressSpace) != 0) {
    set_memory_limit(options.memory_limit);
  }
  if (options.sample_bytes == 0) expect_recorded_everywhere();
  store(control.sample_bytes, options.sample_bytes);
  if (!is_running) {
    learn_control_blocks(static_cast<uint32_t>(system_call(SYS_gettid)));
    directory.pid = own_pid();
    if (directory.process_generation == 0) directory.process_generation = 1;
    if (!create_stack_table()) return -ENOMEM;
    has_records = true;
    if (!is_fork_watched && __register_atfork != nullptr) {
      is_fork_watched = true;
      __register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, __dso_handle);
    }
    scan_modules_at_start();
  }
  if (takes_interpreter_frames && !prepare_interpreter_frames()) return -ENOMEM;
  make_missing_rows();
  directory.sample_bytes = options.sample_bytes;
  directory.max_frames = max_frames;
  if (is_changed) directory.start_count += 1;
  // The counters go on where it runs already, so the time that they are of does, too.
  if (!is_running) directory.started_monotonic_ns = monotonic_ns();
  store(control.max_frames, directory.max_frames);
  if (!takes_interpreter_frames) store(directory.interpreter.kind, kInterpreterNone);
  directory.takes_interpreter_frames = takes_interpreter_frames ? 1 : 0;
  store(control.takes_interpreter_frames, takes_interpreter_frames ? 1 : 0);
  if (directory.sample_bytes != 0) store(control.ever_sampled, 1);
  store_release(heapsnap_tracker_directory, directory.self);
  store_release(directory.state, kStateRecording);
  store_release(control.recording, 1);
  raise_epoch();
  return 0;
}

int stop_locked() {
  if (!has_tables) return 0;
  store(control.recording, 0);
  store_release(control.directory->state, kStateDormant);
  store(control.directory->interpreter.kind, kInterpreterNone);
  raise_epoch();
  return has_records ? clear_when_quiet() : 0;
}

const char* variable(const char* name) {
  const char* value = getenv(name);
  return value != nullptr && *value != 0 ? value : nullptr;
}

// A number with an optional unit: k, KiB, MB ... are all powers of 1024. `fallback` for anything
// else.
uint64_t number_of(const char* text, uint64_t fallback) {
  if (text == nullptr || *text < '0' || *text > '9') return fallback;
  uint64_t value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) {
    if (value > ~0ULL / 16) return fallback;
    value = value * 10 + static_cast<uint64_t>(*text - '0');
  }
  unsigned shift = 0;
  switch (*text | 0x20) {
    case 'k': shift = 10; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    default: return *text == 0 || *text == 'B' ? value : fallback;
  }
  return value > ~0ULL >> shift ? fallback : value << shift;
}

void start_from_environment() {
  const uint64_t only_pid = number_of(variable("HEAPSNAP_ONLY_PID"), 0);
  if (only_pid != 0 && only_pid != own_pid()) return;
  HeapsnapTrackerOptions options{};
  options.size = sizeof options;
  const uint64_t frames = number_of(variable("HEAPSNAP_FRAMES"), kDefaultFrames);
  options.max_frames = static_cast<uint32_t>(frames < kFramesAtMost ? frames : kFramesAtMost);
  options.sample_bytes = number_of(variable("HEAPSNAP_SAMPLE"), 0);
  const uint64_t limit = number_of(variable("HEAPSNAP_MEMORY_LIMIT"), 0);
  const uint64_t least_limit = least_memory_limit(options.max_frames);
  options.memory_limit = limit != 0 && limit < least_limit ? least_limit : limit;
  const uint64_t descriptor = number_of(variable("HEAPSNAP_TABLE_FD"), ~0ULL);
  options.table_fd = descriptor < 1 << 20 ? static_cast<int32_t>(descriptor) : -1;
  if (number_of(variable("HEAPSNAP_INTERPRETER_FRAMES"), 0) == 1) {
    options.flags = HEAPSNAP_TRACKER_INTERPRETER_FRAMES;
  }
  heapsnap_tracker_start(&options);
}

}  // namespace

void start_if_preloaded() {
  // Before the C library has set this up nobody can tell what is wanted; a handful of blocks of
  // ld.so.
  if (load(preload_state) != kUndecided || environ == nullptr) return;
  uint32_t expected = kUndecided;
  if (!__atomic_compare_exchange_n(&preload_state, &expected, kDeciding, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  const int error = errno;
  start_from_environment();
  errno = error;
  store_release(preload_state, kDecided);
}

}  // namespace heapsnap::tracker

using namespace heapsnap::tracker;

HEAPSNAP_EXPORT int heapsnap_tracker_start(const HeapsnapTrackerOptions* options) {
  HeapsnapTrackerOptions chosen{sizeof chosen, kDefaultFrames, 0, 0, -1, 0};
  if (options != nullptr) {
    if (options->size < 8 || options->size > sizeof chosen) return -EINVAL;
    chosen = {};
    chosen.table_fd = -1;
    __builtin_memcpy(&chosen, options, options->size);
  }
  store_release(preload_state, kDecided);
  if (!start_lock.lock()) return -EBUSY;
  const int result = start_locked(chosen);
  start_lock.unlock();
  return result;
}

HEAPSNAP_EXPORT int heapsnap_tracker_stop() {
  store_release(preload_state, kDecided);
  if (!start_lock.lock()) return -EBUSY;
  const int result = stop_locked();
  start_lock.unlock();
  return result;
}
