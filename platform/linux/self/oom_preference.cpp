#include "platform/linux/self/oom_preference.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/unique_fd.h"

namespace heapsnap {

namespace {

constexpr const char* kFile = "/proc/self/oom_score_adj";
constexpr std::string_view kFirst = "1000";  // OOM_SCORE_ADJ_MAX

std::array<char, 16> before;
size_t before_size = 0;  // 0: nothing was changed

void write_preference(std::string_view text) noexcept {
  const UniqueFd file(::open(kFile, O_WRONLY | O_CLOEXEC));
  if (file && ::write(file.get(), text.data(), text.size()) < 0) return;  // refused: it stays
}

}  // namespace

void be_first_oom_victim() noexcept {
  const UniqueFd file(::open(kFile, O_RDONLY | O_CLOEXEC));
  const ssize_t size = file ? ::read(file.get(), before.data(), before.size()) : -1;
  if (size <= 0) return;
  before_size = static_cast<size_t>(size);
  write_preference(kFirst);
}

void restore_oom_preference() noexcept {
  if (before_size != 0) write_preference({before.data(), before_size});
}

}  // namespace heapsnap
