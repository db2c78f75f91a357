#include "tools/inject/heap_look.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/count_text.h"
#include "base/error.h"
#include "heap/corruption_log.h"
#include "heap/discovery/malloc_discovery.h"
#include "heap/walk/heap_check.h"
#include "platform/linux/freeze/freeze_notes.h"
#include "platform/linux/freeze/frozen_process.h"
#include "platform/linux/self/nap.h"

namespace heapsnap {

namespace {

// Of the running process, and how many of them with the same result are enough.
constexpr int kMostLooks = 40;
constexpr int kAlikeLooks = 4;
constexpr std::chrono::microseconds kFirstNap{200};
constexpr std::chrono::microseconds kLongestNap{5000};
// Of a process whose threads are inside malloc at each.
constexpr int kMostFreezes = 3;

class HeapLooker {
 public:
  HeapLooker(RunningProgram& target, const CLibrary& libc)
      : target_(target), libc_(libc.libc().load_bias) {}

  HeapLook look() {
    // The cheapest way to find malloc, which finds all but a few, and then every way.
    prepare({{DiscoveryStrategy::kRelocation}});
    if (is_sound_while_running()) return {};
    prepare({});
    look_at_frozen();
    return std::move(result_);
  }

 private:
  void prepare(const DiscoveryOptions& options) {
    prepared_ = prepare_discovery(target_, DebugFileSearch(), options);
    const auto is_other = [this](const MallocModule& each) { return each.load_bias != libc_; };
    if (!std::all_of(prepared_.modules.begin(), prepared_.modules.end(), is_other)) {
      std::erase_if(prepared_.modules, is_other);
    }
    check_.reset();
  }

  bool is_sound_while_running() {
    std::chrono::microseconds pause = kFirstNap;
    int alike = 0;
    for (int look = 1;; ++look) {
      const std::vector<Corruption> before = std::exchange(found_, find_damage(target_));
      if (found_.empty()) return true;
      // What does not look like an arena may be one in which much changes at the moment.
      alike = check_ && found_ == before ? alike + 1 : 1;
      if (alike == kAlikeLooks || look == kMostLooks) return false;
      nap(pause);
      pause = std::min(pause * 3 / 2, kLongestNap);
      target_.look_again();
    }
  }

  void look_at_frozen() {
    FreezeOptions options;
    for (const MallocModule& module : prepared_.modules) {
      if (!module.malloc_text.is_empty()) options.malloc_text.push_back(module.malloc_text);
    }
    for (int look = 1;; ++look) {
      const bool is_final = look_at(options);
      target_.look_again();
      if (is_final) break;
      if (look < kMostFreezes) continue;
      throw Error(ErrorKind::kUnsupported, name() + " was not changed",
                  "whether its heap is damaged cannot be told: its threads are inside malloc "
                  "whenever they are stopped",
                  "try again");
    }
    if (!found_.empty()) result_.damage = describe();
  }

  // Returns whether that tells. If the copy is lost, `options` say to do without.
  bool look_at(FreezeOptions& options) {
    FrozenProcess frozen(target_.process().pid, options);
    std::optional<std::string> loss;
    try {
      found_ = find_damage(frozen);
      loss = frozen.loss();
    } catch (const Error&) {
      loss = frozen.loss();
      if (!loss) throw;
    }
    frozen.thaw();
    const FreezeRecord& record = frozen.record();
    result_.pauses.push_back(
        {record.threads, std::chrono::nanoseconds(record.pause_ns + record.reap_pause_ns)});
    if (loss) {
      options.choice = FreezeChoice::kStop;
      options.why_stop = lost_copy_text(loss);
      return false;
    }
    return found_.empty() || !frozen.has_unfinished_calls();
  }

  std::vector<Corruption> find_damage(Target& target) {
    if (!check_) {
      std::vector<LocatedMalloc> mallocs = locate_mallocs(target, prepared_);
      if (mallocs.empty()) {
        Corruption unknown;
        unknown.what = "main_arena is not where it should be, or everything in it is damaged";
        return {unknown};
      }
      check_.emplace(std::move(mallocs.front()));
    }
    return check_->look(target);
  }

  std::string name() const {
    return fmt::format("process {} ({})", target_.process().pid, target_.process().comm);
  }

  std::string describe() const {
    const Corruption& first = found_.front();
    std::string text = first.what;
    if (!first.where.is_null()) text = "at " + hex(first.where) + ", " + text;
    if (first.arena >= 0) text = fmt::format("arena {}, {}", first.arena, text);
    if (found_.size() > 1) {
      text += fmt::format("; and {}", count_text(found_.size() - 1, "other place", "other places"));
    }
    return text;
  }

  RunningProgram& target_;
  Address libc_;  // its load bias
  PreparedDiscovery prepared_;
  std::optional<HeapCheck> check_;
  std::vector<Corruption> found_;
  HeapLook result_;
};

}  // namespace

HeapLook look_at_heap(RunningProgram& target, const CLibrary& libc) {
  return HeapLooker(target, libc).look();
}

std::vector<LookPause> require_sound_heap(RunningProgram& target, const CLibrary& libc) {
  HeapLook look = look_at_heap(target, libc);
  if (look.damage.empty()) return std::move(look.pauses);
  const int pid = target.process().pid;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("process {} ({}) was not changed", pid, target.process().comm),
              "its heap is damaged, and glibc would end it when a call of heapsnap's comes upon "
              "that: " +
                  look.damage,
              "a snapshot does it no harm: heapsnap attach " + std::to_string(pid) +
                  "; to find what wrote there, run it with valgrind or -fsanitize=address");
}

}  // namespace heapsnap
