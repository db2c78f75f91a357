// Passes by code that runs elsewhere: here by a runner that makes them at once.
#include "heap/in_place/remote_passes.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace heapsnap;

namespace {

constexpr uint64_t kChunkSize = 48;

class Runner final : public CodeRunner {
 public:
  Address load(const PortableCode& code, uint64_t room) override {
    CHECK(code.bytes.size() != 0);
    room_.resize(room);
    return Address(reinterpret_cast<uint64_t>(room_.data()));
  }
  void start(size_t function, Address argument) override {
    ++started_;
    CHECK(function == loop_code().scan);
    ScanTask task;
    read(argument, std::as_writable_bytes(std::span(&task, 1)));
    task.count = scan_chunks(task.scan, task.memory, task.answers, task.room);
    write(argument, std::as_bytes(std::span(&task, 1)));
  }
  bool finish() override { return !fails_; }
  bool read(Address from, std::span<std::byte> bytes) override {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(from.value()), bytes.size());
    return true;
  }
  bool write(Address to, std::span<const std::byte> bytes) override {
    std::memcpy(reinterpret_cast<void*>(to.value()), bytes.data(), bytes.size());
    return true;
  }

  void fail() { fails_ = true; }
  int started() const { return started_; }

 private:
  std::vector<std::byte> room_;
  int started_ = 0;
  bool fails_ = false;
};

// `count` chunks, all in use.
class Chunks {
 public:
  explicit Chunks(size_t count) : count_(count), words_(count * kChunkSize / 8 + 2) {
    for (size_t i = 0; i <= count; ++i) words_[i * kChunkSize / 8 + 1] = kChunkSize | 1;
  }
  ChunkScan scan_from(size_t chunk) const {
    const Address begin(reinterpret_cast<uint64_t>(words_.data()));
    ChunkScan scan;
    scan.at = begin + chunk * kChunkSize;
    scan.limit = begin + count_ * kChunkSize;
    scan.readable_end = scan.limit + 16;
    scan.min_size = 32;
    return scan;
  }

 private:
  size_t count_;
  std::vector<uint64_t> words_;
};

}  // namespace

TEST_CASE("chunks are scanned while those before them are looked at") {
  constexpr size_t kCount = 100'000;
  const Chunks chunks(kCount);
  Runner runner;
  RemotePasses passes(runner);
  ChunkScan scan = chunks.scan_from(0);
  const size_t in_a_pass = passes.scan(scan).size();
  REQUIRE(in_a_pass < kCount / 2);
  CHECK(runner.started() == 2);
  size_t told = in_a_pass;
  for (auto more = passes.scan(scan); !more.empty(); more = passes.scan(scan)) {
    told += more.size();
    for (const uint32_t chunk : more) REQUIRE(chunk == kChunkSize);
  }
  CHECK(told == kCount);
  CHECK(scan.at == scan.limit);
  // The last one that told something had room for more, so none was begun behind it.
  CHECK(runner.started() == static_cast<int>((kCount + in_a_pass - 1) / in_a_pass) + 1);
}

TEST_CASE("a scan from elsewhere than where the last one ended is made anew") {
  constexpr size_t kCount = 100'000;
  const Chunks chunks(kCount);
  Runner runner;
  RemotePasses passes(runner);
  ChunkScan scan = chunks.scan_from(0);
  CHECK(!passes.scan(scan).empty());
  scan = chunks.scan_from(kCount - 5);
  CHECK(passes.scan(scan).size() == 5);
  CHECK(scan.at == scan.limit);
}

TEST_CASE("after a pass that failed no other is made") {
  const Chunks chunks(100'000);
  Runner runner;
  RemotePasses passes(runner);
  ChunkScan scan = chunks.scan_from(0);
  CHECK(!passes.scan(scan).empty());
  runner.fail();
  const ChunkScan next = scan;
  CHECK(passes.scan(scan).empty());
  CHECK(scan == next);
  CHECK(!passes.is_usable());
  const int started = runner.started();
  CHECK(passes.scan(scan).empty());
  CHECK(runner.started() == started);
}
