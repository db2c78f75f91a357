// Runs functions of the target's own libraries on a thread that heapsnap creates in the target.
//
//   a thread of the target, stopped          caller: mmap, clone; then released
//     └─ a bare clone                        bootstrap: pthread_create, exit
//          └─ a thread of the C library      worker: the calls that were asked for; exits
//   a thread of the target, stopped          caller: munmap
//
// Only the callers are ever stopped; docs/injecting.md says for how long. The bootstrap has a
// control block of its own (thread_control_block.h) because it must not share the caller's: that
// holds the caller's errno, its malloc cache, its state in locks. The worker is needed because the
// loader and constructors of libraries rely on things that only pthread_create sets up.
//
// The data for the calls is written into the mapping that holds the calls. heapsnap opens no file
// for it, least of all one that the target names: if a file is needed, the worker creates it, with
// the rights of the target.
//
// If heapsnap is killed at any moment, the caller returns by itself (stopped_caller.h) and the
// other two run to their ends; what may stay is an unused mapping of about a megabyte.
//
// As long as a process has never had a second thread, the C library skips locks, and pthread_create
// changes that. So there the caller, which is its only thread, first runs until it is stopped
// outside all code that relies on being alone. Then a first clone, the switch, calls pthread_create
// with attributes that are refused: that makes the change, and takes no lock. This clone is made
// like that of a vfork(2): the caller waits until it is gone, even if heapsnap is gone too. From
// then on the process is like any other, and no thread is held while another may wait for a lock.
// Before glibc 2.35 only a pthread_create that succeeds makes the change: there the bootstrap is
// itself the clone that the caller waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "platform/linux/inject/call_list.h"
#include "platform/linux/inject/thread_control_block.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/remote_call/stopped_caller.h"
#include "target/memory_reader.h"

namespace heapsnap {

struct InjectedWork {
  const CallList* calls = nullptr;
  std::span<const std::byte> attachment{};  // bytes for the calls: CallList::attachment()
  // System calls that the functions make, beyond those that threads and the loader need.
  std::vector<SystemCall> system_calls{};
  std::vector<SystemCall> optional_system_calls{};
  uint64_t address_space = 0;  // the most that the functions map
  std::string last_resort{};   // as CallerTask has it
  // How long to wait for the worker. It may have to wait for a lock of the loader; it is never
  // killed, and ends by itself.
  std::chrono::milliseconds patience{60'000};
};

struct StolenTime {
  int tid = 0;
  std::chrono::nanoseconds duration{};
};

struct InjectionResult {
  std::vector<uint64_t> results;         // by step
  std::vector<std::vector<char>> texts;  // of the data blocks, as the calls left them
  std::vector<StolenTime> stolen;        // which threads were stopped, and for how long
  std::vector<std::string> notes;
};

// Makes the calls and waits until they are done. `memory` reads the program that `layout` and
// `work` were made for, and throws Error{kNoProcess} once the process executes another. Throws
// Error{kNoProcess, kNotPermitted, kUnsupported} with the target unchanged, except for
// Error{kUnsupported} when the worker takes longer than `patience`.
InjectionResult run_on_injected_thread(const ProcFs& proc, int pid,
                                       const ThreadControlBlockLayout& layout,
                                       const InjectedWork& work, MemoryReader& memory);

}  // namespace heapsnap
