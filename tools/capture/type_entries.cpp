#include "tools/capture/type_entries.h"

#include <algorithm>
#include <span>

namespace heapsnap {

namespace {

constexpr size_t kMostVtables = 1 << 20;

}  // namespace

void TypeEntries::begin_reading(Target& target, const BlockMap& map, const LoadedModules& modules,
                                const HeapModel& heap, const FileMemory& files) {
  target_ = &target;
  map_ = &map;
  modules_ = &modules;
  vtable_ranges_ = vtable_ranges(modules, target.address_space());
  for (const AddressRange& range : vtable_ranges_) first_words_.add_vtables(range);
  vtable_finder_.emplace(target, modules, types_);
  find_known_blocks(heap, files);
}

void TypeEntries::find_known_blocks(const HeapModel& heap, const FileMemory& files) {
  BlockMap::Hint hint;
  std::vector<KnownBlock> found = find_thread_blocks(*target_, *modules_, heap, types_);
  found.insert(found.end(), files.buffers.begin(), files.buffers.end());
  for (const KnownBlock& known : found) {
    const auto place = map_->find(known.block.value(), hint);
    if (place && place->offset == 0) known_blocks_.emplace_back(place->block, entry_of(known.type));
  }
}

TypeNumber TypeEntries::entry_of(TypeNumber type) {
  if (type == 0) return 0;
  const auto [place, is_new] =
      entry_of_type_.emplace(type, static_cast<TypeNumber>(entries_.size()));
  if (is_new) entries_.push_back({type});
  return place->second;
}

TypeNumber TypeEntries::entry_of_array(TypeNumber elements, unsigned elements_at) {
  const auto [place, is_new] = entry_of_array_.emplace(std::pair(elements, elements_at),
                                                       static_cast<TypeNumber>(entries_.size()));
  if (is_new) entries_.push_back({0, 0, elements, static_cast<uint8_t>(elements_at)});
  return place->second;
}

TypeNumber TypeEntries::entry_of_block(const FirstWord& first) {
  if (may_begin_structure(first.value)) {
    const BlockWord block{first.address, map_->usable(first.address), first.value};
    const auto type =
        find_structure_types(*target_, *modules_, std::span(&block, 1), types_).front();
    if (type != 0) return entry_of(type);
  }
  return entry_of_objects(first);
}

// One object, or several of one class in a row.
TypeNumber TypeEntries::entry_of_objects(const FirstWord& first) {
  const unsigned word = word_size(target_->process().machine);
  if (const TypeNumber entry = entry_of_vtable(first.value); entry != 0) {
    const uint64_t usable = map_->usable(first.address, usable_hint_);
    return is_row_of_objects(first.bytes, usable, word) ? entry_of_array(entry, 0) : entry;
  }
  const auto vptr = counted_vptr(first.value, first.bytes, word);
  if (!vptr) return 0;
  const TypeNumber entry = entry_of_vtable(*vptr);
  if (entry == 0) return 0;
  const uint64_t usable = map_->usable(first.address, usable_hint_);
  return is_counted_row_of_objects(first.bytes, usable, word) ? entry_of_array(entry, word) : 0;
}

TypeNumber TypeEntries::entry_in_modules(uint64_t word) {
  const auto after = std::upper_bound(
      vtable_ranges_.begin(), vtable_ranges_.end(), word,
      [](uint64_t value, const AddressRange& range) { return value < range.begin.value(); });
  if (after == vtable_ranges_.begin() || !std::prev(after)->contains(Address(word))) return 0;
  const auto seen = entry_of_word_.find(word);
  if (seen != entry_of_word_.end()) return seen->second;
  if (entry_of_word_.size() == kMostVtables) return 0;
  const VtableFinder::Answer answer = vtable_finder_->look_at(word);
  TypeNumber entry = entry_of(answer.type);
  if (answer.lacks_rtti) {
    vtables_.without_rtti.push_back(word);
    entry = static_cast<TypeNumber>(entries_.size());
    entries_.push_back({0, word, 0, 0});
  }
  entry_of_word_.emplace(word, entry);
  return entry;
}

std::vector<BlockType> TypeEntries::names(const DebugFileSearch& debug_files) {
  std::sort(vtables_.without_rtti.begin(), vtables_.without_rtti.end());
  name_by_symbols(vtables_, *modules_, debug_files, types_);
  std::unordered_map<uint64_t, TypeNumber> by_symbol;
  for (const VtableType& vtable : vtables_.known) by_symbol[vtable.first_word] = vtable.type;
  std::vector<BlockType> names;
  for (const Entry& entry : entries_) {
    if (entry.array_of != 0) {
      names.push_back(names[entry.array_of]);  // it comes after its elements
      if (!names.back().name.empty()) names.back().name += "[]";
      continue;
    }
    const TypeNumber type = entry.vtable == 0 ? entry.type : by_symbol[entry.vtable];
    names.push_back(types_.all()[type]);
  }
  return names;
}

std::vector<TypeNumber> TypeEntries::elements() const {
  std::vector<TypeNumber> elements;
  for (const Entry& entry : entries_) elements.push_back(entry.array_of);
  return elements;
}

std::vector<uint8_t> TypeEntries::elements_at() const {
  std::vector<uint8_t> elements_at;
  for (const Entry& entry : entries_) elements_at.push_back(entry.elements_at);
  return elements_at;
}

}  // namespace heapsnap
