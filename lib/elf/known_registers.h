// What a stretch of code has put into registers, as far as reading it from top to bottom tells.
//
// Forward jumps carry the values to where they lead; code that nothing so far leads to (after a
// return, a case of a switch) starts from a fallback. Values known on one way only are dropped.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

namespace heapsnap {

class KnownRegisters {
 public:
  static constexpr unsigned kCount = 32;

  std::optional<uint64_t> value(unsigned number) const {
    if (number >= kCount || (known_ >> number & 1) == 0) return std::nullopt;
    return values_[number];
  }
  void set(unsigned number, uint64_t value) {
    if (number >= kCount) return;
    values_[number] = value;
    known_ |= uint32_t{1} << number;
  }
  void forget(unsigned number) {
    if (number < kCount) forget_mask(uint32_t{1} << number);
  }
  void forget_mask(uint32_t numbers) { known_ &= ~numbers; }
  void keep_common(const KnownRegisters& other) {
    for (unsigned i = 0; i < kCount; ++i) {
      if (value(i) != other.value(i)) forget(i);
    }
  }

 private:
  std::array<uint64_t, kCount> values_ = {};
  uint32_t known_ = 0;
};

class RegisterFlow {
 public:
  // At the start of each instruction, in order of address.
  void arrive(uint64_t address) {
    while (!pending_.empty() && pending_.begin()->first < address) pending_.erase(pending_.begin());
    const auto joining = pending_.find(address);
    if (!falls_through_) {
      registers = joining == pending_.end() ? fallback : joining->second;
    } else if (joining != pending_.end()) {
      registers.keep_common(joining->second);
    }
    falls_through_ = true;
  }
  // At a direct jump to `target`.
  void jump(uint64_t from, uint64_t target) {
    if (target <= from) return;
    const auto found = pending_.find(target);
    if (found != pending_.end()) {
      found->second.keep_common(registers);
    } else if (pending_.size() < kMostPending) {
      pending_.emplace(target, registers);
    }
  }
  // The instruction never goes on to the next one.
  void end() { falls_through_ = false; }

  KnownRegisters registers;
  KnownRegisters fallback;

 private:
  static constexpr size_t kMostPending = 1024;

  std::map<uint64_t, KnownRegisters> pending_;
  bool falls_through_ = true;
};

}  // namespace heapsnap
