#include "tools/tracker_image/tracker_file.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/unique_fd.h"
#include "elf/elf_image.h"
#include "tools/tracker_image/tracker_image.h"

namespace heapsnap {

namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr mode_t kReadableByAll = 0755;
constexpr mode_t kOwnersOnly = 0700;

bool is_ours(const struct stat& status) {
  return (status.st_uid == 0 || status.st_uid == ::geteuid()) &&
         (status.st_mode & kOthersWrite) == 0;
}

// Without symbolic links; empty when there is no such file.
std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> buffer{};
  return ::realpath(path.c_str(), buffer.data()) != nullptr ? buffer.data() : "";
}

// Of a resolved path: whether only root and this user can ever change what it leads to.
bool is_only_ours(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string folder = path.substr(0, end);
    struct stat status {};
    if (::lstat(folder.c_str(), &status) != 0 || !is_ours(status)) return false;
  }
  struct stat root {};
  return ::lstat("/", &root) == 0 && is_ours(root);
}

// LD_PRELOAD is a list, and ld.so replaces $ORIGIN and its like.
bool can_be_listed(const std::string& path) {
  return !path.empty() && path.find_first_of(": $") == std::string::npos;
}

std::optional<MappedFile> mapped(const std::string& path) {
  try {
    return MappedFile::open(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Not on a file system that is mounted noexec.
bool can_be_executed(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!file) return false;
  void* const page = ::mmap(nullptr, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
  if (page == MAP_FAILED) return false;
  ::munmap(page, 1);
  return true;
}

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_usable(const std::string& path) {
  return can_be_listed(path) && is_regular(path) && is_only_ours(path) && can_be_executed(path);
}

std::string build_id_of(std::span<const std::byte> library) {
  return ElfImage::from_bytes(library, "libheapsnap_tracker.so").build_id();
}

// By the build-id, since it is installed with symbols.
std::string installed_tracker() {
  std::string path = resolved(HEAPSNAP_INSTALLED_TRACKER);
  if (!is_usable(path)) return {};
  const auto file = mapped(path);
  try {
    const std::string build_id = build_id_of(tracker_image());
    if (file && !build_id.empty() && build_id_of(file->bytes()) == build_id) return path;
  } catch (const Error&) {
    return {};  // no library
  }
  return {};
}

bool holds_image(const std::string& path) {
  if (!is_regular(path)) return false;
  const auto file = mapped(path);
  const auto image = tracker_image();
  return file && std::equal(image.begin(), image.end(), file->bytes().begin(), file->bytes().end());
}

// Under another name first: somebody else may be about to load it.
bool write_image(const std::string& path) {
  std::string unfinished = path + ".XXXXXX";
  const UniqueFd file(::mkostemp(unfinished.data(), O_CLOEXEC));
  if (!file) return false;
  bool is_written = true;
  for (auto rest = tracker_image(); is_written && !rest.empty();) {
    const ssize_t count = ::write(file.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    is_written = count > 0;
    if (is_written) rest = rest.subspan(static_cast<size_t>(count));
  }
  if (is_written && ::fchmod(file.get(), kReadableByAll) == 0 &&
      ::rename(unfinished.c_str(), path.c_str()) == 0) {
    return true;
  }
  ::unlink(unfinished.c_str());
  return false;
}

// Gives the resolved path; empty when it cannot be, or is not only ours. Nothing is made in a
// folder of others.
std::string make_folder(const std::string& path) {
  if (std::string place = resolved(path); !place.empty()) {
    return is_only_ours(place) ? place : std::string();
  }
  const size_t last = path.rfind('/');
  const std::string above = path.substr(0, last);
  std::string place = above.ends_with("/.cache") ? make_folder(above) : resolved(above);
  if (place.empty() || !is_only_ours(place)) return {};
  place += path.substr(last);
  const bool is_for_all = ::geteuid() == 0 && path.starts_with("/var/");
  if (::mkdir(place.c_str(), kOwnersOnly) != 0) return {};
  if (is_for_all) ::chmod(place.c_str(), kReadableByAll);
  return is_only_ours(place) ? place : std::string();
}

// Of a folder that the environment names: only an absolute path is one (XDG Base Directory).
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

// By /etc/passwd alone: a statically linked program cannot use the system's name services.
std::string own_home() {
  const std::unique_ptr<FILE, int (*)(FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
  if (users == nullptr) return {};
  while (const passwd* const user = ::fgetpwent(users.get())) {
    if (user->pw_uid == ::geteuid()) return user->pw_dir;
  }
  return {};
}

}  // namespace

std::vector<std::string> tracker_folders() {
  std::vector<std::string> folders;
  const auto add = [&folders](const std::string& base, const char* below) {
    if (!base.empty()) folders.push_back(base + below);
  };
  if (::geteuid() == 0) add("/var/cache", "/heapsnap");
  add(variable("XDG_CACHE_HOME"), "/heapsnap");
  add(variable("HOME"), "/.cache/heapsnap");
  add(own_home(), "/.cache/heapsnap");
  add(variable("XDG_RUNTIME_DIR"), "/heapsnap");
  return folders;
}

std::string tracker_file_in(const std::string& folder) {
  const std::string place = make_folder(folder);
  if (place.empty()) return {};
  const std::string path =
      place + "/libheapsnap_tracker-" + build_id_of(tracker_image()).substr(0, 16) + ".so";
  if (!holds_image(path) && !write_image(path)) return {};
  return is_usable(path) ? path : std::string();
}

std::string preloadable_tracker() {
  if (std::string path = installed_tracker(); !path.empty()) return path;
  std::string tried;
  for (const std::string& folder : tracker_folders()) {
    if (std::string path = tracker_file_in(folder); !path.empty()) return path;
    tried += (tried.empty() ? "" : ", ") + folder;
  }
  throw Error(ErrorKind::kOutput, "there is no directory for the tracker's library",
              "its file must be in a directory that only you and root can write to, on a file "
              "system that is not mounted noexec; tried: " +
                  (tried.empty() ? std::string("none") : tried),
              "name one: XDG_CACHE_HOME=/DIRECTORY heapsnap run ...");
}

}  // namespace heapsnap
