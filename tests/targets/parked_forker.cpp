// A program with one thread that can be held in the middle of fork or malloc, or while another
// thread loads a library.
//
//   parked_forker never|once     whether it has had a second thread before
//   parked_forker loading        it has not
//
// A seccomp filter gives each clone(2) that is a fork, and each brk(2), to whoever listens: until
// an answer comes the thread stays in the kernel, with all locks that fork takes. `loading` gives
// calls that dlopen makes instead: newfstatat(2), mmap(2) of a file, mprotect(2). The listener is
// its descriptor 100. Then it obeys lines of its standard input:
//
//   fork          forks; the child allocates. Says "forked STATUS"
//   fork-load     the same, and the child loads a library, lists all of them and makes a thread
//   fork-handler  the same, and a handler of pthread_atfork waits for a line first
//   malloc        has the heap grow. Says "allocated"
//   SIGUSR1       at any time: its handler waits for a line
#include <dlfcn.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

constexpr int kListener = 100;
bool wait_in_handler = false;

// Without stdio, which allocates.
void say(std::string_view line) {
  if (::write(1, line.data(), line.size()) < 0 || ::write(1, "\n", 1) < 0) ::_exit(1);
}

// Empty at the end of the input.
std::string_view read_line(std::array<char, 64>& line) {
  size_t size = 0;
  while (size < line.size() && ::read(0, &line.at(size), 1) == 1) {
    if (line.at(size) == '\n') return {line.data(), size};
    ++size;
  }
  return {};
}

void wait_for_line() {
  std::array<char, 64> line{};
  say("waiting");
  read_line(line);
}

void prepare() {
  if (wait_in_handler) wait_for_line();
}

void on_signal(int) {
  wait_for_line();
}

bool listen_by(const sock_fprog& program) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const long listener =
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
  return listener >= 0 && ::dup2(static_cast<int>(listener), kListener) == kListener &&
         ::close(static_cast<int>(listener)) == 0;
}

constexpr unsigned kNumber = offsetof(seccomp_data, nr);

constexpr unsigned high_half_of(size_t argument) {
  return offsetof(seccomp_data, args) + argument * sizeof(uint64_t) + sizeof(uint32_t);
}

// Only calls with real addresses, here and below: heapsnap asks filters about others, and would
// take no for an answer.
bool listen_to_forks() {
  constexpr unsigned kFlags = offsetof(seccomp_data, args);
  std::array<sock_filter, 9> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_brk, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VM, 3, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high_half_of(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return listen_by({code.size(), code.data()});
}

bool listen_to_loading() {
  constexpr unsigned kFlags = offsetof(seccomp_data, args) + 3 * sizeof(uint64_t);
  std::array<sock_filter, 13> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 7),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 5, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high_half_of(0)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high_half_of(1)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  return listen_by({code.size(), code.data()});
}

bool can_allocate() {
  for (size_t size = 16; size < 100'000; size *= 2) {
    void* const block = std::malloc(size);
    if (block == nullptr) return false;
    std::free(block);
  }
  return true;
}

// Takes each lock of the loader: that of its data, that of its list, that of thread-local storage.
bool can_load() {
  void* const library = ::dlopen("libBrokenLocale.so.1", RTLD_NOW);
  if (library == nullptr || ::dlclose(library) != 0) return false;
  ::dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return 0; }, nullptr);
  std::thread([] {}).join();
  return true;
}

void fork_once(bool loads) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(can_allocate() && (!loads || can_load()) ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  say("forked " + std::to_string(status));
}

}  // namespace

int main(int, char** arguments) {
  if (std::string_view(arguments[1]) == "once") std::thread([] {}).join();
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  ::pthread_atfork(prepare, nullptr, nullptr);
  const bool listens =
      std::string_view(arguments[1]) == "loading" ? listen_to_loading() : listen_to_forks();
  if (!listens) {
    say("no listener");
    return 77;
  }
  say("ready");
  std::array<char, 64> line{};
  while (true) {
    const std::string_view order = read_line(line);
    if (order.empty()) return can_allocate() ? 0 : 1;
    wait_in_handler = order == "fork-handler";
    if (order == "malloc") {
      std::array<void*, 4> blocks{};
      for (void*& block : blocks) block = std::malloc(100'000);
      for (void* const block : blocks) std::free(block);
      say("allocated");
    } else {
      fork_once(order == "fork-load");
    }
  }
}
