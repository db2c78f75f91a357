// C functions that a thread of the target calls one after the other, without help from outside: the
// arguments of a call are words that earlier calls may have written.
//
//   0: dlopen(path, RTLD_NOW)          zero -> 2
//   1: dlsym(result of 0, "start")     end
//   2: dlerror()
//   3: copy_text(text, result of 2)
//
// A list is built here and encoded into the words that the code of injected_code.h walks; both
// sides are described there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace heapsnap {

class CallList {
 public:
  using Step = size_t;
  using Data = size_t;
  static constexpr Step kEnd = SIZE_MAX;
  static constexpr size_t kMostArguments = 4;

  struct Value {
    enum class Kind : uint8_t { kNumber, kResult, kData, kAttachment, kCopyText, kRename };
    Kind kind = Kind::kNumber;
    uint64_t number = 0;
  };
  static Value number(uint64_t value) { return {Value::Kind::kNumber, value}; }
  static Value address(Address value) { return number(value.value()); }
  static Value result_of(Step step) { return {Value::Kind::kResult, step}; }
  static Value address_of(Data data) { return {Value::Kind::kData, data}; }
  // The bytes that are written into the target along with the list.
  static Value attachment() { return {Value::Kind::kAttachment, 0}; }
  // Functions that come with the list, not from libc:
  // copy_text(to, from, size) copies until the NUL, at most `size` bytes.
  static Value copy_text() { return {Value::Kind::kCopyText, 0}; }
  // rename(library, name) overwrites the loader's name for a handle of dlopen with `name`, up to
  // the length of the old one.
  static Value rename() { return {Value::Kind::kRename, 0}; }

  Data put(std::span<const std::byte> bytes);
  Data put_text(std::string_view text);  // NUL-terminated
  Data reserve(size_t size);

  // A call that follows the one added before. A function whose address is 0 at run time is not
  // called; its result is 0.
  Step call(Value function, std::span<const Value> arguments);
  Step call(Value function, std::initializer_list<Value> arguments) {
    return call(function, std::span(arguments.begin(), arguments.size()));
  }
  // The step to continue with instead of the next: always, or if all 64 bits of the result are 0.
  void go_on(Step from, Step to);
  void go_on_if_zero(Step from, Step to);

  // Where the words of the list are, and what only the caller of encode() knows.
  struct Place {
    Address begin;
    Address copy_text;
    Address rename;
    Address attachment;
  };
  std::vector<std::byte> encode(const Place& place) const;
  size_t size() const;
  size_t step_count() const { return steps_.size(); }
  Address result_at(const Place& place, Step step) const;
  Address data_at(const Place& place, Data data) const;
  size_t data_count() const { return data_sizes_.size(); }
  size_t data_size(Data data) const { return data_sizes_[data]; }

 private:
  struct Entry {
    Value function;
    std::array<Value, kMostArguments> arguments;
    Step next = kEnd;
    Step next_if_zero = kEnd;
  };
  uint64_t address_of_step(const Place& place, Step step) const;
  uint64_t word_for(const Place& place, const Value& value, uint64_t own_word,
                    uint64_t& own_value) const;

  std::vector<Entry> steps_;
  std::vector<std::byte> data_;
  std::vector<size_t> data_begins_;
  std::vector<size_t> data_sizes_;
};

}  // namespace heapsnap
