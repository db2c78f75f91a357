#include "tools/inject/trim.h"

#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/proc/process_status.h"
#include "tools/inject/c_library.h"
#include "tools/inject/heap_look.h"
#include "tools/inject/library_load.h"
#include "tools/inject/running_program.h"

namespace heapsnap {

namespace {

TrimResult trim(RunningProgram& target) {
  const int pid = target.process().pid;
  const CLibrary libc = CLibrary::find(target);
  std::vector<LookPause> look_pauses = require_sound_heap(target, libc);
  const ProcFs proc;
  const int tid = proc.live_tid(pid).value_or(pid);
  TrimResult result;
  const auto status = [&] { return read_process_status(proc, tid).value_or(ProcessStatus()); };
  result.anonymous_before = status().anonymous_or_rss();
  LibraryCallResult call = call_function(target, libc, libc.function("malloc_trim"), uint64_t{0});
  result.anonymous_after = status().anonymous_or_rss();
  result.gave_up_pages = call.value != 0;
  result.call = std::move(call.injection);
  result.look_pauses = std::move(look_pauses);
  return result;
}

}  // namespace

TrimResult trim_process(int pid) {
  return work_on(pid, [](RunningProgram& program) { return trim(program); });
}

}  // namespace heapsnap
