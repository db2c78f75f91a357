// A target with a thread in each kind of blocking system call that a debugger's stop could break.
//
// Says "ready" when every thread sleeps in its call, runs until its standard input ends, and then
// says what its threads have seen, as "name=value" words on one line:
//
//   eintr=0 errors=0 early=0 sigchld=0 children=0 calls=123
//
// Nobody sends it a signal, so any EINTR is a stop's fault. `early` counts sleeps that ended before
// their time; `children` what a wait4(-1, __WALL) finds, which is nothing.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

namespace {

std::atomic<long> eintr{0};
std::atomic<long> errors{0};
std::atomic<long> early{0};
std::atomic<long> sigchld{0};
std::atomic<long> calls{0};
std::atomic<int> begun{0};
std::atomic<bool> ending{false};

double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Makes `call`, which blocks until the end, again and again.
void block(const std::function<long()>& call) {
  ++begun;
  while (!ending) {
    const long result = call();
    ++calls;
    if (ending) return;
    if (result >= 0) continue;
    ++(errno == EINTR ? eintr : errors);
  }
}

// Makes `call`, which returns after `milliseconds`, again and again.
void sleep_for(double milliseconds, const std::function<long()>& call) {
  ++begun;
  while (!ending) {
    const double begin = now_ms();
    const long result = call();
    const double took = now_ms() - begin;
    ++calls;
    if (ending) return;
    if (result == -1 && errno == EINTR) ++eintr;
    if (took < milliseconds - 1) ++early;
  }
}

timespec milliseconds(long count) {
  return {count / 1000, count % 1000 * 1000000};
}

long timed_receive(int socket) {
  char byte;
  return recv(socket, &byte, 1, 0);
}

int socket_with_timeout(int peer_of[2]) {
  socketpair(AF_UNIX, SOCK_STREAM, 0, peer_of);
  const timeval hour{3600, 0};
  setsockopt(peer_of[0], SOL_SOCKET, SO_RCVTIMEO, &hour, sizeof hour);
  return peer_of[0];
}

// Whether thread `tid` sleeps: the letter behind the name in /proc/PID/stat (proc(5)).
bool is_asleep(int tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return false;
  char text[512] = "";
  const bool read = std::fgets(text, sizeof text, file) != nullptr;
  std::fclose(file);
  const char* const name_end = std::strrchr(text, ')');
  return read && name_end != nullptr && name_end[1] == ' ' && name_end[2] == 'S';
}

// Some calls have a signal mask of their own while they wait, so whoever compares masks before and
// after has to find the threads inside. One that has begun goes to sleep nowhere else.
void await_sleep() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    const int tid = std::atoi(entry.path().filename().c_str());
    while (tid != gettid() && !is_asleep(tid)) sched_yield();
  }
}

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_handler = [](int) { ++sigchld; };
  sigaction(SIGCHLD, &action, nullptr);
  sigset_t user2;
  sigemptyset(&user2);
  sigaddset(&user2, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &user2, nullptr);

  const int wake = eventfd(0, 0);
  const int poller = epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(poller, EPOLL_CTL_ADD, wake, &event);
  const int semaphores = semget(IPC_PRIVATE, 1, 0600);
  int sockets[3][2];
  for (auto& pair : sockets) socket_with_timeout(pair);
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  unsigned long aio = 0;
  const bool has_aio = syscall(SYS_io_setup, 8, &aio) == 0;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

  std::vector<std::thread> threads;
  const auto start = [&](auto body) { threads.emplace_back(body); };
  const auto blocking = [&](std::function<long()> call) { start([call] { block(call); }); };
  const auto sleeping = [&](double time, std::function<long()> call) {
    start([time, call] { sleep_for(time, call); });
  };

  blocking([=] {
    epoll_event got;
    return epoll_wait(poller, &got, 1, -1);
  });
  blocking([=] {
    epoll_event got;
    return epoll_wait(poller, &got, 1, 3600 * 1000);
  });
  blocking([=] {
    epoll_event got;
    sigset_t mask;
    sigfillset(&mask);
    return epoll_pwait(poller, &got, 1, -1, &mask);
  });
  blocking([&] { return timed_receive(sockets[0][0]); });
  blocking([&] {
    char byte;
    return read(sockets[1][0], &byte, 1);
  });
  blocking([&] {
    char byte;
    iovec part{&byte, 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return recvmsg(sockets[2][0], &message, 0);
  });
  blocking([=] {
    sembuf take{0, -1, 0};
    return semop(semaphores, &take, 1);
  });
  blocking([=] {
    sembuf take{0, -1, 0};
    const timespec hour{3600, 0};
    return semtimedop(semaphores, &take, 1, &hour);
  });
  blocking([&] {
    const timespec hour{3600, 0};
    const int signal = sigtimedwait(&user2, nullptr, &hour);
    return signal;
  });
  blocking([&] { return sigwaitinfo(&user2, nullptr); });
  blocking([=] {
    pollfd polled{wake, POLLIN, 0};
    return poll(&polled, 1, -1);
  });
  blocking([=] {
    pollfd polled{wake, POLLIN, 0};
    const timespec hour{3600, 0};
    return ppoll(&polled, 1, &hour, nullptr);
  });
  blocking([=] {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(wake, &set);
    return select(wake + 1, &set, nullptr, nullptr, nullptr);
  });
  blocking([&] {
    char byte;
    return read(pipe_ends[0], &byte, 1);
  });
  if (has_aio) {
    blocking([=] {
      char got[32];
      const timespec hour{3600, 0};
      return syscall(SYS_io_getevents, aio, 1, 1, got, &hour);
    });
  }
  start([&] {
    ++begun;
    pthread_mutex_lock(&mutex);
    while (!ending) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
  });
  sleeping(20, [] {
    const timespec time = milliseconds(20);
    return nanosleep(&time, nullptr);
  });
  sleeping(1000, [] {
    const timespec time = milliseconds(1000);
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr) == 0 ? 0 : -1;
  });
  sleeping(30, [] { return poll(nullptr, 0, 30); });
  sleeping(25, [&] {
    // A timed futex wait of an absolute time.
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 25000000;
    if (until.tv_nsec >= 1000000000) {
      until.tv_nsec -= 1000000000;
      ++until.tv_sec;
    }
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&own);
    pthread_mutex_timedlock(&own, &until);
    pthread_mutex_unlock(&own);
    return 0L;
  });

  while (begun < static_cast<int>(threads.size())) sched_yield();
  await_sleep();
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  ssize_t got = 0;
  while ((got = read(0, &byte, 1)) != 0) {
    if (got < 0) ++(errno == EINTR ? eintr : errors);
  }

  ending = true;
  const uint64_t one = 1;
  if (write(wake, &one, sizeof one) < 0) ++errors;
  for (auto& pair : sockets) close(pair[1]);
  close(pipe_ends[1]);
  semctl(semaphores, 0, IPC_RMID);
  if (has_aio) syscall(SYS_io_destroy, aio);
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&condition);
  pthread_mutex_unlock(&mutex);
  // One for each of the two that wait for it: it is blocked everywhere, so it stays pending.
  kill(getpid(), SIGUSR2);
  for (auto& thread : threads) {
    while (pthread_tryjoin_np(thread.native_handle(), nullptr) != 0) {
      kill(getpid(), SIGUSR2);
      sched_yield();
    }
  }
  const pid_t child = wait4(-1, nullptr, WNOHANG | __WALL, nullptr);
  std::printf("eintr=%ld errors=%ld early=%ld sigchld=%ld children=%d calls=%ld\n", eintr.load(),
              errors.load(), early.load(), sigchld.load(), child >= 0 ? 1 : 0, calls.load());
  std::fflush(stdout);
  std::_Exit(0);  // the thread objects do not know that their threads were joined
}
