#include "report/writer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unique_fd.h"

using namespace heapsnap;

namespace {

ErrorKind kind_of_failure(int fd, size_t bytes) {
  try {
    Writer out(fd, "the output");
    for (size_t i = 0; i < bytes; i += 1000) out.write(std::string(1000, 'x'));
    out.flush();
  } catch (const Error& error) {
    CHECK(error.subject() == "the output cannot be written");
    return error.kind();
  }
  return ErrorKind::kInternal;
}

}  // namespace

TEST_CASE("everything that was written arrives, in order") {
  std::string text;
  Writer out(text);
  std::string expected;
  for (size_t size : {1, 10, 65535, 65536, 65537, 3, 200000, 7}) {
    const std::string piece(size, static_cast<char>('a' + size % 26));
    out.write(piece);
    expected += piece;
    char* at = out.reserve(4);
    std::memcpy(at, "1234", 4);
    out.commit(at + 3);
    expected += "123";
  }
  out.flush();
  out.flush();
  CHECK(text == expected);
}

TEST_CASE("a full disk is an error") {
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full);
  CHECK(kind_of_failure(full.get(), 1000) == ErrorKind::kOutput);
  CHECK(kind_of_failure(full.get(), 1000000) == ErrorKind::kOutput);
}

TEST_CASE("a reader that went away is an error, not a signal") {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd write_end(ends[1]);
  UniqueFd(ends[0]).reset();
  CHECK(kind_of_failure(write_end.get(), 1000) == ErrorKind::kOutput);
  ::signal(SIGPIPE, before);
}
