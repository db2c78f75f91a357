#include "tools/capture/runtime_capture.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "base/error.h"

namespace heapsnap {

namespace {

constexpr const char* kNoMemory = "heapsnap had no memory left to read it";
constexpr const char* kNoLength = "it says that it has more than any process can";

// Takes back what a walk has added that was given up meanwhile.
class AddedRows {
 public:
  explicit AddedRows(RuntimeModel& model)
      : model_(model),
        runtimes_(model.runtimes.size()),
        classes_(model.classes.size()),
        types_(model.types.size()),
        pages_(model.pages.size()),
        areas_(model.areas.size()),
        contexts_(model.contexts.size()) {}
  void take_back() {
    model_.runtimes.resize(runtimes_);
    model_.classes.resize(classes_);
    model_.types.resize(types_);
    model_.pages.resize(pages_);
    model_.areas.resize(areas_);
    model_.contexts.resize(contexts_);
  }

 private:
  RuntimeModel& model_;
  size_t runtimes_;
  size_t classes_;
  size_t types_;
  size_t pages_;
  size_t areas_;
  size_t contexts_;
};

}  // namespace

void RuntimeCapture::prepare(Target& target, const LoadedModules& known) {
  try {
    prepare(find_runtimes(target, LoadedModules(target, &known)));
  } catch (const Error&) {
    // A thread by which a running process is read may end meanwhile. Then there is none to be
    // found.
  }
}

void RuntimeCapture::begin(Target& target, bool is_held, RuntimeObjects* objects) {
  if (places_.empty()) return;
  options_.objects = objects;
  budget_.emplace(pid_, memory_budget_);
  options_.check = [this] {
    if (auto why = budget_->why_spent()) {
      throw Error(ErrorKind::kUnsupported, "cannot read a runtime's heap", std::move(*why));
    }
  };
  for (const RuntimePlace& place : places_) {
    Reading& reading = readings_.emplace_back();
    reading.refused.kind = place.kind;
    reading.refused.version = place.version;
    reading.refused.module = place.module;
    if (choice_ == CaptureChoice::kNo) {
      reading.refused.why_not = kRuntimeNotAsked;
      continue;
    }
    if (is_held && choice_ != CaptureChoice::kYes) {
      reading.refused.why_not = kRuntimeWouldHold;
      continue;
    }
    begin_one(place, target);
  }
}

void RuntimeCapture::begin_one(const RuntimePlace& place, Target& target) {
  Reading& reading = readings_.back();
  const size_t known = options_.objects != nullptr ? options_.objects->count() : 0;
  try {
    reading.walk = place.begin(target, options_);
    reading.refused.why_not = reading.walk->why_not();
  } catch (const Error& error) {
    reading.refused.why_not = error.why();
  } catch (const std::bad_alloc&) {
    reading.refused.why_not = kNoMemory;
  } catch (const std::length_error&) {
    reading.refused.why_not = kNoLength;
  }
  const bool has_added = options_.objects != nullptr && options_.objects->count() != known;
  is_half_known_ |= has_added && !reading.refused.why_not.empty();
}

// What a walk throws ends it alone. Where the copy is lost, the capture sees that for itself.
template <typename Step>
void RuntimeCapture::each_walk(Step step) {
  for (Reading& reading : readings_) {
    if (!reading.walk) continue;
    const bool was_refused = !reading.walk->why_not().empty();
    const auto end = [&](std::string why) {
      reading.refused.why_not = std::move(why);
      reading.walk.reset();
      is_half_known_ |= !was_refused;
    };
    try {
      step(*reading.walk);
      is_half_known_ |= !was_refused && !reading.walk->why_not().empty();
    } catch (const Error& error) {
      end(error.why());
    } catch (const std::bad_alloc&) {
      end(kNoMemory);
    } catch (const std::length_error&) {
      end(kNoLength);
    }
  }
}

void RuntimeCapture::on_batch(const ChunkBatch& batch) {
  each_walk([&](RuntimeWalk& walk) { walk.on_batch(batch); });
}

void RuntimeCapture::on_mmapped(const MmappedChunk& chunk) {
  each_walk([&](RuntimeWalk& walk) { walk.on_mmapped(chunk); });
}

RuntimeModel RuntimeCapture::take() {
  RuntimeModel model;
  each_walk([&](RuntimeWalk& walk) {
    AddedRows added(model);
    try {
      walk.take(model);
    } catch (...) {
      added.take_back();
      throw;
    }
  });
  for (Reading& reading : readings_) {
    if (!reading.walk) model.runtimes.push_back(std::move(reading.refused));
  }
  readings_.clear();
  if (is_half_known_ && options_.objects != nullptr) *options_.objects = RuntimeObjects();
  return model;
}

}  // namespace heapsnap
