// Who watches a heapsnap that does its work itself, and what Ctrl-Z does to one that holds a
// target.
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/alteration.h"
#include "base/error.h"
#include "base/unique_fd.h"
#include "platform/linux/proc/blocking_call.h"
#include "platform/linux/self/ending_signals.h"
#include "platform/linux/self/watched_work.h"

namespace heapsnap::live {

namespace {

constexpr int kLongestAnswer_ms = 20'000;  // of a process that hangs

// A forked process that is talked with by one byte each way.
class Partner {
 public:
  explicit Partner(const std::function<void(int in, int out)>& body) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    REQUIRE(::pipe(to.data()) == 0);
    REQUIRE(::pipe(from.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::signal(SIGTERM, SIG_DFL);  // doctest catches it
      ::setpgid(0, 0);  // not an orphaned group: its parent is in another one of this session
      ::close(to[1]);
      ::close(from[0]);
      body(to[0], from[1]);
      ::_exit(0);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_.reset(to[1]);
    from_.reset(from[0]);
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;
  ~Partner() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void send_signal(int signal) const { ::kill(pid_, signal); }
  void tell(char byte) const { REQUIRE(::write(to_.get(), &byte, 1) == 1); }
  // The next byte that it says; nothing at its end, or when it says nothing.
  std::optional<char> answer() const {
    pollfd said{from_.get(), POLLIN, 0};
    char byte = 0;
    if (::poll(&said, 1, kLongestAnswer_ms) != 1 || ::read(from_.get(), &byte, 1) != 1) return {};
    return byte;
  }
  // Its end, or its stop.
  int wait(int options) {
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, options) == pid_);
    if (!WIFSTOPPED(status)) pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd to_;
  UniqueFd from_;
};

char read_byte(int fd) {
  char byte = 0;
  return ::read(fd, &byte, 1) == 1 ? byte : '\0';
}

void say(int fd, char byte) {
  if (::write(fd, &byte, 1) != 1) ::_exit(1);
}

// Echoes bytes, for as long as none of them is 'r'; an altered target stands until then.
void obey(int in, int out) {
  const EndingSignals signals;
  std::optional<Alteration> alteration(std::in_place);
  say(out, 'a');
  while (const char byte = read_byte(in)) {
    if (byte == 'r') alteration.reset();
    say(out, byte);
  }
}

}  // namespace

TEST_CASE("a heapsnap that waits for ever is ended by the child that watches it, in words") {
  Partner heapsnap([](int, int out) {
    try {
      do_watched_by_child([] {
        set_call_patience(std::chrono::milliseconds(20));
        const BlockingCall call("the read");
        while (true) ::pause();
        return 0;
      });
    } catch (const Error& error) {
      say(out, error.subject() == "the read did not finish" ? 'w' : '?');
    }
  });
  const int status = heapsnap.wait(0);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
  CHECK(heapsnap.answer() == 'w');
  CHECK(heapsnap.answer() == std::nullopt);
}

TEST_CASE("the child that watches ends with it") {
  Partner heapsnap([](int, int) { ::_exit(do_watched_by_child([] { return 7; })); });
  CHECK(heapsnap.answer() == std::nullopt);  // nobody has the pipe any more
  const int status = heapsnap.wait(0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("Ctrl-Z stops heapsnap when nothing is altered any more") {
  Partner heapsnap(obey);
  REQUIRE(heapsnap.answer() == 'a');
  heapsnap.send_signal(SIGTSTP);
  for (int i = 0; i < 100; ++i) {
    heapsnap.tell('x');
    REQUIRE(heapsnap.answer() == 'x');  // it does not stop here, or there is no answer
  }
  heapsnap.tell('r');
  CHECK(WIFSTOPPED(heapsnap.wait(WUNTRACED)));
  heapsnap.send_signal(SIGCONT);
  // Not altered, it stops at once.
  heapsnap.send_signal(SIGTSTP);
  CHECK(WIFSTOPPED(heapsnap.wait(WUNTRACED)));
  heapsnap.send_signal(SIGCONT);
  CHECK(heapsnap.answer() == 'r');
  heapsnap.send_signal(SIGTERM);
  CHECK(WTERMSIG(heapsnap.wait(0)) == SIGTERM);
}

TEST_CASE("a stop that was taken back before it came does not come") {
  Partner heapsnap(obey);
  REQUIRE(heapsnap.answer() == 'a');
  heapsnap.send_signal(SIGTSTP);
  heapsnap.send_signal(SIGCONT);
  heapsnap.tell('r');
  REQUIRE(heapsnap.answer() == 'r');
  heapsnap.tell('x');
  CHECK(heapsnap.answer() == 'x');
  heapsnap.send_signal(SIGTERM);
  CHECK(WTERMSIG(heapsnap.wait(0)) == SIGTERM);
}

}  // namespace heapsnap::live
