#include "tools/heapsnap/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace heapsnap {

namespace {
bool is_standard_output(const std::string& path) {
  return path.empty() || path == "-";
}
}  // namespace

UniqueFd open_new_file(const std::string& path, bool replace) {
  if (is_standard_output(path)) return UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  const int how = replace ? O_TRUNC : O_EXCL;
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | how, 0600));
  if (!fd && errno == EEXIST) {
    throw Error(ErrorKind::kUsage, "output " + path, "the file exists",
                "choose another name, or replace it with -f");
  }
  if (!fd) throw Error(ErrorKind::kOutput, "cannot write " + path, errno_text(errno));
  return fd;
}

std::string output_label(const std::string& path) {
  return is_standard_output(path) ? "standard output" : path;
}

}  // namespace heapsnap
