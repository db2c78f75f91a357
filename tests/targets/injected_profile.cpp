// A target that keeps busy where a loader or an unwinder could be met half way.
//
//   injected_profile dlopen LIBRARY   two threads that load LIBRARY and let it go, all the time
//   injected_profile throw            three threads that throw through some frames and catch
//   injected_profile arenas           nine threads, each with an arena of its own, that end and are
//                                     made anew
//
// One more thread allocates in each. Says "ready", runs until its standard input ends, and then
// says "errors=0 rounds=123".
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

std::atomic<int> begun{0};
std::atomic<long> errors{0};
std::atomic<long> rounds{0};
std::atomic<bool> ending{false};

void allocate(size_t seed) {
  std::vector<std::string> kept;
  for (size_t i = 0; i < 50; ++i) kept.emplace_back(1 + (seed * 37 + i * 101) % 3000, 'a');
  for (const std::string& text : kept) {
    if (text.front() != 'a' || text.back() != 'a') ++errors;
  }
}

void load_once(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    ++errors;
    return;
  }
  // Nobody exports it: the search goes through all that is loaded.
  if (::dlsym(handle, "no_such_symbol") != nullptr || ::dlerror() == nullptr) ++errors;
  if (::dlclose(handle) != 0) ++errors;
}

__attribute__((noinline)) void throw_at(int depth) {
  const std::string text(static_cast<size_t>(depth) + 40, 'x');
  if (depth == 0) throw std::runtime_error(text);
  throw_at(depth - 1);
  if (text.size() < 40) ++errors;  // keeps the frame
}

void throw_once(int depth) {
  try {
    throw_at(depth);
    ++errors;
  } catch (const std::runtime_error& error) {
    if (std::strlen(error.what()) != 40) ++errors;
  }
}

void make_threads() {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 9; ++i) {
    threads.emplace_back([i] {
      for (size_t k = 0; k < 20; ++k) allocate(i * 20 + k);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view profile = argc > 1 ? argv[1] : "";
  std::vector<std::function<void(long)>> works{[](long i) { allocate(static_cast<size_t>(i)); }};
  if (profile == "dlopen" && argc > 2) {
    works.insert(works.end(), 2, [argv](long) { load_once(argv[2]); });
  } else if (profile == "throw") {
    works.insert(works.end(), 3, [](long i) { throw_once(static_cast<int>(i % 12)); });
  } else if (profile == "arenas") {
    works.emplace_back([](long) { make_threads(); });
  } else {
    return 2;
  }
  std::vector<std::thread> threads;
  for (const auto& work : works) {
    threads.emplace_back([&work] {
      ++begun;
      for (long i = 0; !ending; ++i) {
        work(i);
        ++rounds;
      }
    });
  }
  while (begun < static_cast<int>(works.size())) ::sched_yield();
  std::puts("ready");
  std::fflush(stdout);
  char byte;
  while (::read(0, &byte, 1) > 0) {
  }
  ending = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("errors=%ld rounds=%ld\n", errors.load(), rounds.load());
  return errors == 0 ? 0 : 1;
}
