#include "tools/capture/runtime_capture.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/unit/heap/fake_target.h"

using namespace heapsnap;

namespace {

enum class Outcome : uint8_t {
  kRead,
  kRefusedAtOnce,     // nothing of it was read
  kRefusedWhileRead,  // in begin()
  kRefusedInTheEnd,
  kGivenUp,  // at a chunk
};

// A runtime that adds a variable to what references need.
class FakeWalk final : public RuntimeWalk {
 public:
  FakeWalk(const RuntimeOptions& options, Outcome outcome) : outcome_(outcome) {
    if (outcome != Outcome::kRefusedAtOnce && options.objects != nullptr) {
      options.objects->variables.push_back({Address(0x1000), "app.CACHE", "/bin/app"});
    }
    if (outcome == Outcome::kRefusedAtOnce || outcome == Outcome::kRefusedWhileRead) refuse();
  }
  const std::string& why_not() const override { return why_not_; }
  void on_batch(const ChunkBatch& /*batch*/) override {
    if (outcome_ == Outcome::kGivenUp) {
      throw Error(ErrorKind::kUnsupported, "cannot read it", "no memory is left");
    }
  }
  void on_mmapped(const MmappedChunk& /*chunk*/) override {}
  void take(RuntimeModel& model) override {
    if (outcome_ == Outcome::kRefusedInTheEnd) refuse();
    Runtime& runtime = model.runtimes.emplace_back();
    runtime.why_not = why_not_;
  }

 private:
  void refuse() { why_not_ = "it is of no kind that is known"; }

  Outcome outcome_;
  std::string why_not_;
};

// How many variables are known when runtimes with these outcomes have been read.
size_t variables_after(const std::vector<Outcome>& outcomes) {
  FakeTarget target{Machine::kX86_64};
  RuntimeObjects objects;
  RuntimeCapture capture(CaptureChoice::kYes, 0, std::nullopt, false);
  std::vector<RuntimePlace> places;
  for (const Outcome outcome : outcomes) {
    RuntimePlace& place = places.emplace_back();
    place.begin = [outcome](Target&, const RuntimeOptions& options) {
      return std::make_unique<FakeWalk>(options, outcome);
    };
  }
  capture.prepare(std::move(places));
  capture.begin(target, false, &objects);
  capture.on_batch({});
  const RuntimeModel model = capture.take();
  CHECK(model.runtimes.size() == outcomes.size());
  CHECK(std::count_if(model.runtimes.begin(), model.runtimes.end(), [](const Runtime& one) {
          return one.why_not.empty();
        }) == std::count(outcomes.begin(), outcomes.end(), Outcome::kRead));
  return objects.variables.size();
}

}  // namespace

TEST_CASE("what references need of a heap that is refused when a part was read is not used") {
  CHECK(variables_after({Outcome::kRead}) == 1);
  CHECK(variables_after({Outcome::kRead, Outcome::kRefusedAtOnce}) == 1);
  CHECK(variables_after({Outcome::kRefusedWhileRead}) == 0);
  CHECK(variables_after({Outcome::kRefusedInTheEnd}) == 0);
  CHECK(variables_after({Outcome::kGivenUp}) == 0);
  // Classes of both are numbered together.
  CHECK(variables_after({Outcome::kRead, Outcome::kGivenUp, Outcome::kRead}) == 0);
}
