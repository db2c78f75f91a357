#include "tools/collect/bounded_capture.h"

#include <charconv>
#include <exception>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "platform/linux/freeze/freeze_options.h"
#include "platform/linux/proc/proc_fs.h"
#include "platform/linux/trace/target_lock.h"
#include "tools/capture/capture.h"
#include "tools/doctor/attach_obstacles.h"

namespace heapsnap {

namespace {

// For another heapsnap that is just done with the process.
constexpr std::chrono::milliseconds kLockPatience{500};

// The outcome travels as its fields, each ended by a NUL byte.
class Fields {
 public:
  void add(std::string_view text) {
    // What could look like the end of a field comes from somebody else's names.
    for (const char c : text) text_ += c == '\0' ? ' ' : c;
    text_ += '\0';
  }
  void add(uint64_t number) { add(std::to_string(number)); }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string encode(const CaptureOutcome& outcome) {
  Fields fields;
  fields.add(static_cast<uint64_t>(outcome.exit_code));
  fields.add(outcome.what);
  fields.add(outcome.why);
  fields.add(outcome.remedy);
  fields.add(outcome.rss);
  fields.add(outcome.file_size);
  fields.add(outcome.pause_ns);
  fields.add(outcome.allocator);
  fields.add(outcome.has_heap ? 1 : 0);
  return fields.take();
}

class FieldReader {
 public:
  explicit FieldReader(std::string_view text) : text_(text) {}

  std::string text() {
    const size_t end = text_.find('\0');
    if (end == std::string_view::npos) {
      is_whole_ = false;
      return {};
    }
    std::string field(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return field;
  }
  uint64_t number() {
    const std::string field = text();
    uint64_t value = 0;
    std::from_chars(field.data(), field.data() + field.size(), value);
    return value;
  }
  bool is_whole() const { return is_whole_; }

 private:
  std::string_view text_;
  bool is_whole_ = true;
};

void set_error(CaptureOutcome& outcome, const Error& error) {
  outcome.exit_code = error.exit_code();
  outcome.what = error.subject();
  outcome.why = error.why();
  outcome.remedy = error.remedy();
}

CaptureOutcome decode(const std::string& text) {
  FieldReader fields(text);
  CaptureOutcome outcome;
  outcome.exit_code = static_cast<int>(fields.number());
  outcome.what = fields.text();
  outcome.why = fields.text();
  outcome.remedy = fields.text();
  outcome.rss = fields.number();
  outcome.file_size = fields.number();
  outcome.pause_ns = fields.number();
  outcome.allocator = fields.text();
  outcome.has_heap = fields.number() != 0;
  if (!fields.is_whole()) {
    set_error(outcome, Error(ErrorKind::kInternal, "the snapshot's process said nothing",
                             "its words were cut off"));
  }
  return outcome;
}

CaptureOutcome failure(const std::exception& exception) {
  CaptureOutcome outcome;
  if (const auto* const error = dynamic_cast<const Error*>(&exception)) {
    set_error(outcome, explained(*error));
  } else {
    set_error(outcome, Error(ErrorKind::kInternal, "internal error", exception.what()));
  }
  return outcome;
}

CaptureOutcome capture(const CaptureOrder& order) {
  const ProcFs proc;
  const TargetLock lock(proc, order.pid, kLockPatience);
  if (proc.stat(order.pid).start_time_ticks != order.start_time_ticks) {
    throw Error(ErrorKind::kNoProcess, "cannot collect process " + std::to_string(order.pid),
                "it has ended, and its pid is another process's now");
  }
  CaptureOptions options;
  options.output.path = order.path;
  options.output.folder = order.folder;
  options.collected_place = order.place;
  options.references.choice = order.references;
  const CaptureResult result = capture_process(order.pid, FreezeOptions{}, options);
  CaptureOutcome outcome;
  outcome.rss = result.metadata.process.rss;
  outcome.file_size = result.file_size;
  outcome.pause_ns = result.metadata.freeze.pause_ns;
  outcome.allocator = result.metadata.heap.foreign_allocator;
  outcome.has_heap =
      !result.metadata.heap.instances.empty() && !(result.metadata.heap.foreign_answers_malloc);
  return outcome;
}

}  // namespace

CaptureOutcome capture_within(const CaptureOrder& order) {
  const WorkResult done = do_bounded(
      [&] {
        try {
          order.in_child();
          return encode(capture(order));
        } catch (const Error& error) {
          return encode(failure(error));
        } catch (const std::bad_alloc& error) {
          return encode(failure(error));
        }
      },
      [](const std::exception& error) { return encode(failure(error)); }, order.bounds);
  CaptureOutcome outcome = done.end == WorkEnd::kDone ? decode(done.said) : CaptureOutcome{};
  outcome.end = done.end;
  outcome.signal = done.signal;
  outcome.late_signal = done.late_signal;
  return outcome;
}

}  // namespace heapsnap
