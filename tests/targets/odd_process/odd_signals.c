// Kinds whose signals wait, are read, or come from timers.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "odd_process.h"

static void block(int signal_number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal_number);
  EXPECT_EQUAL(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
}

static void handle(int signal_number, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  EXPECT_EQUAL(sigaction(signal_number, &action, NULL), 0);
}

// All signals blocked, a queue of them pending all the time; each is fetched in its turn.
static void queued_signals(void) {
  enum { kQueued = 8 };
  sigset_t all;
  sigfillset(&all);
  EXPECT_EQUAL(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGRTMIN + 3);
  int sent = 0;
  int received = 0;
  say_ready();
  while (!is_over()) {
    while (sent < received + kQueued) {
      EXPECT_EQUAL(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = sent++}), 0);
    }
    siginfo_t info;
    EXPECT_EQUAL(sigwaitinfo(&one, &info), SIGRTMIN + 3);
    EXPECT_EQUAL(info.si_value.sival_int, received++);
    sigset_t mask;
    EXPECT_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    EXPECT(sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGTERM) == 1);
    churn();
  }
}

static void ignored_signals(void) {
  for (int number = 1; number < 32; ++number) signal(number, SIG_IGN);
  say_ready();
  while (!is_over()) {
    for (int number = 1; number < 32; ++number) {
      if (number == SIGKILL || number == SIGSTOP) continue;
      EXPECT_EQUAL(kill(getpid(), number), 0);
    }
    churn();
  }
}

// Three signals of a kind each round, read from a descriptor; nobody else's are among them.
static void signal_descriptor(void) {
  block(SIGRTMIN + 1);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 1);
  const int descriptor = signalfd(-1, &set, SFD_NONBLOCK);
  if (descriptor < 0) skip("signalfd");
  say_ready();
  for (int value = 0; !is_over(); value += 3) {
    for (int i = 0; i < 3; ++i) {
      sigqueue(getpid(), SIGRTMIN + 1, (union sigval){.sival_int = value + i});
    }
    struct pollfd ready = {descriptor, POLLIN, 0};
    EXPECT_EQUAL(poll(&ready, 1, 1000), 1);
    struct signalfd_siginfo info[8];
    EXPECT_EQUAL(read(descriptor, info, sizeof info), 3 * sizeof *info);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQUAL(info[i].ssi_int, value + i);
      EXPECT_EQUAL(info[i].ssi_pid, getpid());
    }
    churn();
  }
}

static atomic_long ticks;

static void count_tick(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)context;
  if (info->si_code != SI_TIMER) wrong(__FILE__, __LINE__, "no signal of the timer", info->si_code);
  if (info->si_value.sival_int != 4711) wrong(__FILE__, __LINE__, "its value", info->si_int);
  atomic_fetch_add(&ticks, 1);
}

static void posix_timer(void) {
  handle(SIGRTMIN + 2, count_tick, SA_RESTART);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 2};
  event.sigev_value.sival_int = 4711;
  timer_t timer;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) skip("timer_create");
  const struct itimerspec time = {{0, 500000}, {0, 500000}};
  EXPECT_EQUAL(timer_settime(timer, 0, &time, NULL), 0);
  say_ready();
  while (!is_over()) {
    const long before = atomic_load(&ticks);
    while (atomic_load(&ticks) == before) churn();
  }
}

static void count_alarm(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  atomic_fetch_add(&ticks, 1);
}

// An alarm each 200 microseconds, while it reads from a pipe that is written to seldom. Calls that
// are restarted never fail.
static void fast_alarms(void) {
  handle(SIGALRM, count_alarm, SA_RESTART);
  int ends[2];
  if (pipe(ends) != 0) skip("pipe");
  const struct itimerval time = {{0, 200}, {0, 200}};
  EXPECT_EQUAL(setitimer(ITIMER_REAL, &time, NULL), 0);
  say_ready();
  while (!is_over()) {
    const long before = atomic_load(&ticks);
    while (atomic_load(&ticks) < before + 3) churn();
    char byte = 'x';
    EXPECT_EQUAL(write(ends[1], &byte, 1), 1);
    EXPECT_EQUAL(read(ends[0], &byte, 1), 1);
    EXPECT_EQUAL(byte, 'x');
  }
}

// A profiler's clock: signals on CPU time, of which the handler keeps a double.
static volatile double profiled;
static void profile(int number, siginfo_t* info, void* context) {
  (void)number;
  (void)info;
  (void)context;
  profiled = profiled + 0.5;
  atomic_fetch_add(&ticks, 1);
}
static void profiling_clock(void) {
  handle(SIGPROF, profile, SA_RESTART);
  const struct itimerval time = {{0, 1000}, {0, 1000}};
  EXPECT_EQUAL(setitimer(ITIMER_PROF, &time, NULL), 0);
  say_ready();
  double sum = 1.25;
  while (!is_over()) {
    for (int i = 0; i < 1000; ++i) sum = sum * 1.5 / 1.5;
    EXPECT(sum == 1.25);
    churn();
  }
  EXPECT(profiled == 0.5 * (double)atomic_load(&ticks));
}

static void timer_descriptor(void) {
  const int descriptor = timerfd_create(CLOCK_MONOTONIC, 0);
  const struct itimerspec time = {{0, 2000000}, {0, 2000000}};
  if (descriptor < 0 || timerfd_settime(descriptor, 0, &time, NULL) != 0) skip("timerfd");
  say_ready();
  while (!is_over()) {
    uint64_t expired = 0;
    EXPECT_EQUAL(read(descriptor, &expired, sizeof expired), sizeof expired);
    EXPECT(expired >= 1);
    churn();
  }
}

// Waits for signals in each of the ways there are; the mask is afterwards what it was.
static void waiting_for_signals(void) {
  handle(SIGUSR1, count_alarm, 0);
  block(SIGUSR1);
  block(SIGUSR2);
  sigset_t without;
  sigprocmask(SIG_SETMASK, NULL, &without);
  sigdelset(&without, SIGUSR1);
  sigset_t second;
  sigemptyset(&second);
  sigaddset(&second, SIGUSR2);
  say_ready();
  while (!is_over()) {
    const long before = atomic_load(&ticks);
    raise(SIGUSR1);
    EXPECT(sigsuspend(&without) == -1 && errno == EINTR);
    EXPECT_EQUAL(atomic_load(&ticks), before + 1);
    const struct timespec time = {0, 2000000};
    EXPECT(sigtimedwait(&second, NULL, &time) == -1 && errno == EAGAIN);
    EXPECT_EQUAL(ppoll(NULL, 0, &time, &without), 0);
    raise(SIGUSR2);
    EXPECT_EQUAL(sigtimedwait(&second, NULL, &time), SIGUSR2);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    EXPECT(sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGUSR2) == 1 &&
           sigismember(&mask, SIGHUP) == 0);
    did();
  }
}

// A child stops and continues it, again and again.
static void stopped_and_continued(void) {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) {
    while (!is_over() && getppid() == self) {
      kill(self, SIGSTOP);
      poll(NULL, 0, 3);
      kill(self, SIGCONT);
      poll(NULL, 0, 7);
    }
    kill(self, SIGCONT);
    _exit(0);
  }
  say_ready();
  while (!is_over()) churn();
  int status = -1;
  EXPECT_EQUAL(waitpid(child, &status, 0), child);
  EXPECT_EQUAL(status, 0);
}

const struct Kind signal_kinds[] = {{"queued_signals", queued_signals},
                                    {"ignored_signals", ignored_signals},
                                    {"signal_descriptor", signal_descriptor},
                                    {"posix_timer", posix_timer},
                                    {"fast_alarms", fast_alarms},
                                    {"profiling_clock", profiling_clock},
                                    {"timer_descriptor", timer_descriptor},
                                    {"waiting_for_signals", waiting_for_signals},
                                    {"stopped_and_continued", stopped_and_continued},
                                    {NULL, NULL}};
