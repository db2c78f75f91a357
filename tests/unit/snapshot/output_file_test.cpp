// Where the bytes end up: under the final name complete, or nowhere.
#include "snapshot/output_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "snapshot_sample.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

using Temporary = OutputFile::Temporary;
constexpr Temporary kBoth[] = {Temporary::kUnnamedIfPossible, Temporary::kNamed};

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(const std::string& path) {
  const auto bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Action>
ErrorKind kind_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK_FALSE(error.remedy().empty());
    return error.kind();
  }
  return ErrorKind{};
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}

}  // namespace

TEST_CASE("a file has its name only after commit, and then all bytes") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("out");
    const std::string large(3U << 20, 'x');
    {
      OutputFile file(path, false, temporary);
      file.append(as_bytes("hello "));
      file.append(as_bytes(large));
      file.append(as_bytes("world"));
      CHECK(file.size() == large.size() + 11);
      CHECK(directory.names().size() == (temporary == Temporary::kNamed ? 1 : 0));
      CHECK(::access(path.c_str(), F_OK) != 0);
      file.commit();
      CHECK(directory.names() == std::vector<std::string>{"out"});
    }
    CHECK(directory.names() == std::vector<std::string>{"out"});
    CHECK(text_of(path) == "hello " + large + "world");
  }
}

TEST_CASE("without commit nothing is left") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    {
      OutputFile file(directory.file("out"), false, temporary);
      file.append(as_bytes("hello"));
    }
    CHECK(directory.names().empty());
  }
}

TEST_CASE("the mode is 0600 whatever the umask") {
  for (const Temporary temporary : kBoth) {
    for (const mode_t mask : {mode_t{0}, mode_t{0777}}) {
      const TemporaryDirectory directory;
      const mode_t before = ::umask(mask);
      OutputFile file(directory.file("out"), false, temporary);
      ::umask(before);
      file.commit();
      CHECK(mode_of(directory.file("out")) == (S_IFREG | 0600));
    }
  }
}

TEST_CASE("an existing file stays, unless it may be overwritten") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("out");
    write_file(path, as_bytes("old"));
    CHECK(kind_of([&] { OutputFile(path, false, temporary); }) == ErrorKind::kUsage);
    {
      OutputFile file(path, true, temporary);
      file.append(as_bytes("new"));
      CHECK(text_of(path) == "old");
    }
    CHECK(text_of(path) == "old");
    OutputFile file(path, true, temporary);
    file.append(as_bytes("new"));
    file.commit();
    CHECK(text_of(path) == "new");
    CHECK(directory.names() == std::vector<std::string>{"out"});
  }
}

TEST_CASE("a file that comes into being meanwhile stays as well") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("out");
    {
      OutputFile file(path, false, temporary);
      file.append(as_bytes("new"));
      write_file(path, as_bytes("somebody else's"));
      CHECK(kind_of([&] { file.commit(); }) == ErrorKind::kUsage);
    }
    CHECK(text_of(path) == "somebody else's");
    CHECK(directory.names() == std::vector<std::string>{"out"});
  }
}

TEST_CASE("symbolic links are refused, and never followed when they come later") {
  for (const Temporary temporary : kBoth) {
    for (const bool overwrite : {false, true}) {
      const TemporaryDirectory directory;
      const std::string path = directory.file("out"), aim = directory.file("aim");
      write_file(aim, as_bytes("precious"));
      REQUIRE(::symlink("aim", path.c_str()) == 0);
      CHECK(kind_of([&] { OutputFile(path, overwrite, temporary); }) == ErrorKind::kUsage);
      REQUIRE(::unlink(path.c_str()) == 0);
      REQUIRE(::symlink("nowhere", path.c_str()) == 0);
      CHECK(kind_of([&] { OutputFile(path, overwrite, temporary); }) == ErrorKind::kUsage);
      REQUIRE(::unlink(path.c_str()) == 0);

      OutputFile file(path, overwrite, temporary);
      file.append(as_bytes("new"));
      REQUIRE(::symlink("aim", path.c_str()) == 0);
      const ErrorKind kind = kind_of([&] { file.commit(); });
      CHECK(kind == (overwrite ? ErrorKind{} : ErrorKind::kUsage));
      CHECK(text_of(aim) == "precious");
      CHECK(S_ISREG(mode_of(path)) == overwrite);
    }
  }
}

TEST_CASE("paths that no file can have") {
  const TemporaryDirectory directory;
  CHECK(kind_of([&] { OutputFile(directory.path(), true); }) == ErrorKind::kUsage);
  CHECK(kind_of([&] { OutputFile(directory.path() + "/", true); }) == ErrorKind::kUsage);
  CHECK(kind_of([&] { OutputFile(directory.path() + "/..", true); }) == ErrorKind::kUsage);
  CHECK(kind_of([&] { OutputFile("", true); }) == ErrorKind::kUsage);
  CHECK(kind_of([&] { OutputFile("/dev/null", true); }) == ErrorKind::kUsage);
  CHECK(kind_of([&] { OutputFile(directory.file("no/out"), false); }) == ErrorKind::kOutput);
  CHECK(kind_of([&] { OutputFile(directory.file(std::string(300, 'n')), false); }) ==
        ErrorKind::kOutput);
  CHECK(directory.names().empty());
}

TEST_CASE("a relative path is that of the folder at the beginning") {
  const TemporaryDirectory directory;
  const int before = ::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::chdir(directory.path().c_str()) == 0);
  {
    OutputFile file("out", false);
    CHECK(::fchdir(before) == 0);
    file.append(as_bytes("x"));
    file.commit();
  }
  ::close(before);
  CHECK(directory.names() == std::vector<std::string>{"out"});
}

TEST_CASE("a file size limit is an error, not a signal") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{1U << 20, before.rlim_max};
    {
      OutputFile file(directory.file("out"), false, temporary);
      const std::string large(2U << 20, 'x');
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
      const ErrorKind kind = kind_of([&] {
        file.append(as_bytes(large));
        file.append(as_bytes(large));
        file.commit();
      });
      REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
      CHECK(kind == ErrorKind::kOutput);
    }
    sigset_t pending;
    ::sigpending(&pending);
    CHECK(::sigismember(&pending, SIGXFSZ) == 0);
    CHECK(directory.names().empty());
  }
}

TEST_CASE("a writer that is killed leaves nothing under the final name") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(ready[0]);
      OutputFile file(directory.file("out"), false, temporary);
      file.append(as_bytes(std::string(3U << 20, 'x')));
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    CHECK(::read(ready[0], &byte, 1) == 0);  // returns when the child has closed its end
    ::close(ready[0]);
    ::kill(child, SIGKILL);
    CHECK(::waitpid(child, nullptr, 0) == child);
    const auto names = directory.names();
    if (temporary == Temporary::kUnnamedIfPossible) {
      CHECK(names.empty());
    } else {
      REQUIRE(names.size() == 1);
      CHECK(names[0].starts_with(".heapsnap-"));
    }
  }
}

TEST_CASE("a folder given by its descriptor is written to, wherever its path leads") {
  for (const Temporary temporary : kBoth) {
    const TemporaryDirectory directory;
    REQUIRE(::mkdir(directory.file("folder").c_str(), 0700) == 0);
    REQUIRE(::mkdir(directory.file("elsewhere").c_str(), 0700) == 0);
    const UniqueFd folder(::open(directory.file("folder").c_str(), O_RDONLY | O_DIRECTORY));
    REQUIRE(::rename(directory.file("folder").c_str(), directory.file("moved").c_str()) == 0);
    REQUIRE(::symlink("elsewhere", directory.file("folder").c_str()) == 0);
    OutputFile file(directory.file("folder/out"), false, temporary, folder.get());
    file.append(as_bytes("hello"));
    file.commit();
    CHECK(text_of(directory.file("moved/out")) == "hello");
    CHECK(::access(directory.file("elsewhere/out").c_str(), F_OK) != 0);
    ::unlink(directory.file("moved/out").c_str());
    ::rmdir(directory.file("moved").c_str());
    ::rmdir(directory.file("elsewhere").c_str());
  }
}
