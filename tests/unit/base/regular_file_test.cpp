// Names that somebody else chose: what may be opened, and where they may lead.
#include "base/regular_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

std::string text_of(const UniqueFd& file) {
  std::array<char, 64> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

// Whether anybody opens `path` while `act` runs.
bool is_opened_by(const std::string& path, const std::function<void()>& act) {
  const UniqueFd events(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  REQUIRE(::inotify_add_watch(events.get(), path.c_str(), IN_OPEN) >= 0);
  act();
  pollfd ready{events.get(), POLLIN, 0};
  return ::poll(&ready, 1, 0) > 0;
}

// Runs `check` in a child where openat2(2) is missing. Gives whether it held.
bool holds_without_openat2(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<sock_filter, 4> code{{{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
                                     {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_openat2},
                                     {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
                                     {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}}};
    const sock_fprog program{code.size(), code.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      ::_exit(2);
    }
    ::_exit(check() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Names in a root folder, and what they hold: "" where nothing may be found.
struct Name {
  const char* path;
  const char* text;
};

bool all_lead_right(const std::string& root) {
  constexpr std::array<Name, 12> kNames{{{"/etc/file", "inside"},
                                         {"etc/file", "inside"},
                                         {"/absolute", "inside"},
                                         {"/up", "inside"},
                                         {"/../../../etc/file", "inside"},
                                         {"/folder/./file", "inside"},
                                         {"/folder/../etc//file", "inside"},
                                         {"/loop", ""},
                                         {"/outside", ""},
                                         {"/etc", ""},
                                         {"/", ""},
                                         {"/fifo", ""}}};
  for (const auto& [path, text] : kNames) {
    if (text_of(open_regular_in(root, path)) != text) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("only regular files are opened; others are not touched") {
  const TemporaryFolder folder;
  const std::string fifo = folder.at("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const std::string link = folder.at("link");
  REQUIRE(::symlink("fifo", link.c_str()) == 0);
  for (const std::string& path : {fifo, link}) {
    CHECK_FALSE(is_opened_by(fifo, [&] {
      CHECK_FALSE(open_regular(path));
      CHECK(errno == EINVAL);
      CHECK_THROWS_AS(MappedFile::open(path), Error);
    }));
  }
  CHECK_FALSE(is_opened_by("/dev/null", [] { CHECK_FALSE(open_regular("/dev/null")); }));
  CHECK_FALSE(is_opened_by("/dev/tty", [] { CHECK_FALSE(open_regular("/dev/tty")); }));
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = folder.at("socket");
  REQUIRE(name.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, name.c_str(), name.size());
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK_FALSE(open_regular(name));
  CHECK_FALSE(open_regular(folder.at("")));
  CHECK_FALSE(open_regular(folder.at("nothing")));
  CHECK(errno == ENOENT);
  // The test can see an opening.
  const std::string file = folder.write("file", "text");
  CHECK(is_opened_by(file, [&] { CHECK(text_of(open_regular(file)) == "text"); }));
}

TEST_CASE("no name leads out of a root folder") {
  const TemporaryFolder folder;
  folder.write("file", "outside");
  folder.write("etc/file", "outside");
  folder.write("root/etc/file", "inside");
  folder.write("root/folder/file", "inside");
  const std::string root = folder.at("root");
  REQUIRE(::symlink("/etc/file", (root + "/absolute").c_str()) == 0);
  REQUIRE(::symlink("../../etc/file", (root + "/up").c_str()) == 0);
  REQUIRE(::symlink("loop", (root + "/loop").c_str()) == 0);
  REQUIRE(::symlink("../file", (root + "/outside").c_str()) == 0);
  REQUIRE(::mkfifo((root + "/fifo").c_str(), 0600) == 0);
  CHECK(all_lead_right(root));
  CHECK(holds_without_openat2([&] { return all_lead_right(root); }));
  CHECK_FALSE(holds_without_openat2([&] { return all_lead_right(folder.at("")); }));
  CHECK(text_of(open_regular_in("", folder.at("file"))) == "outside");
  CHECK_THROWS_AS(MappedFile::open_in(root, "/outside"), Error);
}
