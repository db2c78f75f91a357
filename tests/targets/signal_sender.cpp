// A target that sends itself a signal all the time.
//
//   signal_sender ignored|handled|handled_elsewhere     the last: on an alternate signal stack
//
// Says "ready", sends until its standard input ends, and then says
//
//   errors=0 sent=123
//
// where `errors` counts the signals that were not handled once, and before kill(2) returned.
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace {

volatile sig_atomic_t handled = 0;

void count(int /*number*/) {
  handled = handled + 1;
}

void choose_action(const char* action) {
  static std::array<char, 65536> stack;
  struct sigaction act {};
  act.sa_handler = std::strcmp(action, "ignored") == 0 ? SIG_IGN : count;
  if (std::strcmp(action, "handled_elsewhere") == 0) {
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    sigaltstack(&alternate, nullptr);
    act.sa_flags = SA_ONSTACK;
  }
  sigaction(SIGUSR1, &act, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  choose_action(argv[1]);
  const bool is_ignored = std::strcmp(argv[1], "ignored") == 0;
  constexpr int kBetweenLooks = 1000;
  long errors = 0;
  long sent = 0;
  std::puts("ready");
  std::fflush(stdout);
  for (pollfd input{0, POLLIN, 0}; poll(&input, 1, 0) == 0;) {
    for (int i = 0; i < kBetweenLooks; ++i) {
      const sig_atomic_t before = handled;
      if (kill(getpid(), SIGUSR1) != 0) ++errors;
      if (handled - before != (is_ignored ? 0 : 1)) ++errors;
      ++sent;
    }
  }
  std::printf("errors=%ld sent=%ld\n", errors, sent);
  return 0;
}
