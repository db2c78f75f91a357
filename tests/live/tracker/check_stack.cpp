// Part of the checking build of the tracker: compares every stack that is recorded with libunwind's
// of the same moment, frame by frame. At exit of the process the outcome goes to the file that
// HEAPSNAP_CHECK_OUTPUT names (one line "stacks=N different=N truncated=N ...", then the first
// differences).
//
// HEAPSNAP_CHECK_CACHE=0: libunwind looks everything up anew each time (programs that dlclose).
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracker/recording.h"

namespace heapsnap::tracker {

namespace {

constexpr unsigned kFrames = kFramesAtMost + 64;
constexpr unsigned kReports = 5;
constexpr size_t kReportRoom = 1 << 16;

uint64_t stacks, different, truncated, not_taken, cut, deepest;
char reports[kReportRoom];
size_t report_size;
unsigned report_count;

void append(const char* format, auto... arguments) {
  const int size = snprintf(reports + report_size, kReportRoom - report_size, format, arguments...);
  if (size > 0) {
    report_size += static_cast<size_t>(size);
    if (report_size > kReportRoom) report_size = kReportRoom;
  }
}

void append_path(const char* title, const uint64_t* pcs, unsigned count) {
  append(" %s:\n", title);
  for (unsigned i = 0; i < count && i < 80; ++i) {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(pcs[i] - 1), &info);
    append("  %2u %#lx %s %s\n", i, pcs[i], info.dli_sname != nullptr ? info.dli_sname : "?",
           info.dli_fname != nullptr ? info.dli_fname : "?");
  }
}

bool has_unwind_info(uint64_t pc) {
  unw_proc_info_t info;
  return unw_get_proc_info_by_ip(unw_local_addr_space, pc, &info, nullptr) == 0;
}

void report(const char* why, uint64_t root, const uint64_t* ours, unsigned our_count,
            const uint64_t* theirs, unsigned their_count) {
  if (__atomic_fetch_add(&report_count, 1, __ATOMIC_RELAXED) >= kReports) return;
  append("%s, root %lu, %u and %u frames\n", why, root, our_count, their_count);
  append_path("recorded", ours, our_count);
  append_path("libunwind", theirs, their_count);
}

unsigned unwind(uint64_t from_sp, uint64_t* pcs) {
  unw_context_t context;
  unw_cursor_t cursor;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  bool is_outside = false;
  unsigned count = 0;
  do {
    unw_word_t sp = 0;
    unw_word_t pc = 0;
    unw_get_reg(&cursor, UNW_REG_SP, &sp);
    unw_get_reg(&cursor, UNW_REG_IP, &pc);
    is_outside = is_outside || sp == from_sp;
    if (is_outside && pc != 0) pcs[count++] = pc;
  } while (count < kFrames && unw_step(&cursor) > 0);
  return count;
}

__attribute__((constructor)) void set_up() {
  const char* cache = getenv("HEAPSNAP_CHECK_CACHE");
  unw_set_caching_policy(unw_local_addr_space,
                         cache != nullptr && *cache == '0' ? UNW_CACHE_NONE : UNW_CACHE_PER_THREAD);
}

__attribute__((destructor)) void write_outcome() {
  const char* path = getenv("HEAPSNAP_CHECK_OUTPUT");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  const Directory& directory = *control.directory;
  char line[512];
  const int size =
      snprintf(line, sizeof line,
               "stacks=%lu different=%lu truncated=%lu cut=%lu not_taken=%lu deepest=%lu "
               "distinct=%lu nodes=%lu "
               "slow=%lu full=%lu nested=%lu modules=%lu limits=%u\n",
               stacks, different, truncated, cut, not_taken, deepest, directory.stacks.count,
               directory.nodes.count, directory.slow_unwinds, directory.full_unwinds,
               directory.nested_events, directory.modules.count, directory.limits);
  if (write(file, line, static_cast<size_t>(size)) < 0 || write(file, reports, report_size) < 0) {
    _exit(99);
  }
  close(file);
}

}  // namespace

void check_stack(uint32_t stack, const void* frame) {
  // Checked stacks nest within no other (the thread is busy), so one buffer a thread will do.
  static thread_local uint64_t* buffers = nullptr;
  if (buffers == nullptr) buffers = static_cast<uint64_t*>(map_working_memory(2 * 8 * kFrames));
  uint64_t* const ours = buffers;
  uint64_t* const theirs = buffers + kFrames;
  add(stacks, 1);
  if (stack == kStackNotTaken) {
    add(not_taken, 1);
    return;
  }
  const Directory& directory = *control.directory;
  const auto& record = entry<StackRecord>(directory.stacks, stack);
  unsigned our_count = 0;
  uint32_t node = record.node;
  for (; node >= kFirstNode && our_count < kFrames; ++our_count) {
    const auto& at = entry<StackNode>(directory.nodes, node);
    ours[our_count] = at.return_address;
    node = at.parent;
  }
  const unsigned their_count = unwind(caller_of_frame(frame).sp, theirs);
  if (our_count > deepest) deepest = our_count;

  const unsigned common = our_count < their_count ? our_count : their_count;
  const char* why = nullptr;
  if (our_count != record.depth) why = "depth does not agree with the nodes";
  if (memcmp(ours, theirs, common * 8) != 0) why = "frames differ";
  switch (node) {
    case kRootComplete:
      // Where the caller's address is 0, libunwind guesses on along rbp; a guess has no CFI.
      if (our_count > their_count ||
          (our_count < their_count && has_unwind_info(theirs[our_count] - 1))) {
        why = "complete, but not of the same length";
      }
      break;
    case kRootDepthLimit:
      add(cut, 1);
      if (our_count != control.max_frames || their_count < our_count) why = "cut at a wrong place";
      break;
    case kRootNoUnwindInfo:
      add(truncated, 1);
      if (their_count < our_count) why = "truncated, but longer";
      if (has_unwind_info(ours[our_count - 1] - 1)) why = "truncated where there is CFI";
      break;
    default: why = "led astray"; break;
  }
  if (why != nullptr) {
    add(different, 1);
    report(why, node, ours, our_count, theirs, their_count);
  }
}

}  // namespace heapsnap::tracker
