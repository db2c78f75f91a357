// A target that waits for any child there may be, clones without an exit signal included, as
// debuggers and supervisors do: one thread sleeps in waitpid(2), another asks all the time.
//
// Says "ready", and when its standard input ends
//
//   errors=0 strangers=0 rounds=123
//
// where `strangers` counts the children that were none of its own.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

namespace {

std::atomic<bool> ending{false};
std::atomic<pid_t> own_child{0};
std::atomic<long> strangers{0};
std::atomic<long> errors{0};
std::atomic<long> rounds{0};

void look_at(pid_t waited) {
  if (waited < 0 && !ending) ++errors;
  if (waited > 0 && waited != own_child) ++strangers;
}

void* sleep_in_wait(void* /*unused*/) {
  while (!ending) look_at(waitpid(-1, nullptr, __WALL));
  return nullptr;
}

void* ask_all_the_time(void* /*unused*/) {
  while (!ending) {
    look_at(waitpid(-1, nullptr, __WALL | WNOHANG));
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WCLONE) == 0) look_at(info.si_pid);
    ++rounds;
  }
  return nullptr;
}

}  // namespace

int main() {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  own_child = child;
  pthread_t sleeper;
  pthread_t asker;
  if (pthread_create(&sleeper, nullptr, sleep_in_wait, nullptr) != 0 ||
      pthread_create(&asker, nullptr, ask_all_the_time, nullptr) != 0) {
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  ending = true;
  kill(child, SIGKILL);
  pthread_join(asker, nullptr);
  pthread_join(sleeper, nullptr);
  std::printf("errors=%ld strangers=%ld rounds=%ld\n", errors.load(), strangers.load(),
              rounds.load());
  return 0;
}
