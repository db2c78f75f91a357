// A target that prints malloc's counters whenever it is asked, and does nothing else.
//
//   malloc_counters THREADS  each of them has allocated something; 0: never had a second thread
//   malloc_counters alone    the main thread has ended, and the only other has never allocated
//
// Says "ready", answers each line of its standard input by "arenas=1 used=123 system=135168
// mapped=0", and ends with it; then says "errors=0".
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr size_t kRoom = 1 << 20;

// Of malloc_info(3), into memory that is there from the start: asking must not change the counters.
class ArenaCount {
 public:
  ArenaCount() : text_(kRoom), file_(fmemopen(text_.data(), text_.size(), "w")) {
    if (file_ == nullptr) std::abort();
    std::setvbuf(file_, buffer_, _IOFBF, sizeof buffer_);
  }
  ArenaCount(const ArenaCount&) = delete;
  ArenaCount& operator=(const ArenaCount&) = delete;
  ~ArenaCount() { std::fclose(file_); }

  int now() {
    std::rewind(file_);
    malloc_info(0, file_);
    std::fputc('\0', file_);
    std::fflush(file_);
    int count = 0;
    for (const char* at = text_.data(); (at = std::strstr(at, "<heap nr=")) != nullptr; ++at)
      ++count;
    return count;
  }

 private:
  std::vector<char> text_;
  char buffer_[4096]{};
  std::FILE* file_;
};

bool read_line_of(int input) {
  char byte = 0;
  while (read(input, &byte, 1) == 1) {
    if (byte == '\n') return true;
  }
  return false;
}

void answer(ArenaCount& arenas) {
  const int count = arenas.now();
  const struct mallinfo2 counters = mallinfo2();
  char line[256];
  const int size = std::snprintf(line, sizeof line, "arenas=%d used=%zu system=%zu mapped=%zu\n",
                                 count, counters.uordblks, counters.arena, counters.hblkhd);
  if (write(1, line, static_cast<size_t>(size)) != size) std::abort();
}

// By the state of the process, which is that of its first thread. Allocates nothing.
bool first_thread_has_ended() {
  char text[256]{};
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  const bool is_read = file >= 0 && read(file, text, sizeof text - 1) > 0;
  close(file);
  const char* const name_end = std::strrchr(text, ')');
  return is_read && name_end != nullptr && std::strncmp(name_end, ") Z", 3) == 0;
}

// The first thread's work done by another, which gets all that it needs from it.
[[noreturn]] void leave_alone() {
  static ArenaCount arenas;
  arenas.now();
  pthread_t other{};
  const auto serve = [](void*) -> void* {
    while (!first_thread_has_ended()) sched_yield();
    if (write(1, "ready\n", 6) != 6) std::abort();
    while (read_line_of(0)) answer(arenas);
    if (write(1, "errors=0\n", 9) != 9) std::abort();
    _exit(0);
  };
  if (pthread_create(&other, nullptr, serve, nullptr) != 0) std::abort();
  pthread_exit(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "alone") == 0) leave_alone();
  const int count = argc > 1 ? std::atoi(argv[1]) : 0;
  int begun[2];
  int end[2];
  if (pipe(begun) != 0 || pipe(end) != 0) return 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      std::vector<char> block(1000);
      char byte = 0;
      if (write(begun[1], block.data(), 1) != 1) std::abort();
      while (read(end[0], &byte, 1) > 0) {
      }
    });
  }
  for (int i = 0; i < count; ++i) {
    char byte = 0;
    if (read(begun[0], &byte, 1) != 1) return 2;
  }
  {
    ArenaCount arenas;
    arenas.now();
    if (write(1, "ready\n", 6) != 6) return 2;
    while (read_line_of(0)) answer(arenas);
  }
  close(end[1]);
  for (auto& thread : threads) thread.join();
  std::puts("errors=0");
  return 0;
}
