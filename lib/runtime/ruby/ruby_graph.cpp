#include "runtime/ruby/ruby_graph.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "heap/struct_bytes.h"
#include "references/block_type.h"
#include "runtime/ruby/ruby_objects.h"
#include "runtime/ruby/ruby_words.h"

namespace heapsnap {

namespace {

constexpr uint64_t kCachedValue = 8;  // iseq_inline_constant_cache_entry
// rb_callcache
constexpr uint64_t kCachedClass = 8;
constexpr uint64_t kCachedMethod = 16;

constexpr uint64_t kStringBytes = 24;
constexpr uint64_t kIo = 16;  // RFile::fptr
constexpr uint64_t kHashTable = RubyValue::user_flag(3);
constexpr uint64_t kItemsInSlot = RubyValue::user_flag(1);  // of arrays and objects
constexpr uint64_t kArrayItems = 32;

}  // namespace

RubyGraph::RubyGraph(MemoryReader& memory, const RubyLayout& layout, const RubyTypes& types,
                     const RubyShapes& shapes, RuntimeObjects& objects)
    : memory_(memory),
      layout_(layout),
      types_(types),
      shapes_(shapes),
      objects_(objects),
      closures_(objects),
      array_items_(objects.add_buffer_kind("Array items", true)),
      struct_members_(objects.add_buffer_kind("Struct members", true)),
      object_variables_(objects.add_buffer_kind("Object variables", true)),
      class_data_(objects.add_buffer_kind("Class data", false)),
      code_(objects.add_buffer_kind("method code", false)),
      class_tables_(memory, layout, objects),
      code_tables_(memory, layout, objects),
      io_buffers_(memory, layout, objects) {}

void RubyGraph::add_page(const RubyPage& page, uint64_t page_bytes) {
  objects_.slots.add_page({page.body, page.body + page_bytes}, page.body + page.start,
                          page.slot_bytes, page.slots);
}

void RubyGraph::add_object(uint32_t index, Address at, const RubyOwner& owner,
                           std::span<const std::byte> slot, bool is_dead) {
  constexpr size_t kMostModules = 1 << 18;
  const RubyType builtin = types_.all()[owner.type].builtin;
  const bool is_module = builtin == RubyType::kClass || builtin == RubyType::kModule;
  if (is_module && modules_.size() < kMostModules) modules_.push_back(at.value());
  const bool has_list = is_module || builtin == RubyType::kIclass;
  if (has_list && ancestors_.size() < kMostModules) ancestors_.push_back(at.value());
  const RubyBuffer buffer = ruby_buffer(slot, layout_, shapes_);
  const Kind kind{ruby_words_to_skip(slot, layout_, shapes_),
                  owner.of_class != nullptr ? owner.of_class->number + 1 : 0, owner.type, buffer.by,
                  is_dead};
  Recent& recent = recent_[KindHash()(kind) % recent_.size()];
  if (recent.number == SlotMap::kBuffers || recent.kind != kind) {
    uint32_t& known = classes_[kind];
    if (known == SlotMap::kBuffers) known = make_class(owner, kind);
    recent = {kind, known};
  }
  objects_.slots.add_slot(index, recent.number);
  if (builtin == RubyType::kString) add_string_bytes(slot);
  if (builtin == RubyType::kBignum) add_digits(slot);
  if (builtin == RubyType::kHash) add_hash_pairs(slot);
  if (builtin == RubyType::kFile) io_buffers_.add_of(Address(StructBytes(slot, 8).word_at(kIo)));
  if (builtin == RubyType::kImemo) add_imemo(types_.all()[owner.type].part, slot);
  add_buffer_end(buffer);
  if (!transient_.is_empty()) add_transient(at, slot);
  if (builtin == RubyType::kData && !is_dead) add_data(types_.all()[owner.type], at, slot);
}

void RubyGraph::set_transient_heap(AddressRange arena) {
  if (arena.is_empty()) return;
  transient_ = arena;
  // What lies there is their objects'; the rest of it is left over.
  objects_.unused.push_back(arena);
  objects_.left_over.push_back({arena.begin, 0, arena.size()});
}

void RubyGraph::add_transient(Address at, std::span<const std::byte> slot) {
  constexpr uint64_t kArray = RubyValue::user_flag(13);
  constexpr uint64_t kObject = RubyValue::user_flag(13);
  constexpr uint64_t kHash = RubyValue::user_flag(12);
  constexpr uint64_t kStruct = RubyValue::user_flag(3);
  constexpr uint64_t kLength = 16;
  constexpr uint64_t kSecond = 24;
  constexpr uint64_t kLongest = 2048;  // TRANSIENT_HEAP_ALLOC_MAX
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  uint64_t first = 0;
  uint64_t count = 0;
  switch (RubyValue::type_of(flags)) {
    case RubyType::kArray:
      if ((flags & kItemsInSlot) != 0 || (flags & kArray) == 0) return;
      first = words.word_at(kArrayItems);
      count = words.word_at(kLength);
      break;
    case RubyType::kObject:
      if ((flags & kItemsInSlot) != 0 || (flags & kObject) == 0) return;
      first = words.word_at(kSecond);
      count = words.int_at(layout_.object_count);
      break;
    case RubyType::kHash:
      if ((flags & kHashTable) != 0 || (flags & kHash) == 0) return;
      first = words.word_at(layout_.hash_table);
      count = 2 * ruby_pairs_of_hash(flags);
      break;
    case RubyType::kStruct:
      if ((flags & layout_.struct_length_mask) != 0 || (flags & kStruct) == 0) return;
      first = words.word_at(kSecond);
      count = words.word_at(kLength);
      break;
    default: return;
  }
  const Address begin(first);
  if (count == 0 || count > kLongest / 8 || !transient_.contains(begin) || !begin.is_aligned(8) ||
      transient_.end - begin < count * 8) {
    return;
  }
  objects_.apart.push_back(
      {begin, static_cast<uint32_t>(count * 8), static_cast<uint32_t>(slot.size() / 8), at});
}

void RubyGraph::add_data(const RubyTypes::Type& type, Address at, std::span<const std::byte> slot) {
  constexpr size_t kMost = 1 << 18;
  constexpr uint64_t kNotInSlot = 1;
  constexpr uint64_t kInSlot = 3;
  const StructBytes words(slot, 8);
  const uint64_t typed = words.word_at(RubyValue::kDataTyped);
  const uint64_t data = typed == kInSlot ? (at + RubyValue::kDataPointer).value()
                                         : words.word_at(RubyValue::kDataPointer);
  const bool is_weak_map = type.part == "weakmap" || type.part == "weakkeymap";
  if (is_weak_map && data != 0 && weak_maps_.size() < kMost) weak_maps_.push_back(data);
  if (data == 0 || typed != kNotInSlot) return;
  closures_.add_data(type.part, Address(data));
  if (type.part == "VM/thread" && threads_.size() < kMost) threads_.push_back(data);
  if (type.part == "fiber" && fibers_.size() < kMost) fibers_.push_back(data);
}

void RubyGraph::add_block(uint64_t at, uint32_t& of_class, const char* name, uint64_t skip,
                          bool is_exact, ObjectClass::Rows rows) {
  if (at == 0) return;
  objects_.add_block(Address(at), of_class, [&] {
    ObjectClass made;
    made.name = name;
    made.skip = skip;
    made.is_exact = is_exact;
    made.rows = rows;
    return made;
  });
}

void RubyGraph::add_buffer_end(const RubyBuffer& buffer) {
  constexpr uint64_t kMostWords = uint64_t{1} << 40;
  constexpr size_t kMostLarge = 1 << 22;
  constexpr uint64_t kSmall = 62;  // RuntimeObjects::add_buffer() can say it in less memory
  if (buffer.at.is_null() || buffer.words > kMostWords) return;
  if (buffer.words <= kSmall) {
    objects_.add_buffer(buffer.at, ObjectClass::words_from(buffer.words));
  } else if (objects_.left_over.size() < kMostLarge) {
    objects_.left_over.push_back({buffer.at, buffer.words * 8});
  }
}

void RubyGraph::add_hash_pairs(std::span<const std::byte> slot) {
  constexpr uint64_t kTableInSlot = 24;
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  if (layout_.hash_table == RubyLayout::kNone) {
    const bool has_table =
        (flags & kHashTable) != 0 && slot.size() >= kTableInSlot + kRubyTableHeader;
    if (has_table) add_table_parts(slot.subspan(kTableInSlot, kRubyTableHeader));
    return;
  }
  if ((flags & kHashTable) != 0) return;
  const uint64_t pairs = ruby_pairs_of_hash(flags);
  add_block(words.word_at(layout_.hash_table), hash_pairs_[pairs], "Hash pairs",
            ObjectClass::words_from(2 * pairs));
}

void RubyGraph::add_table(Address table, std::span<const std::byte> header) {
  add_block(table.value(), table_, "Hash table",
            ObjectClass::words_from(kRubyTableHeader / sizeof(uint64_t)), true);
  add_table_parts(header);
}

void RubyGraph::add_machine(const AddressSpace& space, Address vm) {
  const Mapping* const mapping = space.find(vm);
  // In a module, it is no block that could hold the others.
  if (mapping == nullptr || mapping->path.starts_with('/')) return;
  // Each thread begins with its place in a list of them.
  constexpr uint64_t kInList = 3;
  const auto add = [this](Address at, const char* name, uint64_t skip) {
    ObjectClass made;
    made.name = name;
    made.skip = skip;
    made.is_held_from_outside = true;
    objects_.blocks.push_back({at, objects_.slots.add_class(std::move(made))});
  };
  add(vm, "rb_vm_t", 0);
  uint32_t behind = 1 << 20;  // words of the state
  uint64_t first_thread = 0;
  Address at = vm;
  struct Step {
    uint32_t offset;
    const char* name;
    uint64_t skip;
  };
  if (layout_.vm_ractor != RubyLayout::kNone) {
    for (const Step& step : {Step{layout_.vm_ractor, "rb_ractor_t", 0},
                             Step{layout_.ractor_main, "rb_thread_t", kInList},
                             Step{layout_.thread_root_fiber, "rb_fiber_t", 0}}) {
      at = Address(memory_.read_value<uint64_t>(at + step.offset).value_or(0));
      if (!RubyValue::is_object(at.value())) break;
      add(at, step.name, step.skip);
      objects_.listed.push_back({vm, at, behind++});
      if (step.skip == kInList) first_thread = at.value();
    }
  }
  for (const uint64_t thread : threads_) {
    if (thread == first_thread) continue;
    add_block(thread, thread_, "rb_thread_t", kInList);
    objects_.listed.push_back({vm, Address(thread), behind++});
  }
}

// What is behind their last entries, or deleted, would lead to whatever was there before.
void RubyGraph::add_tables_of_machine(const AddressSpace& space, Address vm,
                                      const std::string& module) {
  constexpr uint64_t kMostOfMachine = 16 << 10;
  std::vector<std::byte> bytes(kMostOfMachine);
  bytes.resize(memory_.read(vm, bytes));
  const StructBytes machine(bytes, 8);
  std::array<std::byte, kRubyTableHeader> header;
  for (size_t offset = 0; offset + 8 <= bytes.size(); offset += 8) {
    const uint64_t at = machine.word_at(offset);
    if (!RubyValue::is_object(at) || !memory_.read_exact(Address(at), header)) continue;
    // A table leads to the functions that compare its keys.
    const StructBytes table(header, 8);
    const Mapping* const mapping = space.find(Address(table.word_at(RubyTable::kType)));
    const bool is_table = mapping != nullptr && mapping->path == module &&
                          ruby_table_bytes(header) > kRubyTableHeader;
    if (!is_table) continue;
    add_table(Address(at), header);
    if (has_interned(table))
      objects_.left_over.push_back({Address(table.word_at(RubyTable::kEntries))});
  }
}

// Whether a table is that of interned strings (frozen_strings): each of them leads to itself. It
// does not keep them alive, and every frozen literal and every String that is the key of a Hash is
// in it.
bool RubyGraph::has_interned(const StructBytes& table) const {
  constexpr uint64_t kLookedAt = 256;
  constexpr uint64_t kInterned = RubyValue::user_flag(17);  // RSTRING_FSTR
  const uint64_t first = table.word_at(RubyTable::kFirst);
  const uint64_t bound = table.word_at(RubyTable::kBound);
  if (first >= bound) return false;
  std::vector<std::byte> bytes(std::min(bound - first, kLookedAt) * RubyTable::kEntry);
  const Address entries = Address(table.word_at(RubyTable::kEntries)) + first * RubyTable::kEntry;
  bytes.resize(memory_.read(entries, bytes) / RubyTable::kEntry * RubyTable::kEntry);
  const StructBytes words(bytes, 8);
  bool has_any = false;
  for (uint64_t at = 0; at < bytes.size(); at += RubyTable::kEntry) {
    if (words.word_at(at) == RubyTable::kDeleted) continue;
    const uint64_t key = words.word_at(at + 8);
    if (!RubyValue::is_object(key) || words.word_at(at + 16) != key) return false;
    const auto flags = memory_.read_value<uint64_t>(Address(key));
    if (!flags || RubyValue::type_of(*flags) != RubyType::kString || (*flags & kInterned) == 0) {
      return false;
    }
    has_any = true;
  }
  return has_any;
}

void RubyGraph::add_table_parts(std::span<const std::byte> header) {
  constexpr uint64_t kMostEntries = uint64_t{1} << 32;
  constexpr unsigned kMostPower = 32;
  const StructBytes words(header, 8);
  const unsigned power = words.int_at(0) & 0xff;
  const uint64_t first = words.word_at(RubyTable::kFirst);
  const uint64_t bound = words.word_at(RubyTable::kBound);
  const uint64_t entries = words.word_at(RubyTable::kEntries);
  add_block(words.word_at(RubyTable::kBins), table_bins_, "Hash bins", ObjectClass::kNoReferences);
  if (entries == 0) return;
  if (power > kMostPower || bound > std::min(uint64_t{1} << power, kMostEntries) || first > bound) {
    add_block(entries, table_entries_, "Hash entries", 0, true);
    return;
  }
  if (bound < table_entries_of_.size()) {
    // Small ones are a class each, by how much of them is in use.
    uint64_t skip = ObjectClass::words_from(bound * RubyTable::kEntryWords);
    for (uint64_t i = 0; i < bound; ++i) skip |= uint64_t{1} << i * RubyTable::kEntryWords;
    add_block(entries, table_entries_of_[bound], "Hash entries", skip, true);
  } else {
    add_block(entries, table_rows_, "Hash entries", 0, true, {0, RubyTable::kEntryWords, 0});
    add_left_over(Address(entries), bound, RuntimeObjects::LeftOver::kToEnd);
  }
  if (words.word_at(RubyTable::kCount) < bound) add_deleted(Address(entries), first, bound);
}

// Entries of a hash from `from` to before `to`.
void RubyGraph::add_left_over(Address entries, uint64_t from, uint64_t to) {
  constexpr size_t kMost = 1 << 22;
  if (objects_.left_over.size() >= kMost) return;
  const uint64_t end = to == RuntimeObjects::LeftOver::kToEnd ? to : to * RubyTable::kEntry;
  objects_.left_over.push_back({entries, from * RubyTable::kEntry, end});
}

// A deleted entry has another hash, and its key and value are still there.
void RubyGraph::add_deleted(Address entries, uint64_t first, uint64_t bound) {
  constexpr uint64_t kTogether = 1 << 15;
  if (first != 0) add_left_over(entries, 0, first);
  uint64_t begin = bound;  // of deleted ones that follow each other; bound: there are none
  uint64_t at = first;
  std::vector<std::byte> bytes;
  while (at < bound) {
    bytes.resize(std::min(kTogether, bound - at) * RubyTable::kEntry);
    if (bytes.size() > budget_) break;
    budget_ -= bytes.size();
    const uint64_t count =
        memory_.read(entries + at * RubyTable::kEntry, bytes) / RubyTable::kEntry;
    const StructBytes read(bytes, 8);
    for (uint64_t i = 0; i < count; ++i) {
      const bool is_deleted = read.word_at(i * RubyTable::kEntry) == RubyTable::kDeleted;
      if (is_deleted && begin == bound) begin = at + i;
      if (is_deleted || begin == bound) continue;
      add_left_over(entries, begin, at + i);
      begin = bound;
    }
    at += count;
    if (count * RubyTable::kEntry < bytes.size()) break;
  }
  if (begin < at) add_left_over(entries, begin, at);
}

void RubyGraph::add_string_bytes(std::span<const std::byte> slot) {
  constexpr uint64_t kElsewhere = RubyValue::user_flag(1);
  const StructBytes words(slot, 8);
  const uint64_t flags = words.word_at(0);
  if ((flags & (kElsewhere | layout_.flag_shared)) != kElsewhere) return;
  add_block(words.word_at(kStringBytes), string_bytes_, "String bytes", ObjectClass::kNoReferences);
}

void RubyGraph::add_digits(std::span<const std::byte> slot) {
  constexpr uint64_t kInSlot = RubyValue::user_flag(2);
  constexpr uint64_t kDigits = 24;
  const StructBytes words(slot, 8);
  if ((words.word_at(0) & kInSlot) != 0) return;
  add_block(words.word_at(kDigits), digits_, "Integer digits", ObjectClass::kNoReferences);
}

void RubyGraph::add_imemo(const std::string& part, std::span<const std::byte> slot) {
  if (part == "env") closures_.add_environment(slot);
  if (part == "ment") add_definition(slot);
  if (part == "iseq") {
    code_tables_.add_of(Address(StructBytes(slot, 8).word_at(layout_.iseq_body)));
  }
}

// Two words that depend on the kind of the method, between flags and numbers. Of a method that
// define_method has made there is also its ractor, which leads to all of the interpreter.
void RubyGraph::add_definition(std::span<const std::byte> slot) {
  constexpr uint64_t kDefinition = 16;  // rb_method_entry_t
  constexpr uint64_t kSkip = ObjectClass::word_bit(0) | ObjectClass::words_from(3);
  const uint64_t at = StructBytes(slot, 8).word_at(kDefinition);
  add_block(at, definition_, "method definition", kSkip, true);
}

uint8_t RubyGraph::buffer_kind(RubyType builtin) const {
  switch (builtin) {
    case RubyType::kArray: return array_items_;
    case RubyType::kStruct: return struct_members_;
    default: return object_variables_;
  }
}

uint32_t RubyGraph::make_class(const RubyOwner& owner, const Kind& kind) {
  const RubyTypes::Type& type = types_.all()[owner.type];
  ObjectClass made;
  made.name = owner.of_class != nullptr ? owner.of_class->name : types_.internal_name(owner.type);
  if (kind.is_dead) {
    made.name += " (unswept)";
  } else {
    made.builtin = RubyValue::type_name(type.builtin);
    made.part = type.part;
    made.is_exact = true;
  }
  made.skip = kind.skip;
  if (kind.buffer_by != 0) made.buffers.push_back({kind.buffer_by, buffer_kind(type.builtin)});
  const bool is_module = type.builtin == RubyType::kClass || type.builtin == RubyType::kModule;
  if (is_module && layout_.class_extension != RubyLayout::kNone) {
    made.buffers.push_back({layout_.class_extension / 8, class_data_});
  }
  if (type.part == "iseq") made.buffers.push_back({layout_.iseq_body / 8, code_});
  if (type.part == "constcache") made.skip |= ObjectClass::word_bit(kCachedValue);
  if (type.part == "callcache") {
    made.skip |= ObjectClass::word_bit(kCachedClass) | ObjectClass::word_bit(kCachedMethod);
  }
  return objects_.slots.add_class(std::move(made));
}

void RubyGraph::add_variables(RubyConstants& constants, RubyVariables& variables) {
  for (const uint64_t module : modules_) {
    constants.add_variables(module, objects_);
    variables.add_of_class(module, objects_);
  }
  variables.add_globals(objects_);
  for (const uint64_t ancestor : ancestors_) class_tables_.add_of(ancestor);
}

void RubyGraph::add_locals(RubyFrames& frames, const std::string& module) {
  for (RubyLocal& local : frames.take_locals()) {
    objects_.variables.push_back(
        {local.word, std::move(local.name), module, RootKind::kLocal, local.tid, local.function});
  }
  const std::vector<AddressRange>& left_over = frames.left_over();
  objects_.unused.insert(objects_.unused.end(), left_over.begin(), left_over.end());
  for (const AddressRange& range : left_over) {
    objects_.left_over.push_back({range.begin, 0, range.size()});
  }
}

}  // namespace heapsnap
