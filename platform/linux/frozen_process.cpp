#include "platform/linux/frozen_process.h"

#include <time.h>

#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "platform/linux/live_view.h"
#include "platform/linux/page_map.h"
#include "platform/linux/process_memory.h"
#include "platform/linux/ptrace_session.h"
#include "platform/linux/realtime_priority.h"
#include "platform/linux/tracer_thread.h"

namespace heapsnap {

namespace {

class RunningProcess final : public Target {
 public:
  explicit RunningProcess(LiveView view) : view_(std::move(view)) {}

  const Process& process() const override { return view_.process; }
  const AddressSpace& address_space() const override { return view_.address_space; }
  const std::vector<Thread>& threads() const override { return view_.threads; }
  MemoryReader& memory() override { return *view_.memory; }
  PageResidency& residency() override { return *view_.residency; }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return view_.open_file(mapping);
  }

 private:
  LiveView view_;
};

// A process held in one of the three ways.
class HeldProcess final : public FrozenProcess {
 public:
  HeldProcess(int pid, const FreezeOptions& options) : view_(look_at_running(ProcFs(), pid)) {
    if (options.choice == FreezeChoice::kNone) {
      record_.method = FreezeMethod::kNone;
      record_.why = "none: asked for; the target ran on while it was read";
      record_.threads = view_.threads.size();
      return;
    }
    tracer_.emplace();
    try {
      tracer_->run([&] { stop(options); });
    } catch (const TraceRefused& refusal) {
      let_go();
      throw Error(ErrorKind::kNotPermitted, "cannot trace process " + std::to_string(pid),
                  errno_text(refusal.error_number()),
                  "run heapsnap as the user of the process, or as root");
    } catch (...) {
      let_go();
      throw;
    }
  }

  ~HeldProcess() override { thaw(); }

  const Process& process() const override { return view_.process; }
  const AddressSpace& address_space() const override { return view_.address_space; }
  const std::vector<Thread>& threads() const override { return view_.threads; }
  MemoryReader& memory() override { return *view_.memory; }
  PageResidency& residency() override { return *view_.residency; }
  std::optional<MappedFile> open_file(const Mapping& mapping) override {
    return view_.open_file(mapping);
  }

  bool target_is_stopped() const override { return session_ != nullptr; }
  void thaw() noexcept override {
    if (tracer_) let_go();
  }
  const FreezeRecord& record() const override { return record_; }
  std::vector<MappingUsage> mapping_usage() override {
    return usage_by_smaps(view_.proc, view_.tid, view_.address_space.mappings());
  }

 private:
  void stop(const FreezeOptions& options) {
    const RealtimePriority priority;
    session_ = std::make_unique<PtraceSession>(view_.proc, view_.process.pid);
    session_->stop_all(TraceClock::now() + options.deadline);
    take_stopped();
    record_.method = FreezeMethod::kStop;
    record_.why = "stop: asked for";
  }

  void take_stopped() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    view_.process.taken_at_ns = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
    view_.tid = session_->live_tid();
    view_.process.rss = view_.proc.resident_bytes(view_.tid);
    view_.address_space = AddressSpace(view_.proc.maps(view_.tid));
    std::map<int, std::string> names;
    for (Thread& thread : view_.threads) names[thread.tid] = std::move(thread.name);
    view_.threads.clear();
    for (const Tracee& tracee : session_->tracees()) {
      if (tracee.is_gone()) continue;
      Thread thread{tracee.tid(), names[tracee.tid()], std::nullopt};
      if (tracee.is_stopped()) {
        const auto& registers = tracee.registers();
        thread.registers =
            Registers{Address(registers.rip), Address(registers.rsp), Address(registers.fs_base)};
      }
      view_.threads.push_back(std::move(thread));
    }
    record_.threads = view_.threads.size();
    record_.syscalls_restarted = session_->syscalls_restarted();
  }

  void let_go() noexcept {
    try {
      tracer_->run([this] {
        const RealtimePriority priority;
        if (!session_) return;
        session_->release();
        record_.pause_ns = static_cast<uint64_t>(session_->pause().count());
        session_.reset();
      });
    } catch (...) {
      // Nothing to do about it: the end of the tracing thread lets everyone go.
    }
    tracer_.reset();
  }

  LiveView view_;
  FreezeRecord record_;
  std::optional<TracerThread> tracer_;
  std::unique_ptr<PtraceSession> session_;  // lives on the tracing thread
};

}  // namespace

std::unique_ptr<FrozenProcess> FrozenProcess::freeze(int pid, const FreezeOptions& options) {
  return std::make_unique<HeldProcess>(pid, options);
}

std::unique_ptr<Target> open_running_process(int pid) {
  return std::make_unique<RunningProcess>(look_at_running(ProcFs(), pid));
}

}  // namespace heapsnap
