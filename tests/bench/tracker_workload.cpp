// One workload for tracker_bench.py: tracker_workload fixed|vary|grow DEPTH THREADS PAIRS. Prints
// the CPU nanoseconds that each malloc/free pair took (fixed, vary), or how many bytes of memory
// each of PAIRS live blocks took (grow).
//
// fixed: all allocations from one call path, DEPTH frames deep.
// vary:  the innermost 6 frames are random among 4,096 paths.
// grow:  as vary, but the blocks stay.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

namespace {

constexpr unsigned kLive = 64;

enum class Kind { kFixed, kVary, kGrow };

struct Work {
  Kind kind;
  uint64_t pairs;
  uint64_t random = 88172645463325252ULL;
  void* live[kLive] = {};
  std::vector<void*>* kept = nullptr;
};

inline uint64_t next(Work& work) {
  work.random ^= work.random << 13;
  work.random ^= work.random >> 7;
  work.random ^= work.random << 17;
  return work.random;
}

NOINLINE void exchange(Work& work, uint64_t bits) {
  void*& place = work.live[bits % kLive];
  free(place);
  place = malloc(16 + (bits >> 6) % 112);
}

NOINLINE void keep(Work& work, uint64_t bits) {
  work.kept->push_back(malloc(16 + (bits >> 6) % 112));
}

// Six frames, each one of four functions by two bits of `bits`.
template <int Level, int Which>
NOINLINE void branch(Work& work, uint64_t bits, uint64_t more);
template <int Level>
inline void turn(Work& work, uint64_t bits, uint64_t more) {
  switch (bits & 3) {
    case 0: branch<Level, 0>(work, bits >> 2, more); break;
    case 1: branch<Level, 1>(work, bits >> 2, more); break;
    case 2: branch<Level, 2>(work, bits >> 2, more); break;
    default: branch<Level, 3>(work, bits >> 2, more);
  }
}
template <int Level, int Which>
NOINLINE void branch(Work& work, uint64_t bits, uint64_t more) {
  if constexpr (Level == 1) {
    if (work.kind == Kind::kGrow) {
      keep(work, more + Which);
    } else {
      exchange(work, more + Which);
    }
  } else {
    turn<Level - 1>(work, bits, more);
  }
  asm volatile("" : : "r"(Which) : "memory");  // no tail call
}

NOINLINE void innermost(Work& work) {
  if (work.kind == Kind::kFixed) {
    for (uint64_t i = 0; i < work.pairs; ++i) exchange(work, next(work));
  } else {
    for (uint64_t i = 0; i < work.pairs; ++i) {
      const uint64_t bits = next(work);
      turn<6>(work, bits, bits >> 12);
    }
  }
}

NOINLINE void descend(Work& work, unsigned depth) {
  volatile char room[24];
  room[0] = 1;
  if (depth == 0) {
    innermost(work);
  } else {
    descend(work, depth - 1);
  }
  room[1] = room[0];
}

double cpu_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

uint64_t resident_bytes() {
  unsigned long size = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr || fscanf(file, "%lu %lu", &size, &resident) != 2) exit(1);
  fclose(file);
  return resident * 4096;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  Work work;
  work.kind = strcmp(argv[1], "fixed") == 0  ? Kind::kFixed
              : strcmp(argv[1], "vary") == 0 ? Kind::kVary
                                             : Kind::kGrow;
  const unsigned depth = static_cast<unsigned>(atoi(argv[2]));
  const unsigned threads = static_cast<unsigned>(atoi(argv[3]));
  work.pairs = strtoull(argv[4], nullptr, 10);
  // main and the few frames below it, exchange and, for vary, the six branches count too.
  const unsigned outer = work.kind == Kind::kFixed ? 7 : 13;
  const unsigned levels = depth > outer ? depth - outer : 0;
  if (work.kind == Kind::kGrow) {
    std::vector<void*> kept;
    kept.reserve(work.pairs);
    memset(kept.data(), 0, work.pairs * sizeof(void*));
    work.kept = &kept;
    const uint64_t before = resident_bytes();
    descend(work, levels);
    printf("%.2f\n",
           static_cast<double>(resident_bytes() - before) / static_cast<double>(work.pairs));
    return 0;
  }
  std::vector<std::thread> team;
  std::vector<double> spent(threads);
  std::atomic<unsigned> ready{0};
  for (unsigned i = 0; i < threads; ++i) {
    team.emplace_back([&, i, mine = work]() mutable {
      mine.random += i * 0x9e3779b97f4a7c15ULL;
      Work warm = mine;
      warm.pairs = 200000;
      descend(warm, levels);
      memcpy(mine.live, warm.live, sizeof mine.live);
      ready.fetch_add(1);
      while (ready.load() < threads) {
      }
      const double start = cpu_ns();
      descend(mine, levels);
      spent[i] = (cpu_ns() - start) / static_cast<double>(mine.pairs);
    });
  }
  double worst = 0;
  for (unsigned i = 0; i < threads; ++i) {
    team[i].join();
    if (spent[i] > worst) worst = spent[i];
  }
  printf("%.2f\n", worst);
  return 0;
}
