// A target with a child process that runs in its memory and writes there all the time, beside one
// made by an ordinary fork(2). How the first is made:
//
//   vfork     by vfork(2); a thread waits for it
//   nested    the same, and it has such a child of its own, which is the one that writes
//   parent    the same with CLONE_PARENT: it is a child of our parent
//   clone     by clone(2) with CLONE_VM alone; nobody waits for it
//
// Says "ready", then the pids of the writer and of the forked child; when its standard input ends
//
//   writes=123
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <string>

namespace {

constexpr size_t kStack = size_t{256} << 10;

std::atomic<bool> ending{false};
std::atomic<long> writes{0};
std::atomic<int> writer{0};
std::array<std::array<char, kStack>, 2> stacks;
int flags = CLONE_VM | SIGCHLD;

int write_all_the_time(void*) {
  writer = getpid();
  while (!ending) ++writes;
  return 0;
}

int have_child_write(void*) {
  return clone(write_all_the_time, stacks[1].data() + kStack, CLONE_VM | CLONE_VFORK | SIGCHLD,
               nullptr) > 0
             ? 0
             : 1;
}

void* make_writer(void* function) {
  const int pid =
      clone(reinterpret_cast<int (*)(void*)>(function), stacks[0].data() + kStack, flags, nullptr);
  if (pid < 0) std::perror("clone");
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  const int forked = fork();
  if (forked == 0) {
    while (true) pause();
  }
  if (way != "clone") flags |= CLONE_VFORK;
  if (way == "parent") flags |= CLONE_PARENT;
  pthread_t waiter;
  if (pthread_create(
          &waiter, nullptr, make_writer,
          reinterpret_cast<void*>(way == "nested" ? have_child_write : write_all_the_time)) != 0) {
    return 1;
  }
  if (way == "clone") pthread_join(waiter, nullptr);
  while (writes == 0) sched_yield();
  std::printf("ready\n%d %d\n", writer.load(), forked);
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  ending = true;
  if (way != "clone") pthread_join(waiter, nullptr);
  kill(forked, SIGKILL);
  while (wait(nullptr) > 0) {
  }
  std::printf("writes=%ld\n", writes.load());
  return 0;
}
