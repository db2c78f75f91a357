#include "heap/thread_tcache.h"

#include <doctest/doctest.h>

#include "heap/discovery/malloc_tls.h"
#include "tests/unit/heap/fake_target.h"

using namespace heapsnap;

namespace {

constexpr Address kTls(0x7e000000);  // memory of thread-local storage
constexpr Address kHeap(0x56000000);
constexpr Address kArena(0x7f200460);
constexpr Address kSecondArena(0x7d000030);
constexpr int64_t kOffset = -0x90;

struct CacheFixture {
  FakeTarget target;
  LocatedMalloc malloc;
  std::vector<Address> arenas = {kArena, kSecondArena};

  CacheFixture(Machine machine, int minor) : target(machine) {
    target.map("56000000-56021000 rw-p 00000000 00:00 0 [heap]");
    target.map("7e000000-7e010000 rw-p 00000000 00:00 0 ");
    target.map("7f000000-7f001000 r--p 00000000 fe:01 7 /lib/libc.so.6");
    malloc.layout = MallocLayout::for_version(machine, {2, minor}).value();
    malloc.tls_offset = kOffset;
    malloc.tls_size = 0x90;
  }
  Address put_tcache(uint64_t offset, uint64_t more = 0) {
    const Address tcache = kHeap + offset;
    target.put_word(tcache - malloc.layout.word, (malloc.layout.tcache_chunk_size() + more) | 1);
    return tcache;
  }
  void put_tls(Address thread_pointer, uint64_t place, Address value) {
    target.put_word(thread_pointer + static_cast<uint64_t>(kOffset) + place, value.value());
  }
  std::vector<ThreadAllocator> find() { return find_thread_allocators(target, malloc, arenas); }
};

}  // namespace

TEST_CASE("each thread's tcache and arena are found in its own storage") {
  for (const Machine machine : {Machine::kX86_64, Machine::kAarch64, Machine::kI386}) {
    for (const int minor : {26, 31, 36, 42, 44}) {
      CAPTURE(minor);
      CacheFixture process(machine, minor);
      const Address first = kTls + 0x1000;
      const Address second = kTls + 0x3000;
      process.target.add_thread(10, first);
      process.target.add_thread(11, second);
      process.target.add_thread(12, kTls + 0x5000);  // never allocated
      process.put_tls(kTls + 0x5000, 0x28, Address(0x7f000080));
      process.target.add_thread(13, kTls + 0x7000);
      process.target.add_thread(14, kTls + 0x9000);    // all zero
      process.target.add_thread(15, Address(0x1000));  // in no mapping
      const Address tcache = process.put_tcache(0x10);
      const Address wider = process.put_tcache(0x1010, 0x10);
      const Address widest = process.put_tcache(0x2010, 4 * process.malloc.layout.word);
      process.put_tls(kTls + 0x7000, 0x48, widest);
      process.put_tls(first, 0x48, tcache);
      process.put_tls(first, 0x58, kArena);
      process.put_tls(second, 0x48, wider);
      process.put_tls(second, 0x58, kSecondArena);
      process.put_tls(second, 0x10, kHeap + 0x2000);  // points into the heap, but to no tcache
      const auto found = process.find();
      REQUIRE(found.size() == 6);
      CHECK(found[0] == ThreadAllocator{10, tcache, kArena});
      CHECK(found[1] == ThreadAllocator{11, wider, kSecondArena});
      CHECK(found[2] == ThreadAllocator{12, Address(), Address()});
      CHECK(found[3] == ThreadAllocator{13, widest, Address()});
      CHECK(found[4] == ThreadAllocator{14, Address(), Address(), true});
      CHECK(found[5] == ThreadAllocator{15, Address(), Address(), true});
    }
  }
}

TEST_CASE("a place that symbols tell is believed, any other is not") {
  CacheFixture process(Machine::kX86_64, 36);
  const Address pointer = kTls + 0x1000;
  process.target.add_thread(10, pointer);
  const Address stale = process.put_tcache(0x10);
  const Address real = process.put_tcache(0x1010);
  process.put_tls(pointer, 0x20, stale);
  process.put_tls(pointer, 0x48, real);
  CHECK(process.find().at(0).tcache == stale);
  process.malloc.tcache_in_tls = 0x48;
  CHECK(process.find().at(0).tcache == real);
  process.malloc.tcache_in_tls = UINT64_MAX - 3;
  CHECK(process.find().at(0).tcache.is_null());
}

TEST_CASE("the dummy of 2.43 is no tcache") {
  CacheFixture process(Machine::kX86_64, 43);
  const Address pointer = kTls + 0x1000;
  process.target.add_thread(10, pointer);
  process.put_tls(pointer, 0x20, Address(0x7f000100));  // in libc's constants
  CHECK(process.find().at(0).tcache.is_null());
}

TEST_CASE("a chunk of a tcache's size that holds other things is no tcache") {
  CacheFixture process(Machine::kX86_64, 36);
  const Address tcache = process.put_tcache(0x10);
  auto& memory = process.target.memory();
  CHECK(is_tcache(memory, process.malloc.layout, tcache));
  CHECK_FALSE(is_tcache(memory, process.malloc.layout, tcache + 8));
  for (unsigned bin = 0; bin < 64; ++bin) process.target.put<uint16_t>(tcache + 2 * bin, 3);
  CHECK_FALSE(is_tcache(memory, process.malloc.layout, tcache));  // counts without chunks
  for (unsigned bin = 0; bin < 64; ++bin) {
    process.target.put_word(tcache + 128 + 8 * bin, 0x56004010 + bin);
  }
  CHECK_FALSE(is_tcache(memory, process.malloc.layout, tcache));  // chunks on odd addresses
  for (unsigned bin = 0; bin < 64; ++bin) {
    process.target.put_word(tcache + 128 + 8 * bin, 0x56004010 + 16 * bin);
  }
  CHECK(is_tcache(memory, process.malloc.layout, tcache));
  CHECK_FALSE(is_tcache(memory, process.malloc.layout.without_thread_caches(), tcache));
}

TEST_CASE("a tcache that was written over is told where its place is known") {
  for (const bool is_place_told : {false, true}) {
    CAPTURE(is_place_told);
    CacheFixture process(Machine::kX86_64, 36);
    const Address damaged = process.put_tcache(0x10);
    for (unsigned i = 0; i < 80; ++i) {
      process.target.put_word(damaged + 8ULL * i, 0x4141414141414141);
    }
    for (const int thread : {1, 2, 3}) {
      process.target.add_thread(9 + thread, kTls + 0x1000ULL * static_cast<uint64_t>(thread));
    }
    process.put_tls(kTls + 0x1000, 0x48, damaged);
    process.put_tls(kTls + 0x3000, 0x20, damaged);  // not where the tcache is
    process.put_tls(kTls + 0x3000, 0x48, kHeap + 0x5000);
    if (is_place_told) process.malloc.tcache_in_tls = 0x48;
    const auto of_one = process.find();
    CHECK(of_one.at(0).tcache.is_null());
    CHECK(of_one.at(0).damaged_tcache == (is_place_told ? damaged : Address()));
    process.put_tls(kTls + 0x2000, 0x48, process.put_tcache(0x1010));
    const auto found = process.find();
    CHECK(found.at(0).damaged_tcache == damaged);
    CHECK(found.at(1).damaged_tcache.is_null());
    CHECK(found.at(2).damaged_tcache.is_null());
  }
}

TEST_CASE("storage that cannot be read, and threads without registers, give nothing") {
  CacheFixture process(Machine::kX86_64, 36);
  process.target.add_thread(10, Address(0x1000));
  process.target.add_thread(11, Address(8));  // the block would begin below zero
  process.target.editable_threads().push_back({12, "", std::nullopt});
  const auto found = process.find();
  REQUIRE(found.size() == 2);
  CHECK(found[0].tcache.is_null());
  CHECK(found[1].arena.is_null());
  process.malloc.tls_offset.reset();
  CHECK(process.find().empty());
}

TEST_CASE("the TLS offset is what most words say") {
  FakeTarget target(Machine::kI386);
  target.map("7f200000-7f201000 rw-p 00000000 fe:01 7 /lib/libc.so.6");
  MallocTls tls;
  for (uint64_t i = 0; i < 5; ++i) {
    const Address word(0x7f200100 + 4 * i);
    target.put_word(word, static_cast<uint32_t>(-84 + 4 * static_cast<int>(i)));
    tls.words.push_back({word, 4 * i});
  }
  tls.words.push_back({Address(0x1000), 0});  // cannot be read: does not vote
  CHECK(vote_tls_offset(target.memory(), tls, 4) == -84);
  target.put_word(tls.words[0].word, 77);
  target.put_word(tls.words[1].word, 78);
  CHECK(vote_tls_offset(target.memory(), tls, 4) == -84);
  target.put_word(tls.words[2].word, 79);
  CHECK_FALSE(vote_tls_offset(target.memory(), tls, 4));
  CHECK_FALSE(vote_tls_offset(target.memory(), MallocTls{}, 4));
}
