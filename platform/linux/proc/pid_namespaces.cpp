#include "platform/linux/proc/pid_namespaces.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>

namespace heapsnap {

namespace {

// What the link names; nothing where that may not be read, or where there is no such link. The link
// to a namespace that has had no process yet exists and names nothing: "".
std::optional<std::string> namespace_named_by(const std::string& link) {
  std::array<char, 64> text;
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size >= 0) return std::string(text.data(), static_cast<size_t>(size));
  const bool may_be_read = errno != EACCES && errno != EPERM;
  struct stat status {};
  if (!may_be_read || ::lstat(link.c_str(), &status) != 0) return std::nullopt;
  return std::string();
}

}  // namespace

bool creates_children_elsewhere(const ProcFs& proc, int tid) {
  const auto own = namespace_named_by(proc.path(tid, "ns/pid"));
  const auto of_children = namespace_named_by(proc.path(tid, "ns/pid_for_children"));
  return own && !own->empty() && of_children && *of_children != *own;
}

}  // namespace heapsnap
