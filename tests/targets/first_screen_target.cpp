// Programs with the memory problems that people bring: first_screen_target SHAPE [FILE]. Says
// "ready" when its memory has that shape. Each line on its standard input is one more round of its
// work, after which it says "ready" again; it stays until its standard input ends.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMiB = 1 << 20;
constexpr size_t kBlocks = 1 << 18;
constexpr unsigned kThreads = 12;

void* g_blocks[kBlocks];
size_t g_count;

// A node of the cache, and what else of its size the program makes.
constexpr size_t kNode = 336;  // a chunk of 352 bytes

void keep(void* block, size_t size, int contents) {
  std::memset(block, contents, size);
  g_blocks[g_count++ % kBlocks] = block;
}

[[gnu::noinline]] void build_graph(size_t nodes) {
  for (size_t i = 0; i < nodes; ++i) keep(std::malloc(kNode), kNode, 1);
}
// Its contents differ, so that the compiler does not make one function of both.
[[gnu::noinline]] void read_config(size_t lines) {
  for (size_t i = 0; i < lines; ++i) keep(std::malloc(kNode), kNode, 2);
}
// Allocates the size as well, and keeps nothing.
[[gnu::noinline]] void answer_requests(size_t requests) {
  for (size_t i = 0; i < requests; ++i) {
    auto* volatile request = static_cast<char*>(std::malloc(kNode));
    request[0] = 1;
    std::free(request);
  }
}
[[gnu::noinline]] void log_requests(size_t requests) {
  for (size_t i = 0; i < requests; ++i) {
    auto* volatile line = static_cast<char*>(std::malloc(4000));
    line[0] = 1;
    std::free(line);
  }
}

constexpr size_t kCached = 200'000;
constexpr size_t kRound = 2'000;

void first_cache() {
  build_graph(kCached);
}
void next_cache() {
  build_graph(kRound);
  log_requests(kRound);
}
void next_two_places() {
  build_graph(kRound);
  read_config(kRound / 10);
}
void next_passing() {
  build_graph(kRound);
  answer_requests(kRound);
}
void next_few() {
  build_graph(20);
}

void first_idle() {
  build_graph(100);
}
void no_next() {}

void first_churn() {
  build_graph(100);
}
void next_churn() {
  for (int i = 0; i < 500; ++i) {
    answer_requests(kRound / 10);
    log_requests(kRound / 10);
  }
}

// Free in whole pages, but for a block here and there.
void first_freed() {
  build_graph(kCached);
  for (size_t i = 0; i < kCached; ++i) {
    if (i % 1000 != 0) std::free(g_blocks[i]);
  }
}

// A block whose owner has written past its end.
void first_damaged() {
  auto* block = static_cast<unsigned char*>(std::malloc(100));
  std::memset(std::malloc(100), 1, 100);
  auto* volatile beyond = block + 104;
  std::memset(beyond, 0x41, 8);
}

pthread_barrier_t g_done;

// Small blocks that stay between large ones that do not, in the arena of each thread.
void first_fragmented() {
  pthread_barrier_init(&g_done, nullptr, kThreads + 1);
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    std::thread([] {
      constexpr size_t kPairs = 4000;
      std::vector<void*> passing(kPairs);
      for (void*& block : passing) {
        block = std::malloc(1800);
        std::memset(block, 1, 1800);
        std::memset(std::malloc(200), 1, 200);
      }
      for (void* block : passing) std::free(block);
      pthread_barrier_wait(&g_done);
      for (;;) ::pause();
    }).detach();
  }
  pthread_barrier_wait(&g_done);
}

// Pages with nothing below or above them that the kernel could merge them with.
[[gnu::noinline]] void map_apart(size_t size, int protection) {
  constexpr size_t kGap = 64 << 10;
  auto* place = static_cast<char*>(::mmap(nullptr, size + 2 * kGap, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (place == MAP_FAILED || ::mprotect(place + kGap, size, PROT_READ | PROT_WRITE) != 0)
    std::exit(1);
  std::memset(place + kGap, 1, size);
  if (::mprotect(place + kGap, size, protection) != 0) std::exit(1);
}

// Memory that malloc knows nothing of.
void first_mapped() {
  for (int i = 0; i < 8; ++i) map_apart(4 * kMiB, PROT_READ | PROT_WRITE);
  map_apart(40 * kMiB, PROT_READ | PROT_WRITE);
  map_apart(6 * kMiB, PROT_READ | PROT_EXEC);
}
void next_mapped() {
  map_apart(kMiB, PROT_READ | PROT_WRITE);
}

const char* g_file = nullptr;

void first_files() {
  const int fd = ::open(g_file, O_RDONLY);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  void* data =
      ::mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (fd < 0 || data == MAP_FAILED) std::exit(1);
}

struct Shape {
  std::string_view name;
  void (*first)();
  void (*next)();
};
constexpr Shape kShapes[] = {{"cache", first_cache, next_cache},
                             {"two_places", first_cache, next_two_places},
                             {"passing", first_cache, next_passing},
                             {"few", first_cache, next_few},
                             {"idle", first_idle, no_next},
                             {"churn", first_churn, next_churn},
                             {"freed", first_freed, no_next},
                             {"damaged", first_damaged, no_next},
                             {"fragmented", first_fragmented, no_next},
                             {"mapped", first_mapped, next_mapped},
                             {"files", first_files, no_next}};

void say_ready() {
  std::puts("ready");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2) g_file = argv[2];
  for (const Shape& shape : kShapes) {
    if (argc < 2 || shape.name != argv[1]) continue;
    shape.first();
    say_ready();
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
      shape.next();
      say_ready();
    }
    return 0;
  }
  std::fprintf(stderr, "first_screen_target: there is no such shape\n");
  return 2;
}
