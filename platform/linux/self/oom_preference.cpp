#include "platform/linux/self/oom_preference.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "base/unique_fd.h"

namespace heapsnap {

void be_first_oom_victim() noexcept {
  constexpr std::string_view kFirst = "1000";  // OOM_SCORE_ADJ_MAX
  const UniqueFd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), kFirst.data(), kFirst.size()) < 0) return;  // refused: it stays
}

}  // namespace heapsnap
