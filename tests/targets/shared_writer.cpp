// A target whose thread writes to shared memory all the time, in code that a test calls the
// allocator. Somebody else who runs that code writes there as well, which this one sees.
//
// Says "ready", then where that code lies, "BEGIN END" in hexadecimal; when its standard input ends
//
//   errors=0 rounds=123
//
// where `errors` counts how often the memory held what this process had not written.
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <new>

extern "C" const char __start_writing_code;  // by the linker
extern "C" const char __stop_writing_code;

namespace {

std::atomic<bool> ending{false};
std::atomic<long> rounds{0};
std::atomic<long> errors{0};

[[gnu::section("writing_code"), gnu::noinline]] void write_all_the_time(std::atomic<long>& shared) {
  long written = 0;
  while (!ending) {
    if (shared != written) ++errors;
    shared = ++written;
    rounds = written;
  }
}

void* run(void* shared) {
  write_all_the_time(*static_cast<std::atomic<long>*>(shared));
  return nullptr;
}

}  // namespace

int main() {
  void* const shared = mmap(nullptr, sizeof(std::atomic<long>), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  pthread_t writer;
  if (pthread_create(&writer, nullptr, run, new (shared) std::atomic<long>(0)) != 0) return 1;
  while (rounds == 0) {
  }
  std::printf("ready\n%" PRIxPTR " %" PRIxPTR "\n",
              reinterpret_cast<uintptr_t>(&__start_writing_code),
              reinterpret_cast<uintptr_t>(&__stop_writing_code));
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  ending = true;
  pthread_join(writer, nullptr);
  std::printf("errors=%ld rounds=%ld\n", errors.load(), rounds.load());
  return 0;
}
