// A target with a stack inside of its main thread's: a local variable of main(), below which there
// are others, as in any function that gives sigaltstack(2) or pthread_attr_setstack(3) an array.
//
//   nested_stack handler    a signal handler runs there nearly all the time
//   nested_stack thread     another thread runs there; the main thread writes what lies below
//
// Says "ready", then who is on that stack and where it is, "TID BEGIN END"; runs until its standard
// input ends, and says "errors=0 rounds=123": errors are changes of what lies below the stack.
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace {

std::atomic<pid_t> tid_there{0};
std::atomic<bool> is_over{false};

struct Frame {
  std::array<unsigned char, 16384> below;
  alignas(4096) std::array<unsigned char, 65536> stack;
};

void sleep_briefly() {
  const timespec time{0, 3'000'000};
  nanosleep(&time, nullptr);
}

constexpr size_t kOfHandler = 4000;

// Leaves little of its stack.
void handle(int /*number*/) {
  std::array<volatile char, kOfHandler> used;
  for (volatile char& each : used) each = 1;
  for (int i = 0; i < 10; ++i) sleep_briefly();
}

void* run_there(void* /*unused*/) {
  tid_there = gettid();
  while (!is_over) sleep_briefly();
  return nullptr;
}

bool has_input_ended() {
  pollfd input{0, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

void say_where(const Frame& frame) {
  std::printf("ready\n%d %p %p\n", tid_there.load(), static_cast<const void*>(frame.stack.data()),
              static_cast<const void*>(frame.stack.data() + frame.stack.size()));
  std::fflush(stdout);
}

// Writes what lies below anew each time when `step` says so.
long count_changes(Frame& frame, bool writes, void (*step)(), long& rounds) {
  long errors = 0;
  unsigned char value = 0x5a;
  frame.below.fill(value);
  say_where(frame);
  for (; !has_input_ended(); ++rounds) {
    step();
    const bool is_same = std::all_of(frame.below.begin(), frame.below.end(),
                                     [value](unsigned char each) { return each == value; });
    if (!is_same) ++errors;
    if (writes) ++value;
    if (writes || !is_same) frame.below.fill(value);
  }
  return errors;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  Frame frame{};
  long rounds = 0;
  long errors = 0;
  sleep_briefly();  // the loader needs more stack the first time
  if (std::strcmp(argv[1], "handler") == 0) {
    tid_there = getpid();
    stack_t alternate{};
    alternate.ss_sp = frame.stack.data();
    alternate.ss_size = static_cast<size_t>(sysconf(_SC_MINSIGSTKSZ)) + kOfHandler + 1000;
    sigaltstack(&alternate, nullptr);
    struct sigaction act {};
    act.sa_handler = handle;
    act.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &act, nullptr);
    errors = count_changes(
        frame, false, [] { raise(SIGUSR1); }, rounds);
    alternate.ss_flags = SS_DISABLE;
    sigaltstack(&alternate, nullptr);
  } else {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, frame.stack.data(), frame.stack.size());
    pthread_t thread{};
    if (pthread_create(&thread, &attributes, run_there, nullptr) != 0) return 1;
    while (tid_there == 0) sleep_briefly();
    errors = count_changes(
        frame, true, [] {}, rounds);
    is_over = true;
    pthread_join(thread, nullptr);
  }
  std::printf("errors=%ld rounds=%ld\n", errors, rounds);
  return 0;
}
