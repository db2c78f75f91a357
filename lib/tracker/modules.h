// The modules (ELF files) mapped in the process, with their unwind rows, kept up to date without a
// hook on dlopen or dlclose:
//
// - A module not seen before is noticed when a return address lies in none that we know. glibc
//   2.35 and later answer that without a lock (_dl_find_object); older ones by dl_iterate_phdr.
// - A module that is gone is noticed at the next free() that ld.so itself calls: dlclose frees the
//   module's bookkeeping after it has unmapped it, and no other module can be mapped before that.
//   Then all threads forget what they remember (raise_epoch), since a return address can mean
//   something else now.
//
// A thread never waits here: when another one is busy with the modules, look_up says kSpecial, and
// the frame is unwound from .eh_frame as it stands. dl_iterate_phdr waits for ld.so's list lock,
// which nobody holds while waiting for us.
#pragma once

#include <cstdint>

#include "tracker/unwind_rows.h"

namespace heapsnap::tracker {

struct RuleAt {
  UnwindRule rule;
  uint32_t module;  // index into Directory::modules, or kNoModule
  bool lasting;     // holds until the next epoch, so may be remembered
};

// Lists all modules, and compiles their rows unless only samples are wanted: then each rule is
// looked up in .eh_frame, which takes a microsecond or so. At start, on a thread that may take its
// time.
void scan_modules_at_start();

// Compiles the rows of the modules that were found while only samples were wanted. On such a
// thread.
void make_missing_rows();

// The rule in force at `pc` (the address of an instruction: return address - 1).
RuleAt look_up_rule(uint64_t pc);

// The function that holds pc, from .eh_frame. False when no CFI covers it.
bool find_function(uint64_t pc, CfiFunction& out);

// A block was freed by ld.so: modules may be gone.
void check_for_unloaded_modules();

// For a fork: nobody is within dl_iterate_phdr for us while the process is copied, since glibc does
// not reinitialise the list lock of ld.so (dl_load_write_lock; it does so for the lock of its data)
// in the child. False when that takes longer than a second; for the scan at start there is no such
// limit.
bool lock_modules();
void unlock_modules();
// For a forked child: nobody else is there any more.
void reset_module_lock();

// Tables were dropped: forget the records, so that the next scan writes them again.
void forget_modules();

}  // namespace heapsnap::tracker
