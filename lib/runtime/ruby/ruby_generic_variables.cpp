#include "runtime/ruby/ruby_generic_variables.h"

#include <algorithm>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

constexpr uint64_t kHasVariables = 1 << 10;  // FL_EXIVAR
// In words: behind what the largest slot has, and an object in the transient heap.
constexpr uint32_t kBehindSlot = (640 + 2048) / 8;

// Others have their variables themselves.
bool may_have_some(uint64_t flags) {
  if ((flags & kHasVariables) == 0) return false;
  switch (RubyValue::type_of(flags)) {
    case RubyType::kNone:
    case RubyType::kObject:
    case RubyType::kClass:
    case RubyType::kModule:
    case RubyType::kImemo:
    case RubyType::kNode:
    case RubyType::kIclass:
    case RubyType::kZombie:
    case RubyType::kMoved: return false;
    default: return RubyValue::type_name(RubyValue::type_of(flags)) != nullptr;
  }
}

}  // namespace

RubyGenericVariables::RubyGenericVariables(Target& target, const RubyPlace& place,
                                           const RubyShapes& shapes, RubyGraph& graph,
                                           RuntimeObjects& objects)
    : target_(target),
      place_(place),
      shapes_(shapes),
      graph_(graph),
      objects_(objects),
      cache_(target.memory()) {}

std::vector<uint64_t> RubyGenericVariables::words_at(std::span<const Address> places) {
  std::vector<uint64_t> words(places.size());
  const auto bytes = std::as_writable_bytes(std::span(words));
  for (size_t done = 0; done < places.size();) {
    done += target_.memory().read_pieces(places.subspan(done), 8, bytes.subspan(done * 8));
    if (done < places.size()) words[done++] = 0;
  }
  return words;
}

std::vector<RubyGenericVariables::Entry> RubyGenericVariables::read(const RubyTable& table,
                                                                    uint64_t from, uint64_t to) {
  constexpr uint32_t kMostVariables = 1 << 20;
  std::vector<Entry> entries;
  std::vector<Address> keys;
  std::vector<Address> values;
  for (const RubyTable::Entry& one : table.read(target_.memory(), from, to)) {
    entries.push_back({one.key, one.value, 0, false, one.is_deleted()});
    keys.emplace_back(one.key);
    values.emplace_back(one.value);
  }
  const std::vector<uint64_t> flags = words_at(keys);
  const std::vector<uint64_t> words = words_at(values);
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.first_word = words[i];
    entry.has_table = shapes_.capacity(RubyValue::shape_of(flags[i])) == RubyShapes::kTable;
    const uint64_t count = entry.first_word & UINT32_MAX;
    const bool is_one = !entry.is_deleted && RubyValue::is_object(entry.object) &&
                        RubyValue::is_object(entry.variables) && may_have_some(flags[i]) &&
                        (entry.has_table ? RubyValue::is_object(entry.first_word)
                                         : count != 0 && count <= kMostVariables);
    if (!is_one) entry.object = 0;
  }
  return entries;
}

bool RubyGenericVariables::fits(const RubyTable& table) {
  constexpr uint64_t kLookedAt = 256;
  bool has_any = false;
  for (const Entry& entry :
       read(table, table.first, std::min(table.bound, table.first + kLookedAt))) {
    if (entry.is_deleted) continue;
    if (entry.object == 0) return false;
    has_any = true;
  }
  return has_any;
}

std::optional<RubyTable> RubyGenericVariables::find() {
  constexpr uint64_t kMostData = 256 << 20;
  unsigned tables_left = 1 << 12;  // of all words that may lead to one
  std::optional<RubyTable> found;
  for (const AddressRange& range : place_.data) {
    std::vector<std::byte> bytes(std::min(range.size(), kMostData));
    bytes.resize(target_.memory().read(range.begin, bytes));
    const StructBytes words(bytes, 8);
    for (size_t offset = 0; offset + 8 <= bytes.size(); offset += 8) {
      const std::optional<RubyTable> table = RubyTable::at(cache_, words.word_at(offset));
      if (!table || (found && table->count <= found->count)) continue;
      // A table leads to the functions that compare its keys.
      const Mapping* const mapping = target_.address_space().find(table->type);
      if (mapping == nullptr || mapping->path != place_.module) continue;
      if (tables_left-- == 0) return found;
      if (fits(*table)) found = table;
    }
  }
  return found;
}

void RubyGenericVariables::add_entry(const Entry& entry) {
  constexpr uint64_t kSmall = 62;  // RuntimeObjects::add_buffer() can say it in less memory
  const Address block(entry.variables);
  objects_.listed.push_back({Address(entry.object), block, kBehindSlot});
  const uint8_t kind = graph_.object_variables();
  if (entry.has_table) {
    objects_.add_buffer(block, ObjectClass::words_from(1), kind);
    std::array<std::byte, kRubyTableHeader> header;
    const Address table(entry.first_word);
    if (target_.memory().read_exact(table, header) && ruby_table_bytes(header) > kRubyTableHeader)
      graph_.add_table(table, header);
    return;
  }
  const uint64_t words = 1 + (entry.first_word & UINT32_MAX);
  const uint64_t count = ObjectClass::word_bit(0);
  if (words > kSmall) objects_.left_over.push_back({block, words * 8});
  objects_.add_buffer(block, words > kSmall ? count : count | ObjectClass::words_from(words), kind);
}

void RubyGenericVariables::add() {
  constexpr uint64_t kTogether = 1 << 14;
  constexpr uint64_t kMostEntries = 1 << 24;
  const std::optional<RubyTable> table = find();
  if (!table) return;
  graph_.add_table(table->place, table->header);
  size_t objects = 0;
  const uint64_t bound = std::min(table->bound, table->first + kMostEntries);
  for (uint64_t at = table->first; at < bound;) {
    const std::vector<Entry> entries = read(*table, at, std::min(bound, at + kTogether));
    // Of what is damaged the rest is not looked at.
    const auto is_damaged = [](const Entry& one) { return one.object == 0 && !one.is_deleted; };
    if (std::all_of(entries.begin(), entries.end(), is_damaged)) return;
    uint64_t begin = at;  // of those that follow each other and fit
    const auto close = [&](uint64_t end) {
      if (begin < end)
        objects_.left_over.push_back(
            {table->entries, begin * RubyTable::kEntry, end * RubyTable::kEntry});
      begin = end + 1;
    };
    for (const Entry& entry : entries) {
      if (entry.object == 0) {
        close(at);
      } else {
        if (objects++ == kMostObjects) return close(at);
        add_entry(entry);
      }
      ++at;
    }
    close(at);
  }
}

}  // namespace heapsnap
