#include "runtime/ruby/ruby_fiber_locals.h"

#include <algorithm>
#include <utility>

#include "runtime/ruby/ruby_id_table.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

bool is_in_word(char one) {
  const auto byte = static_cast<unsigned char>(one);
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
         (byte >= '0' && byte <= '9') || byte == '_' || byte >= 0x80;
}

// A symbol as Ruby writes it: :rows, :"rows.all".
std::string symbol(const std::string& name) {
  const bool ends_in_mark = name.back() == '?' || name.back() == '!';
  const bool is_word = (name.front() < '0' || name.front() > '9') &&
                       std::all_of(name.begin(), name.end() - (ends_in_mark ? 1 : 0), is_in_word);
  return is_word ? ":" + name : ":\"" + name + '"';
}

}  // namespace

std::vector<RubyFiberLocal> RubyFiberLocals::of(Address context) {
  std::vector<RubyFiberLocal> found;
  const auto add = [&](uint64_t key, uint64_t value, Address word) {
    if (!RubyValue::is_object(value) || found.size() >= kMost) return;
    const auto name = constants_.name_of(key);
    // A space would look like the one in front of a function (local_name.h).
    const bool can_show = name && !name->empty() && RubyClasses::has_no_controls(*name) &&
                          name->find_first_of(" \"\\") == std::string::npos;
    if (can_show) found.push_back({word, value, "Thread.current[" + symbol(*name) + "]"});
  };
  const uint64_t table = cache_.word(context + layout_.ec_locals, 8).value_or(0);
  if (!layout_.has_id_table_of_locals()) {
    if (RubyValue::is_object(table)) {
      classes_.each_entry(Address(table), [&](uint64_t id, uint64_t value, Address word) {
        add(id >> RubyConstants::kScopeBits, value, word);
      });
    }
  } else if (const auto ids = RubyIdTable::at(cache_, table)) {
    ids->each([&](uint64_t key, Address value, Address word) {
      add(key, value.value(), word);
      return found.size() < kMost;
    });
  }
  if (layout_.ec_storage != RubyLayout::kNone) {
    const Address word = context + layout_.ec_storage;
    const uint64_t storage = cache_.word(word, 8).value_or(0);
    if (RubyValue::is_object(storage)) found.push_back({word, storage, "Fiber.current.storage"});
  }
  return found;
}

}  // namespace heapsnap
