#include "platform/linux/freeze/running_process.h"

#include <utility>

#include "platform/linux/freeze/live_view.h"
#include "platform/linux/proc/ask_again.h"

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

}  // namespace

std::unique_ptr<Target> open_running_process(int pid) {
  return std::make_unique<RunningProcess>(
      ask_again(ProcFs(), pid, [pid] { return look_at_running(ProcFs(), pid); }));
}

}  // namespace heapsnap
