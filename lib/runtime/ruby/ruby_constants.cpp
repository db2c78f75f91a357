#include "runtime/ruby/ruby_constants.h"

#include <algorithm>
#include <vector>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_id_table.h"
#include "runtime/ruby/ruby_words.h"

namespace heapsnap {

namespace {

// rb_const_entry_t, rb_symbols_t: the same from 2.7 to 3.4.
constexpr uint64_t kConstantValue = 8;
constexpr uint64_t kSymbolNames = 16;
constexpr uint64_t kNamesTogether = 512;  // ID_ENTRY_UNIT
constexpr uint64_t kNameWords = 2;        // ID_ENTRY_SIZE

}  // namespace

RubyConstants::RubyConstants(Target& target, const RubyLayout& layout, const RubyPlace& place,
                             RubyClasses& classes)
    : layout_(layout), place_(place), classes_(classes), cache_(target.memory()) {
  object_ = cache_.word(place_.object_class, 8).value_or(0);
  string_ = cache_.word(place_.string_class, 8).value_or(0);
  find_table();
  if (table_offset_ != RubyLayout::kNone) find_names(target);
}

// Object's own: where the constant String is among them.
void RubyConstants::find_table() {
  constexpr uint32_t kMostOfClass = 256;
  const bool is_apart = layout_.class_extension != RubyLayout::kNone;
  for (uint32_t offset = is_apart ? 0 : 16; offset < kMostOfClass; offset += 8) {
    table_offset_ = offset;
    const auto word = table_word(object_);
    const auto table = word ? RubyIdTable::at(cache_, *word) : std::nullopt;
    if (!table) continue;
    table->each([this](uint64_t key, Address entry, Address) {
      if (cache_.word(entry + kConstantValue, 8) == string_) string_key_ = key;
      return true;
    });
    if (string_key_ != 0) return;
  }
  table_offset_ = RubyLayout::kNone;
}

void RubyConstants::find_names(Target& target) {
  constexpr uint64_t kMostData = 256 << 20;
  constexpr uint64_t kMostNames = 1 << 26;
  for (const AddressRange& range : place_.data) {
    std::vector<std::byte> bytes(std::min(range.size(), kMostData));
    bytes.resize(target.memory().read(range.begin, bytes));
    const StructBytes words(bytes, 8);
    for (size_t offset = 0; offset + kSymbolNames + 8 <= bytes.size(); offset += 8) {
      last_name_ = words.int_at(offset);
      names_ = words.word_at(offset + kSymbolNames);
      if (last_name_ < string_key_ || last_name_ > kMostNames || !RubyValue::is_object(names_)) {
        continue;
      }
      if (name_of(string_key_) == "String") return;
    }
  }
  names_ = 0;
}

std::optional<uint64_t> RubyConstants::table_word(uint64_t of_class) {
  Address at(of_class);
  if (layout_.class_extension != RubyLayout::kNone) {
    const auto extension = cache_.word(at + layout_.class_extension, 8);
    if (!extension || *extension == 0) return std::nullopt;
    at = Address(*extension);
  }
  return cache_.word(at + table_offset_, 8);
}

std::optional<uint64_t> RubyConstants::element(uint64_t array, uint64_t index) {
  constexpr uint64_t kEmbedded = RubyValue::user_flag(1);
  if (!RubyValue::is_object(array)) return std::nullopt;
  const auto flags = cache_.word(Address(array), 8);
  if (!flags || RubyValue::type_of(*flags) != RubyType::kArray) return std::nullopt;
  if ((*flags & kEmbedded) != 0) {
    if (index >= ruby_items_in_slot(*flags, layout_)) return std::nullopt;
    return cache_.word(Address(array) + 16 + 8 * index, 8);
  }
  const auto length = cache_.word(Address(array) + 16, 8);
  const auto items = cache_.word(Address(array) + 32, 8);
  if (!length || !items || index >= *length) return std::nullopt;
  return cache_.word(Address(*items) + 8 * index, 8);
}

std::optional<std::string> RubyConstants::name_of(uint64_t key) {
  constexpr size_t kLongest = 200;
  if (key > last_name_) return std::nullopt;
  const auto some = element(names_, key / kNamesTogether);
  const auto name = some ? element(*some, key % kNamesTogether * kNameWords) : std::nullopt;
  return name ? classes_.text_of(*name, kLongest) : std::nullopt;
}

void RubyConstants::add_variables(uint64_t of_class, RuntimeObjects& objects) {
  if (names_ == 0) return;
  const auto word = table_word(of_class);
  const auto table = word ? RubyIdTable::at(cache_, *word) : std::nullopt;
  if (!table || table->capacity() > keys_) return;
  keys_ -= table->capacity();
  const std::string prefix = of_class == object_ ? "" : classes_.name_of(of_class) + "::";
  table->each([&](uint64_t key, Address entry, Address) {
    if (objects.variables.size() >= kMostVariables) return false;
    const auto value = cache_.word(entry + kConstantValue, 8);
    if (!value || !RubyValue::is_object(*value)) return true;
    const auto name = name_of(key);
    if (name) objects.variables.push_back({entry + kConstantValue, prefix + *name, place_.module});
    return true;
  });
}

}  // namespace heapsnap
