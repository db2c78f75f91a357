/* libheapsnap: a process dumps its own heap.
 *
 * The calls below start the `heapsnap` program as a child (exit signal 0: the caller gets no
 * SIGCHLD and wait(2) never sees it), let it attach to the calling process as it would to any
 * other, and return when the file is complete. The process stands still for milliseconds; only the
 * calling thread waits longer. Nothing is allocated from the heap that is dumped.
 *
 * They return in any case. A dump that takes more than ten minutes ($HEAPSNAP_TIMEOUT: another
 * number of seconds) is ended. Where a seccomp filter bars what a dump needs, the call says so; a
 * system call that the filter answers with the end of the process is one of these, made by the
 * caller: access, clone, clock_gettime, close, fcntl, mmap, munmap, pipe2, prctl, read,
 * rt_sigprocmask, wait4, write.
 *
 * The program is found in this order: $HEAPSNAP_PROGRAM, ../bin/heapsnap beside this library's
 * folder, the folder it was built to be installed in.
 *
 * All functions are thread-safe; calls are carried out one after another. They are no cancellation
 * points, and may be called in a process that was forked during a dump.
 */
#ifndef HEAPSNAP_H
#define HEAPSNAP_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Writes a snapshot of the calling process to `path`, which must not exist (mode 0600).
 * Returns 0, or the exit code of `heapsnap attach` (2 usage, 3 no such process, 4 not permitted,
 * 5 target not supported, 6 bad input, 7 output not written), or 127 when the program could not be
 * started. heapsnap_last_error() then says why. */
int heapsnap_dump_self(const char* path);

/* What the last failed call of this thread had to say: what, why and what to do, in lines.
 * "" after a success. Valid until the thread's next call. */
const char* heapsnap_last_error(void);

/* The two functions of the ptmalloc2 heap dumper, with its text format: the main heap, and all
 * others, appended to `path`. `main_arena` is ignored (it is found by itself) and may be NULL. */
void dump_main_heap(const char* path, void* main_arena);
void dump_non_main_heaps(const char* path, void* main_arena);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
