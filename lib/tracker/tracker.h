/* How heapsnap talks to libheapsnap_tracker.so inside the process: three C functions and one word.
 *
 * Two ways in. Preloaded (LD_PRELOAD): the library's own malloc and friends come first, the first
 * of them that is called starts recording with the options of the HEAPSNAP_* variables, and nothing
 * here need be called. Injected (dlopen, RTLD_LOCAL | RTLD_NOW): nothing is hooked and nothing
 * recorded until heapsnap_tracker_start() was called AND the entry points were patched from outside
 * to jump to the hooks of the directory's hook table (table_layout.h, HookEntry). The order is:
 * dlopen, start, fill the `original` words, patch. And back: restore the patched bytes, see that no
 * thread stands in a trampoline, stop.
 *
 * Call start and stop on a normal thread, that is, one that pthread_create made (own thread control
 * block, own stack), one at a time, not in a signal handler and not while the caller is inside the
 * allocator or the loader. They may take tens of milliseconds in a large program (rows are compiled
 * from .eh_frame), in which all other threads run on. They print nothing, start no thread, change
 * no signal mask and no environment variable. Never dlclose the library.
 */
#ifndef HEAPSNAP_TRACKER_TRACKER_H
#define HEAPSNAP_TRACKER_TRACKER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct HeapsnapTrackerOptions {
  uint32_t size;         /* sizeof(HeapsnapTrackerOptions): smaller ones leave the rest at 0 */
  uint32_t max_frames;   /* innermost frames kept of a stack; 0: no limit (4096 at most) */
  uint64_t sample_bytes; /* mean bytes between samples; 0: record every allocation */
  uint64_t memory_limit; /* bytes that tables and working memory may take, least_memory_limit() of
                            table_layout.h or more; 0: no limit */
  int32_t table_fd;      /* a memfd to put the tables in, grown as needed; -1: anonymous memory.
                            Duplicated by start. Only the first start looks at it. */
  uint32_t flags;        /* HEAPSNAP_TRACKER_... */
} HeapsnapTrackerOptions;

/* Stacks have the frames of an interpreter, too, as soon as the Directory says where it has them
 * (InterpreterLayout). A start without this flag makes the tracker forget where. */
#define HEAPSNAP_TRACKER_INTERPRETER_FRAMES 1U

/* Starts recording, or changes the options of a recording that runs (blocks recorded so far stay).
 * NULL: the defaults (64 frames, every allocation, no limit, anonymous memory).
 * Gives 0 or a negative errno: -EINVAL (options), -ENOMEM (tables refused), -ENOTSUP (calls
 * of malloc and its like reach another allocator than the C library's; the directory says which),
 * -EBUSY or -ENOSYS (the stop before has not come to its end, as below). After an error everything
 * is as it was. */
int heapsnap_tracker_start(const HeapsnapTrackerOptions* options);

/* Stops recording: hooks that are still entered call the original and nothing else. Then gives the
 * memory of all tables back to the system (their addresses stay reserved), and recording can be
 * started anew. -EBUSY: recording has stopped, but a thread stayed inside a hook for a second, so
 * the tables were left as they are; call again. -ENOSYS: recording has stopped, and the tables
 * stay, since membarrier(2) is refused, without which nobody can tell that no thread is in them. */
int heapsnap_tracker_stop(void);

/* Address of the Directory, or 0 before the first start. A variable, so that reading the word is
 * enough. */
extern uint64_t heapsnap_tracker_directory;

#ifdef __cplusplus
}
#endif
#endif
