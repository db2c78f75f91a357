// Discovery from end to end, in a copy of the test's own memory.
#include "heap/discovery/malloc_discovery.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "heap/discovery/arena_verifier.h"
#include "heap/thread_tcache.h"
#include "tests/unit/heap/frozen_copy.h"

using namespace heapsnap;

namespace {

// Under AddressSanitizer this process's malloc is not libc's, which then is never used.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kUsesLibc = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kUsesLibc = false;
#else
constexpr bool kUsesLibc = true;
#endif
#else
constexpr bool kUsesLibc = true;
#endif

DebugFileSearch local_debug_files() {
  DebugFileSearch::Options options;
  options.debuginfod_cache = false;
  return DebugFileSearch(options);
}

std::vector<LocatedMalloc> locate(Target& target, const DiscoveryOptions& options = {}) {
  return locate_mallocs(target, prepare_discovery(target, local_debug_files(), options));
}

constexpr DiscoveryStrategy kFileStrategies[] = {DiscoveryStrategy::kDebugSymbol,
                                                 DiscoveryStrategy::kRelocation,
                                                 DiscoveryStrategy::kDisassembly};

}  // namespace

TEST_CASE("this process's own malloc is found") {
  FrozenCopy self;
  const auto mallocs = locate(self);
  REQUIRE(mallocs.size() == 1);
  const MallocInstance& instance = mallocs[0].instance;
  CHECK(instance.version == GlibcVersion{__GLIBC__, __GLIBC_MINOR__});
  CHECK_FALSE(instance.malloc_par.is_null());
  CHECK(instance.notes.empty());
  CHECK_FALSE(instance.build_id.empty());
  REQUIRE(mallocs[0].tls_offset);
  if (!kUsesLibc) return;
  const ArenaCheck check = check_arena(self, mallocs[0].layout, instance.main_arena);
  CHECK(check.is_used);
  CHECK(check.damage().empty());
  CHECK(check.bad_bins == 0);
}

TEST_CASE("each strategy alone finds the same malloc") {
  FrozenCopy self;
  const auto all = locate(self);
  REQUIRE(all.size() == 1);
  for (const DiscoveryStrategy strategy : kFileStrategies) {
    CAPTURE(to_string(strategy));
    const auto found = locate(self, {{strategy}});
    if (strategy == DiscoveryStrategy::kDebugSymbol && found.empty()) {
      MESSAGE("no debug file of libc is installed (libc6-dbg)");
      continue;
    }
    REQUIRE(found.size() == 1);
    CHECK(found[0].instance.strategy == strategy);
    CHECK(found[0].instance.main_arena == all[0].instance.main_arena);
    CHECK(found[0].instance.malloc_par == all[0].instance.malloc_par);
    CHECK(found[0].layout == all[0].layout);
    CHECK(found[0].tls_offset == all[0].tls_offset);
  }
  CHECK(locate(self, {{}}).empty());
}

TEST_CASE("without its file libc is found by the shape of its arena" * doctest::skip(!kUsesLibc)) {
  FrozenCopy self;
  const auto all = locate(self);
  REQUIRE(all.size() == 1);
  const auto by_scan = locate(self, {{DiscoveryStrategy::kStructuralScan}});
  REQUIRE(by_scan.size() == 1);
  CHECK(by_scan[0].instance.strategy == DiscoveryStrategy::kStructuralScan);
  CHECK(by_scan[0].instance.main_arena == all[0].instance.main_arena);
  CHECK(by_scan[0].layout == all[0].layout);

  const auto without_files = locate_mallocs(self, PreparedDiscovery{});
  REQUIRE(without_files.size() == 1);
  CHECK(without_files[0].instance.main_arena == all[0].instance.main_arena);
  CHECK(without_files[0].instance.malloc_par == all[0].instance.malloc_par);
  CHECK(without_files[0].instance.version == all[0].instance.version);
  CHECK(without_files[0].instance.module == all[0].instance.module);
  CHECK(without_files[0].layout == all[0].layout);
}

TEST_CASE("the counters include what was just mapped" * doctest::skip(!kUsesLibc)) {
  constexpr size_t kLarge = 64 << 20;  // above any dynamic mmap threshold
  FrozenCopy before;
  void* volatile block = std::malloc(kLarge);
  FrozenCopy after;
  std::free(block);
  const auto first = locate(before);
  const auto second = locate(after);
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(second[0].instance.n_mmaps == first[0].instance.n_mmaps + 1);
  const uint64_t more = second[0].instance.mmapped_mem - first[0].instance.mmapped_mem;
  CHECK(more >= kLarge);
  CHECK(more <= kLarge + 2 * 4096);
}

TEST_CASE("each thread's cache and arena are found" * doctest::skip(!kUsesLibc)) {
  std::promise<std::pair<int, Address>> started;
  std::promise<void> done;
  std::thread worker([&] {
    void* volatile small = std::malloc(24);
    void* volatile freed = std::malloc(100);
    std::free(freed);  // since 2.43 a tcache is made by the first free
    started.set_value({gettid(), FrozenCopy::thread_pointer()});
    done.get_future().wait();
    std::free(small);
  });
  const auto [tid, thread_pointer] = started.get_future().get();
  FrozenCopy self;
  self.add_thread(tid, thread_pointer);
  const auto mallocs = locate(self);
  REQUIRE(mallocs.size() == 1);
  const LocatedMalloc& malloc = mallocs[0];
  const Address main_arena = malloc.instance.main_arena;
  const auto second_arena =
      self.memory().read_value<uint64_t>(main_arena + malloc.layout.state.next);
  const std::vector<Address> arenas = {main_arena, Address(second_arena.value_or(0))};

  LocatedMalloc by_scan = malloc;
  by_scan.tcache_in_tls.reset();
  by_scan.thread_arena_in_tls.reset();
  const auto found = find_thread_allocators(self, malloc, arenas);
  CHECK(found == find_thread_allocators(self, by_scan, arenas));
  done.set_value();
  worker.join();

  REQUIRE(found.size() == 2);
  CHECK(found[0].arena == main_arena);
  CHECK_FALSE(found[0].tcache.is_null());
  CHECK(found[1].tid == tid);
  CHECK_FALSE(found[1].tcache.is_null());
  CHECK(found[1].tcache != found[0].tcache);
  CHECK(found[1].arena == arenas[1]);
  CHECK(found[1].arena != main_arena);
}
