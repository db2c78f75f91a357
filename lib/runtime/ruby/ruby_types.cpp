#include "runtime/ruby/ruby_types.h"

#include <algorithm>
#include <array>

#include "heap/struct_bytes.h"

namespace heapsnap {

RubyTypes::RubyTypes(Target& target) : cache_(target.memory()) {
  for (unsigned i = 0; i < RubyValue::kTypes; ++i) all_.push_back({static_cast<RubyType>(i), {}});
  for (unsigned kind = 0; kind < kImemoKinds; ++kind) {
    const char* const name = RubyValue::imemo_name(kind);
    all_.push_back({RubyType::kImemo, name == nullptr ? "" : name});
  }
}

std::string RubyTypes::internal_name(size_t number) const {
  const Type& type = all_[number];
  const std::string name = RubyValue::type_name(type.builtin);
  return "(internal) " + (type.part.empty() ? name : name + " " + type.part);
}

std::string RubyTypes::name_of(Address type) {
  constexpr size_t kLongest = 128;
  const auto place = cache_.word(type, 8);  // wrap_struct_name
  if (!place || *place == 0) return {};
  std::array<char, kLongest> text;
  const size_t got = cache_.read(Address(*place), std::as_writable_bytes(std::span(text)));
  const auto end =
      std::find_if(text.begin(), text.begin() + got, [](char c) { return c < ' ' || c > '~'; });
  if (end == text.begin() + got || *end != '\0') return {};
  return {text.begin(), end};
}

bool RubyTypes::frees_data(std::span<const std::byte> slot) {
  constexpr uint64_t kTyped = 1;
  constexpr uint64_t kFlags = 3;
  constexpr uint64_t kFree = 16;  // rb_data_type_t: wrap_struct_name, dmark, dfree
  const StructBytes words(slot, 8);
  const uint64_t typed = words.word_at(RubyValue::kDataTyped);
  if ((typed & kTyped) == 0 || typed > kFlags) return typed != 0;
  const Address type(words.word_at(RubyValue::kDataType));
  return cache_.word(type + kFree, 8).value_or(0) != 0;
}

uint32_t RubyTypes::find_data(std::span<const std::byte> slot) {
  constexpr auto kNameless = static_cast<uint32_t>(RubyType::kData);
  constexpr uint64_t kTyped = 1;  // and 2: its data is in the slot; else a function that frees it
  constexpr uint64_t kFlags = 3;
  const StructBytes words(slot, 8);
  const uint64_t typed = words.word_at(RubyValue::kDataTyped);
  if ((typed & kTyped) == 0 || typed > kFlags) return kNameless;
  const uint64_t type = words.word_at(RubyValue::kDataType);
  const auto known = known_.find(type);
  if (known != known_.end()) return known->second;
  if (known_.size() >= kMostTypes) return kNameless;
  std::string name = name_of(Address(type));
  uint32_t number = kNameless;
  if (!name.empty()) {
    number = by_name_.try_emplace(name, static_cast<uint32_t>(all_.size())).first->second;
    if (number == all_.size()) all_.push_back({RubyType::kData, std::move(name)});
  }
  known_[type] = number;
  return number;
}

}  // namespace heapsnap
