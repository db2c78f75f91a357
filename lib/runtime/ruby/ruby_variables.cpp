#include "runtime/ruby/ruby_variables.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

// rb_global_entry, rb_global_variable: the same from 2.7 to 3.4.
constexpr uint64_t kEntryId = 8;
constexpr uint64_t kVariableValue = 8;

}  // namespace

RubyVariables::RubyVariables(Target& target, const RubyPlace& place, RubyClasses& classes,
                             RubyConstants& constants)
    : target_(target),
      place_(place),
      classes_(classes),
      constants_(constants),
      cache_(target.memory()) {}

std::optional<std::string> RubyVariables::name_of(uint64_t id) {
  auto name = constants_.name_of(id >> RubyConstants::kScopeBits);
  if (!name || name->size() < 2 || ((*name)[0] != '@' && (*name)[0] != '$')) return std::nullopt;
  return name;
}

void RubyVariables::add(Address word, std::string name, RuntimeObjects& objects) {
  const auto value = cache_.word(word, 8);
  // $LOAD_PATH and the like have the state of the interpreter there, and a function that looks.
  if (!value || !is_object_at(*value)) return;
  if (objects.variables.size() >= kMostVariables) return;
  objects.variables.push_back({word, std::move(name), place_.module});
}

bool RubyVariables::is_object_at(uint64_t value) {
  if (!RubyValue::is_object(value)) return false;
  const auto flags = cache_.word(Address(value), 8);
  const auto of_class = cache_.word(Address(value) + RubyValue::kClass, 8);
  return flags && of_class && RubyValue::type_name(RubyValue::type_of(*flags)) != nullptr &&
         classes_.find(*of_class) != nullptr;
}

bool RubyVariables::are_globals(const RubyIdTable& table) {
  constexpr unsigned kEnough = 8;
  unsigned good = 0;
  table.each([&](uint64_t key, Address entry, Address) {
    const auto id = cache_.word(entry + kEntryId, 8);
    const auto name = id && *id >> RubyConstants::kScopeBits == key ? name_of(*id) : std::nullopt;
    return name && (*name)[0] == '$' && ++good < kEnough;
  });
  return good == kEnough;
}

void RubyVariables::add_globals(RuntimeObjects& objects) {
  constexpr uint64_t kMostData = 256 << 20;
  uint64_t keys_left = 1 << 26;  // of all words that may lead to a table
  if (!constants_.has_names()) return;
  for (const AddressRange& range : place_.data) {
    std::vector<std::byte> bytes(std::min(range.size(), kMostData));
    bytes.resize(target_.memory().read(range.begin, bytes));
    const StructBytes words(bytes, 8);
    for (size_t offset = 0; offset + 8 <= bytes.size(); offset += 8) {
      const uint64_t at = words.word_at(offset);
      const auto table = RubyIdTable::at(cache_, at);
      if (!table) continue;
      if (table->capacity() > keys_left) return;
      keys_left -= table->capacity();
      if (!are_globals(*table)) continue;
      table->each([&](uint64_t, Address entry, Address) {
        const auto id = cache_.word(entry + kEntryId, 8);
        const auto variable = cache_.word(entry, 8);
        auto name = id ? name_of(*id) : std::nullopt;
        if (name && variable) add(Address(*variable) + kVariableValue, std::move(*name), objects);
        return true;
      });
      return;
    }
  }
}

void RubyVariables::add_of_class(uint64_t of_class, RuntimeObjects& objects) {
  if (!constants_.has_names() || entries_ == 0 || objects.variables.size() >= kMostVariables) {
    return;
  }
  classes_.each_variable(of_class, [&](uint64_t id, uint64_t, Address word) {
    if (entries_ == 0) return;
    --entries_;
    if (const auto name = name_of(id)) {
      add(word, classes_.name_of(of_class) + "." + *name, objects);
    }
  });
}

}  // namespace heapsnap
