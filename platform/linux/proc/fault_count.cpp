#include "platform/linux/proc/fault_count.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "platform/linux/proc/kernel_text.h"
#include "platform/linux/proc/proc_fs.h"

namespace heapsnap {

std::optional<uint64_t> faults_in_stat(std::string_view text) {
  constexpr int kMinor = 10;  // fields, by proc_pid_stat(5)
  constexpr int kMajor = 12;
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::string_view rest = text.substr(name_end + 1);
  uint64_t faults = 0;
  for (int field = 3; field <= kMajor; ++field) {
    const auto number = parse_number(take_word(rest));
    if (field != kMinor && field != kMajor) continue;
    if (!number) return std::nullopt;
    faults += *number;
  }
  return faults;
}

FaultCount::FaultCount(int pid, const KernelFiles& files)
    : stat_(::open(ProcFs(files.proc).path(pid, "stat").c_str(), O_RDONLY | O_CLOEXEC)),
      page_size_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))) {
  restart();
}

void FaultCount::restart() {
  before_ = faults();
}

std::optional<uint64_t> FaultCount::bytes() const {
  const auto now = faults();
  if (!now || !before_ || *now < *before_) return std::nullopt;
  return (*now - *before_) * page_size_;
}

std::optional<uint64_t> FaultCount::faults() const {
  std::array<char, 1024> text{};
  const ssize_t count = stat_ ? ::pread(stat_.get(), text.data(), text.size(), 0) : -1;
  return faults_in_stat({text.data(), count > 0 ? static_cast<size_t>(count) : 0});
}

}  // namespace heapsnap
