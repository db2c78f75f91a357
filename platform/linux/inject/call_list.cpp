#include "platform/linux/inject/call_list.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "platform/linux/inject/injected_code.h"

namespace heapsnap {

namespace {

constexpr size_t kDataAlignment = 16;

std::byte* grow(std::vector<std::byte>& bytes, size_t size) {
  const size_t begin = bytes.size();
  bytes.resize(begin + (size + kDataAlignment - 1) / kDataAlignment * kDataAlignment);
  return bytes.data() + begin;
}

}  // namespace

CallList::Data CallList::put(std::span<const std::byte> bytes) {
  const Data data = reserve(bytes.size());
  std::copy(bytes.begin(), bytes.end(), data_.begin() + static_cast<ptrdiff_t>(data_begins_[data]));
  return data;
}

CallList::Data CallList::put_text(std::string_view text) {
  const Data data = reserve(text.size() + 1);
  std::memcpy(data_.data() + data_begins_[data], text.data(), text.size());
  return data;
}

CallList::Data CallList::reserve(size_t size) {
  data_begins_.push_back(data_.size());
  data_sizes_.push_back(size);
  grow(data_, size);
  return data_begins_.size() - 1;
}

CallList::Step CallList::call(Value function, std::span<const Value> arguments) {
  if (arguments.size() > kMostArguments) {
    throw Error(ErrorKind::kInternal, "call list", "a call has too many arguments");
  }
  Entry entry;
  entry.function = function;
  std::copy(arguments.begin(), arguments.end(), entry.arguments.begin());
  if (!steps_.empty()) go_on(steps_.size() - 1, steps_.size());
  steps_.push_back(entry);
  return steps_.size() - 1;
}

void CallList::go_on(Step from, Step to) {
  steps_[from].next = to;
  steps_[from].next_if_zero = to;
}

void CallList::go_on_if_zero(Step from, Step to) {
  steps_[from].next_if_zero = to;
}

size_t CallList::size() const {
  return steps_.size() * sizeof(CallStep) + data_.size();
}

uint64_t CallList::address_of_step(const Place& place, Step step) const {
  return step == kEnd ? 0 : place.begin.value() + step * sizeof(CallStep);
}

Address CallList::result_at(const Place& place, Step step) const {
  return Address(address_of_step(place, step) + offsetof(CallStep, result));
}

Address CallList::data_at(const Place& place, Data data) const {
  return place.begin + (steps_.size() * sizeof(CallStep) + data_begins_[data]);
}

// The address of the word that holds the value: one of the step's own, or another step's result.
uint64_t CallList::word_for(const Place& place, const Value& value, uint64_t own_word,
                            uint64_t& own_value) const {
  switch (value.kind) {
    case Value::Kind::kResult: return result_at(place, value.number).value();
    case Value::Kind::kNumber: own_value = value.number; break;
    case Value::Kind::kData: own_value = data_at(place, value.number).value(); break;
    case Value::Kind::kAttachment: own_value = place.attachment.value(); break;
    case Value::Kind::kCopyText: own_value = place.copy_text.value(); break;
    case Value::Kind::kRename: own_value = place.rename.value(); break;
  }
  return own_word;
}

std::vector<std::byte> CallList::encode(const Place& place) const {
  std::vector<std::byte> bytes(size());
  for (Step i = 0; i < steps_.size(); ++i) {
    const Entry& entry = steps_[i];
    const uint64_t at = address_of_step(place, i);
    CallStep step{};
    step.function =
        word_for(place, entry.function, at + offsetof(CallStep, own_function), step.own_function);
    for (size_t k = 0; k < kMostArguments; ++k) {
      step.arguments[k] = word_for(place, entry.arguments[k],
                                   at + offsetof(CallStep, own_arguments) + k * sizeof(uint64_t),
                                   step.own_arguments[k]);
    }
    step.next = address_of_step(place, entry.next);
    step.next_if_zero = address_of_step(place, entry.next_if_zero);
    std::memcpy(bytes.data() + i * sizeof step, &step, sizeof step);
  }
  std::copy(data_.begin(), data_.end(),
            bytes.begin() + static_cast<ptrdiff_t>(steps_.size() * sizeof(CallStep)));
  return bytes;
}

}  // namespace heapsnap
