// Files that are truncated while they are mapped.
#include "base/lost_pages.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tests/unit/temporary_folder.h"

using namespace heapsnap;
using namespace heapsnap::test;

// Read by AddressSanitizer: a SIGBUS that is not ours ends the process under it too, by that
// signal.
extern "C" const char* __asan_default_options() {
  return "handle_sigbus=0";
}

namespace {

constexpr size_t kPage = 4096;

// Through a volatile read: the byte is read where the test says so.
unsigned byte_at(const MappedFile& file, size_t offset) {
  return *reinterpret_cast<const volatile unsigned char*>(file.bytes().data() + offset);
}

bool is_named(const std::string& path) {
  const auto names = files_with_lost_pages();
  return std::find(names.begin(), names.end(), path) != names.end();
}

}  // namespace

TEST_CASE("what a truncated file has lost reads as zeros, and is told") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", std::string(4 * kPage, 'x'));
  const std::string other_path = folder.write("other", std::string(2 * kPage, 'y'));
  const MappedFile file = MappedFile::open(path);
  const MappedFile other = MappedFile::open(other_path);
  CHECK(byte_at(file, 3 * kPage) == 'x');
  file.check_whole(path);
  CHECK_FALSE(is_named(path));

  REQUIRE(::truncate(path.c_str(), kPage) == 0);
  CHECK(byte_at(file, kPage - 1) == 'x');
  file.check_whole(path);  // nothing was missed so far
  CHECK(byte_at(file, 2 * kPage) == 0);
  CHECK(byte_at(file, 3 * kPage) == 0);
  CHECK(byte_at(file, kPage) == 0);
  try {
    file.check_whole(path);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kBadInput);
    CHECK(error.why().find("truncated") != std::string::npos);
    CHECK_FALSE(error.remedy().empty());
  }
  CHECK(is_named(path));
  CHECK(byte_at(other, kPage) == 'y');
  other.check_whole(other_path);
  CHECK_FALSE(is_named(other_path));
}

TEST_CASE(
    "a file that was closed is remembered, and its place in the list is not used for others") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", std::string(2 * kPage, 'x'));
  {
    MappedFile file = MappedFile::open(path);
    const MappedFile moved = std::move(file);
    REQUIRE(::truncate(path.c_str(), 0) == 0);
    CHECK(byte_at(moved, 0) == 0);
    CHECK_THROWS_AS(moved.check_whole(path), Error);
  }
  CHECK(is_named(path));
  const std::string next_path = folder.write("next", "abc");
  const MappedFile next = MappedFile::open(next_path);
  next.check_whole(next_path);
  CHECK_FALSE(is_named(next_path));
}

TEST_CASE("SIGBUS of anything else ends the process as before") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", std::string(kPage, 'x'));
  const MappedFile file = MappedFile::open(path);  // the handler is there
  for (const bool is_sent : {true, false}) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      if (is_sent) ::raise(SIGBUS);
      const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
      // A page past the end of the file.
      void* const page = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_PRIVATE, fd.get(), 0);
      const auto* const byte = static_cast<const volatile unsigned char*>(page) + kPage;
      ::_exit(*byte);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGBUS);
  }
}
