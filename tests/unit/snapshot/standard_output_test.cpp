// Snapshots to standard output, and devices that take nothing more.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/unique_fd.h"
#include "snapshot/output_file.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

// Standard output is something else for a while.
class StandardOutput {
 public:
  explicit StandardOutput(int fd) : before_(::dup(STDOUT_FILENO)) { ::dup2(fd, STDOUT_FILENO); }
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;
  ~StandardOutput() { ::dup2(before_.get(), STDOUT_FILENO); }

 private:
  UniqueFd before_;
};

// How writing `bytes` of contents to `path` ends.
ErrorKind kind_of_writing(const std::string& path, size_t bytes, bool deferred = false) {
  try {
    SnapshotWriter writer({path, false});
    writer.set_deferred(deferred);
    std::mt19937_64 random(1);
    std::vector<std::byte> piece(1U << 16);
    for (size_t done = 0; done < bytes; done += piece.size()) {
      for (auto& byte : piece) byte = static_cast<std::byte>(random());
      writer.on_contents(Address(done), piece);
    }
    writer.finish({});
  } catch (const Error& error) {
    CHECK_FALSE(error.remedy().empty());
    return error.kind();
  }
  return ErrorKind{};
}

}  // namespace

TEST_CASE("a snapshot goes through a pipe") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd in(ends[0]), out(ends[1]);
  std::vector<std::byte> bytes;
  std::thread reader([&] {
    std::byte buffer[4096];
    for (ssize_t got; (got = ::read(in.get(), buffer, sizeof buffer)) > 0;) {
      bytes.insert(bytes.end(), buffer, buffer + got);
    }
  });
  {
    const StandardOutput redirected(out.get());
    out.reset();
    write_small_snapshot("-");
  }
  reader.join();
  CHECK(bytes == small_snapshot());
}

TEST_CASE("a snapshot goes into a redirected file") {
  const TemporaryDirectory directory;
  {
    UniqueFd out(::open(directory.file("out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(out.is_open());
    const StandardOutput redirected(out.get());
    write_small_snapshot("-");
  }
  CHECK(read_file(directory.file("out")) == small_snapshot());
}

TEST_CASE("a terminal is refused") {
  UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master.is_open());
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  UniqueFd terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal.is_open());
  ErrorKind kind{};
  {
    const StandardOutput redirected(terminal.get());
    kind = kind_of_writing("-", 0);
  }
  CHECK(kind == ErrorKind::kUsage);
}

TEST_CASE("a pipe that nobody reads is an error, not a signal") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  UniqueFd in(ends[0]), out(ends[1]);
  in.reset();
  struct sigaction before {
  }, plain{};
  plain.sa_handler = SIG_DFL;
  REQUIRE(::sigaction(SIGPIPE, &plain, &before) == 0);
  ErrorKind kind{};
  {
    const StandardOutput redirected(out.get());
    kind = kind_of_writing("-", 0);
  }
  sigset_t pending;
  ::sigpending(&pending);
  CHECK(::sigismember(&pending, SIGPIPE) == 0);
  ::sigaction(SIGPIPE, &before, nullptr);
  CHECK(kind == ErrorKind::kOutput);
}

TEST_CASE("a full device is an error with a remedy") {
  UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full.is_open());
  for (const size_t bytes : {size_t{0}, size_t{3} << 20}) {
    ErrorKind kind{};
    {
      const StandardOutput redirected(full.get());
      kind = kind_of_writing("-", bytes);
    }
    CHECK(kind == ErrorKind::kOutput);
  }
}

TEST_CASE("a full file system leaves nothing behind") {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // 77: may not mount. 0: as it should be.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=4m") != 0) {
      ::_exit(77);
    }
    ::setenv("TMPDIR", directory.path().c_str(), 1);
    int wrong = 0;
    for (const bool deferred : {false, true}) {
      wrong += kind_of_writing(directory.file("out"), 64U << 20, deferred) != ErrorKind::kOutput;
      wrong += !directory.names().empty();
    }
    wrong += kind_of_writing(directory.file("fits"), 1U << 20) != ErrorKind{};
    wrong += directory.names() != std::vector<std::string>{"fits"};
    ::_exit(wrong);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("left out: this needs the right to mount");
    return;
  }
  CHECK(status == 0);
}
