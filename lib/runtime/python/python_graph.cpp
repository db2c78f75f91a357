#include "runtime/python/python_graph.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include "references/block_type.h"

namespace heapsnap {

namespace {

using Family = PythonType::Family;

// PyModuleObject, PyWeakReference: the same since 3.9.
constexpr uint64_t kModuleDict = 16;
constexpr uint64_t kModuleName = 48;
constexpr uint64_t kWeakObject = 16;
constexpr uint64_t kWeakPrevious = 40;
constexpr uint64_t kWeakNext = 48;

// PyTypeObject: tp_doc, characters in a block of their own where it is a class of a program.
uint64_t docstring_at(const PythonLayout& layout) {
  return layout.type_flags + kPythonWord;
}

// Of the interpreter's own types without references: numbers and bytes.
bool is_plain(const PythonType& type) {
  if (type.header != 0) return false;
  if (type.is_long || (type.family == Family::kSized && type.item_size == 1)) return true;
  return type.is_static && (type.name == "float" || type.name == "complex");
}

// Of the interpreter's own types whose items are bytes or numbers. Those of a memoryview, sizes,
// are as large as a reference, and some are never set.
bool has_plain_items(const PythonType& type) {
  return type.is_own && type.item_size != 0 &&
         (type.item_size < kPythonWord || type.name == "memoryview");
}

// Whether all words of its instances are known: those of the interpreter's own types, those of
// classes of a program, whose fields begin as zeros, and those of other classes that have no fields
// but __dict__ and __weakref__. An extension's type may leave fields as they were. A structure of
// the library (time.struct_time) has more items than its size says.
bool is_known(const PythonType& type, bool is_frame) {
  constexpr uint64_t kBareObject = 4 * kPythonWord;
  if (type.family == Family::kHidden) return is_frame;
  if (type.item_size != 0 && !type.is_tuple) return has_plain_items(type);
  if (type.is_own || type.is_program || type.family == Family::kArray) return true;
  return !type.is_static && type.basic_size <= kBareObject;
}

// How many words of its block are the object's; 0: all.
uint8_t own_words(const PythonObject& object, uint64_t room, bool are_all_known) {
  const uint64_t words = (object.bytes + kPythonWord - 1) / kPythonWord;
  const bool is_less = words < room / kPythonWord && words < 64 && are_all_known;
  return is_less ? static_cast<uint8_t>(words) : uint8_t{0};
}

// The word of its list of weak references, for a mask.
uint64_t weak_list_of(const PythonType& type) {
  constexpr uint32_t kTold = 63 * kPythonWord;  // the last bit is for the rest
  return type.weak_list < kTold ? ObjectClass::word_bit(type.weak_list) : 0;
}

// Words of a PyTypeObject that are numbers: ob_size, tp_basicsize, tp_itemsize,
// tp_vectorcall_offset, tp_flags, tp_weaklistoffset, tp_dictoffset, tp_version_tag.
std::array<uint64_t, 8> numbers_of_type(const PythonLayout& layout) {
  return {2 * kPythonWord,
          layout.type_basic_size,
          layout.type_item_size,
          layout.type_item_size + 2 * kPythonWord,
          layout.type_flags,
          layout.type_flags + 5 * kPythonWord,
          layout.type_base + 4 * kPythonWord,
          layout.type_base + 16 * kPythonWord};
}

// Before values behind an instance: how many there are.
constexpr uint64_t kInlineHeader = kPythonWord;

}  // namespace

PythonGraph::PythonGraph(Target& target, const PythonLayout& layout, RuntimeObjects& objects)
    : layout_(layout),
      objects_(objects),
      cache_(target.memory()),
      list_items_(objects.add_buffer_kind("list items", true)),
      dict_keys_(objects.add_buffer_kind("dict keys", true)),
      dict_values_(objects.add_buffer_kind("dict values", true)),
      set_table_(objects.add_buffer_kind("set table", true)),
      instance_values_(objects.add_buffer_kind("instance attributes", true)),
      bytes_(objects.add_buffer_kind("bytearray bytes", false)),
      characters_(objects.add_buffer_kind("str characters", false)),
      array_data_(objects.add_buffer_kind("ndarray data", false)),
      array_shape_(objects.add_buffer_kind("ndarray shape", true)),
      docstring_(objects.add_buffer_kind("class docstring", true)),
      numbers_(objects.add_buffer_kind("array items", true)),
      deque_block_(objects.add_buffer_kind("deque block", true)),
      ordered_table_(objects.add_buffer_kind("OrderedDict table", true)),
      ordered_node_(objects.add_buffer_kind("OrderedDict node", true)),
      foreign_(objects.add_buffer_kind("ctypes data", false)),
      io_characters_(objects.add_buffer_kind("StringIO characters", true)),
      file_buffer_(objects.add_buffer_kind("file buffer", true)) {}

unsigned PythonGraph::kind_of(const PythonObject& object, Address at,
                              std::span<const std::byte> bytes) const {
  const PythonType& type = *object.type;
  if (object.is_frame) return kFrame;
  if (type.family == Family::kText) {
    // unicodeobject.h: see PythonObjects.
    const uint64_t state = python_word(bytes, type.header + layout_.text_state);
    const bool is_compact = (state >> 5 & 1) != 0;
    const bool is_ascii = (state >> 6 & 1) != 0;
    return !is_compact ? 2 : is_ascii ? 0 : 1;
  }
  if (type.family == Family::kSet) {
    const Address table(python_word(bytes, type.header + layout_.set_table));
    return table == at + type.header + layout_.set_small_table ? 0 : kElsewhere;
  }
  if (type.has_inline_values) {
    const uint64_t valid_at = type.header + type.basic_size + layout_.values_valid;
    return valid_at < bytes.size() && bytes[valid_at] == std::byte{0} ? kElsewhere : 0;
  }
  return 0;
}

PythonGraph::TypeFacts& PythonGraph::facts_of(const PythonType& type) {
  if (type.number >= facts_.size()) facts_.resize(size_t{type.number} + 1);
  TypeFacts& facts = facts_[type.number];
  if (facts.is_set) return facts;
  facts.is_set = true;
  facts.is_known = is_known(type, false);
  const bool has_kinds = type.family == Family::kText || type.family == Family::kSet ||
                         type.family == Family::kHidden || type.has_inline_values;
  const bool has_buffers = type.family == Family::kList || type.family == Family::kByteArray ||
                           type.family == Family::kArray || type.family == Family::kModule ||
                           type.keeps != PythonType::Keeps::kNothing || type.is_metatype;
  facts.is_alike = !has_kinds && !has_buffers;
  return facts;
}

uint32_t PythonGraph::add(const PythonObject& object, Address at, std::span<const std::byte> bytes,
                          uint64_t room) {
  const PythonType& type = *object.type;
  TypeFacts& facts = facts_of(type);
  const bool are_all_known = object.is_frame || facts.is_known;
  const uint8_t words = own_words(object, room, are_all_known);
  constexpr uint64_t kFewBytes = 63 * kPythonWord;
  if (facts.is_alike && object.values_bytes == 0 && object.bytes <= kFewBytes) {
    if (facts.of_class != SlotMap::kBuffers && facts.words == words) return facts.of_class;
    facts.words = words;
    return facts.of_class = class_of(type, {type.number, 0, words}, are_all_known);
  }
  see(object, at, bytes, room);
  const auto kind = static_cast<uint8_t>(kind_of(object, at, bytes));
  return class_of(type, {type.number, kind, words}, are_all_known);
}

uint32_t PythonGraph::class_of(const PythonType& type, const Shape& shape, bool are_all_known) {
  const uint64_t key = uint64_t{shape.type} << 16 | uint64_t{shape.kind} << 8 | shape.words;
  Recent& recent = recent_[(key ^ key >> 16) % recent_.size()];
  if (recent.of_class != SlotMap::kBuffers && recent.shape == shape) return recent.of_class;
  uint32_t& known = classes_[key];
  if (known == SlotMap::kBuffers) {
    ObjectClass made = type.family == Family::kText ? make_text_class(type, shape.kind)
                                                    : make_class(type, shape.kind);
    if (shape.words != 0) made.skip |= ObjectClass::words_from(shape.words);
    made.is_exact = are_all_known;
    known = objects_.slots.add_class(std::move(made));
  }
  recent = {shape, known};
  return known;
}

uint32_t PythonGraph::class_of_free(const PythonType* type, const PythonLeftovers::Free& free) {
  const bool has_link = free.link != PythonLeftovers::kNoLink;
  const uint64_t number = type == nullptr ? 0 : uint64_t{type->number} + 1;
  const uint64_t key = number << 16 | free.object_at << 8 | (has_link ? free.link + 1 : 0);
  uint32_t& known = free_classes_[key];
  if (known == SlotMap::kBuffers) {
    ObjectClass made;
    made.name = type == nullptr ? "dict keys (free)" : type->name + " (free)";
    made.object_at = type == nullptr ? 0 : free.object_at;
    made.skip = ObjectClass::kNoReferences;
    if (has_link) made.skip &= ~ObjectClass::word_bit(free.link);
    made.is_exact = true;
    known = objects_.slots.add_class(std::move(made));
  }
  return known;
}

ObjectClass PythonGraph::make_class(const PythonType& type, uint8_t kind) {
  const bool is_elsewhere = kind == kElsewhere;
  ObjectClass made;
  made.name = type.name;
  made.object_at = type.header;
  if (type.is_metatype) made.part = kClassPart;
  const uint64_t at = type.header;
  const auto skip = [&](uint64_t offset) { made.skip |= ObjectClass::word_bit(offset); };
  const auto buffer = [&](uint64_t offset, uint8_t kind) {
    made.buffers.push_back({static_cast<uint32_t>(offset / kPythonWord), kind});
  };
  if (is_plain(type)) {
    made.skip = ~ObjectClass::word_bit(kPythonTypeAt);
    return made;
  }
  skip(at);  // ob_refcnt
  if (type.is_collected) {
    skip(at - 16);
    skip(at - 8);
  }
  if (type.header == 32) {
    if (layout_.values == PythonLayout::Values::kFirst) buffer(0, instance_values_);
    if (layout_.values == PythonLayout::Values::kTagged) buffer(kPythonWord, instance_values_);
  }
  made.skip |= weak_list_of(type);
  constexpr uint64_t kVariableHead = 3 * kPythonWord;  // PyVarObject
  if (type.is_own && type.is_tuple) {
    for (uint64_t word = kVariableHead; word < layout_.tuple_items; word += kPythonWord) {
      skip(at + word);
    }
  }
  if (type.keeps == PythonType::Keeps::kOrder) skip(at + PythonOrderedDict::kResizedAt);
  // PyContextVar: the value that was asked for last, which a context owns or has owned.
  constexpr uint64_t kCachedValue = 32;
  if (type.is_own && type.name.ends_with("ContextVar")) skip(at + kCachedValue);
  if (type.is_metatype) {
    buffer(at + docstring_at(layout_), docstring_);
    for (const uint64_t number : numbers_of_type(layout_)) skip(at + number);
  }
  switch (type.family) {
    case Family::kList: buffer(at + layout_.list_allocated - kPythonWord, list_items_); break;
    case Family::kDict:
      buffer(at + layout_.dict_keys, dict_keys_);
      buffer(at + layout_.dict_values, dict_values_);
      break;
    case Family::kSet:
      buffer(at + layout_.set_table, set_table_);
      // Eight entries, each with a hash behind its key; old ones, once there is a table elsewhere.
      for (uint64_t i = 0; i < 8; ++i) {
        const uint64_t entry = at + layout_.set_small_table + i * layout_.set_entry;
        if (is_elsewhere) skip(entry);
        skip(entry + kPythonWord);
      }
      break;
    case Family::kByteArray: buffer(at + layout_.bytearray_allocated + kPythonWord, bytes_); break;
    case Family::kArray:
      buffer(at + PythonArray::kData, array_data_);
      buffer(at + PythonArray::kShape, array_shape_);
      break;
    case Family::kWeak:
      skip(at + kWeakObject);
      skip(at + kWeakPrevious);
      skip(at + kWeakNext);
      break;
    default: break;
  }
  if (has_plain_items(type)) {
    made.skip |= ObjectClass::words_from((at + type.basic_size) / kPythonWord);
  }
  if (type.has_inline_values && type.values_bytes != 0) {
    const uint64_t values = (at + type.basic_size + kInlineHeader) / kPythonWord;
    made.skip |= ObjectClass::words_from(values + (is_elsewhere ? 0 : type.values_entries));
  }
  return made;
}

// `kind`: 0 of ASCII characters, 1 of others behind it, 2 of characters elsewhere.
ObjectClass PythonGraph::make_text_class(const PythonType& type, unsigned kind) {
  const uint64_t at = type.header;
  ObjectClass made;
  made.name = type.name;
  made.object_at = type.header;
  made.skip = ~ObjectClass::word_bit(at + kPythonTypeAt);
  const auto buffer = [&](uint64_t offset) {
    made.skip &= ~ObjectClass::word_bit(at + offset);
    made.buffers.push_back({static_cast<uint32_t>((at + offset) / kPythonWord), characters_});
  };
  if (kind >= 1) buffer(layout_.text_utf8);
  if (kind == 2) buffer(layout_.text_compact_size);
  if (type.header == 0) return made;
  // An instance of a class of the program's: it may have attributes.
  for (uint64_t word = type.basic_size / kPythonWord; word < 64; ++word) {
    made.skip &= ~ObjectClass::word_bit(word * kPythonWord);
  }
  if (type.header == 32) made.skip &= ~uint64_t{3};
  made.skip |= weak_list_of(type);
  return made;
}

void PythonGraph::see(const PythonObject& object, Address at, std::span<const std::byte> bytes,
                      uint64_t room) {
  constexpr size_t kMostModules = 1 << 16;
  constexpr uint64_t kItems = 16;  // ob_size
  using Values = PythonLayout::Values;
  const PythonType& type = *object.type;
  const uint64_t header = type.header;
  // Behind the members of a class there is one more, which ends them.
  const uint64_t used = object.bytes + (type.is_metatype ? type.item_size : 0);
  const uint64_t words = (used + kPythonWord - 1) / kPythonWord;
  const bool are_all_known = type.is_metatype || is_known(type, object.is_frame);
  if (words >= 64 && words < room / kPythonWord && are_all_known) {
    objects_.left_over.push_back({at, words * kPythonWord});
  }
  if (header == 32 && object.values_bytes != 0) {
    const bool is_tagged = layout_.values == Values::kTagged;
    const uint64_t word = python_word(bytes, is_tagged ? kPythonWord : 0) + (is_tagged ? 1 : 0);
    objects_.add_buffer(Address(word), ObjectClass::words_from(type.values_entries));
  }
  if (type.keeps != PythonType::Keeps::kNothing) add_kept(object, at, bytes);
  if (type.family == Family::kList) {
    const Address items(python_word(bytes, header + layout_.list_allocated - kPythonWord));
    add_items(items, python_word(bytes, header + kItems), object.owned_bytes);
  } else if (type.family == Family::kSet && object.owned_bytes != 0) {
    const Address table(python_word(bytes, header + layout_.set_table));
    if (object.owned_bytes <= PythonLayout::kLargestSlot) {
      uint64_t skip = 0;
      for (uint64_t i = 1; i < 64; i += 2) skip |= uint64_t{1} << i;
      objects_.add_buffer(table, skip);
    } else {
      add_hashed(table, 0, 2, 1);
      objects_.left_over.push_back({table, object.owned_bytes});
    }
  } else if (type.family == Family::kByteArray) {
    const uint64_t data = header + layout_.bytearray_allocated + kPythonWord;
    objects_.add_buffer(Address(python_word(bytes, data)), ObjectClass::kNoReferences, bytes_);
  } else if (type.family == Family::kArray) {
    // Numbers, in the smallest blocks that there are.
    objects_.add_buffer(Address(python_word(bytes, header + PythonArray::kShape)),
                        ObjectClass::kNoReferences);
    if (object.array_bytes != 0) {
      add_array_data(object, bytes.subspan(std::min<size_t>(header, bytes.size())));
    }
  } else if (type.is_metatype) {
    const auto text = cache_.word(at + header + docstring_at(layout_), kPythonWord);
    if (text) objects_.left_over.push_back({Address(*text)});
  } else if (type.family == Family::kModule && modules_.size() != kMostModules) {
    modules_.push_back({Address(python_word(bytes, header + kModuleDict)),
                        Address(python_word(bytes, header + kModuleName))});
  }
}

void PythonGraph::add_items(Address first, uint64_t items, uint64_t room) {
  if (first.is_null() || items * kPythonWord > room) return;
  if (room <= PythonLayout::kLargestSlot) {
    objects_.add_buffer(first, ObjectClass::words_from(items));
  } else {
    objects_.left_over.push_back({first, items * kPythonWord});
  }
}

// Numbers and characters are no references, nor is what lies behind the last item of others.
void PythonGraph::add_array_data(const PythonObject& object, std::span<const std::byte> bytes) {
  constexpr std::string_view kNumbersAndCharacters = "biufcSUmM";  // numpy.dtype.kind
  std::byte kind{};
  cache_.read(Address(python_word(bytes, PythonArray::kDescription)) + PythonArray::kKindAt,
              {&kind, 1});
  const bool has_references =
      kNumbersAndCharacters.find(static_cast<char>(kind)) == std::string_view::npos;
  const uint64_t words = (object.array_bytes + kPythonWord - 1) / kPythonWord;
  objects_.left_over.push_back(
      {Address(python_word(bytes, PythonArray::kData)), has_references ? words * kPythonWord : 0});
}

// All that it has of buffers, whatever their size: which of their words are references is the same
// from the first to the last.
void PythonGraph::add_kept(const PythonObject& object, Address at,
                           std::span<const std::byte> bytes) {
  using Keeps = PythonType::Keeps;
  constexpr uint64_t kNone = ObjectClass::kNoReferences;
  const auto add = [&](uint8_t kind, uint64_t skip) {
    if (!object.buffer.is_null()) objects_.add_buffer(object.buffer, skip, kind);
  };
  switch (object.type->keeps) {
    case Keeps::kNumbers: return add(numbers_, kNone);
    case Keeps::kForeign: return add(foreign_, 0);
    case Keeps::kCharacters: return add(io_characters_, kNone);
    case Keeps::kFile: return add(file_buffer_, kNone);
    case Keeps::kDeque:
      add_deque(at, bytes, object.type->header);
      return add_nodes(object.nodes, deque_block_, 0, PythonDeque::kBlockBytes);
    case Keeps::kOrder:
      add(ordered_table_, 0);
      return add_nodes(object.nodes, ordered_node_, ObjectClass::word_bit(PythonOrderedDict::kHash),
                       PythonOrderedDict::kNodeBytes);
    case Keeps::kNothing: break;
  }
}

// In damaged memory a list may be a ring, or many may lead into one.
void PythonGraph::add_nodes(const PythonNodes& nodes, uint8_t kind, uint64_t skip, uint64_t bytes) {
  Address at = nodes.first;
  Address before;  // the last one of which the number is a power of two (Brent's algorithm)
  for (uint64_t i = 0; i < nodes.count && !at.is_null() && at != before; ++i) {
    if (nodes_left_ == 0) return;
    --nodes_left_;
    if (std::has_single_bit(i + 1)) before = at;
    objects_.add_buffer(at, skip | ObjectClass::words_from(bytes / kPythonWord), kind);
    // The mask tells of no word that far behind.
    if (bytes >= 64 * kPythonWord) objects_.left_over.push_back({at, bytes});
    at = Address(cache_.word(at + nodes.next, kPythonWord).value_or(0));
  }
}

// Of its blocks, what lies in front of the first item and behind the last one, and those that it
// keeps for reuse, since 3.11.
void PythonGraph::add_deque(Address at, std::span<const std::byte> bytes, uint64_t header) {
  using Deque = PythonDeque;
  const std::span<const std::byte> deque = bytes.subspan(std::min(header, bytes.size()));
  const uint64_t first = python_word(deque, Deque::kFirstIndex);
  const uint64_t last = python_word(deque, Deque::kLastIndex);
  if (first >= Deque::kItems || last >= Deque::kItems) return;
  const Address first_block(python_word(deque, Deque::kFirstBlock));
  const Address last_block(python_word(deque, Deque::kLastBlock));
  objects_.left_over.push_back({first_block, 0, (1 + first) * kPythonWord});
  objects_.left_over.push_back({last_block, (1 + last + 1) * kPythonWord});
  if (layout_.is_before_311()) return;  // it keeps none
  const uint64_t free = std::min(python_word(deque, Deque::kFreeCount), Deque::kMostFree);
  const uint64_t free_at = header + Deque::kFree;
  objects_.left_over.push_back(
      {at, free_at + free * kPythonWord, free_at + Deque::kMostFree * kPythonWord});
  for (uint64_t i = 0; i < free; ++i) {
    const Address block(python_word(deque, Deque::kFree + i * kPythonWord));
    objects_.left_over.push_back({block});
    objects_.add_buffer(block, 0, deque_block_);
  }
}

// A large table of rows, each with a word that is a hash.
void PythonGraph::add_hashed(Address table, uint32_t first, uint32_t words, uint32_t number) {
  uint32_t& known = of_large_[{first, words, number}];
  if (known == SlotMap::kBuffers) {
    ObjectClass made;
    made.rows = {first, words, number};
    known = objects_.slots.add_class(std::move(made));
  }
  objects_.blocks.push_back({table, known});
}

void PythonGraph::add_table(Address keys, const PythonTable& table, Address values) {
  if (!values.is_null()) {
    // The word before them says how many there are, since 3.13.
    const uint64_t before = layout_.values == PythonLayout::Values::kInline ? kInlineHeader : 0;
    objects_.add_buffer(values + before, ObjectClass::words_from(table.entries));
  }
  // Of several dicts that share it, one suffices: they come together.
  if (keys == last_table_) return;
  last_table_ = keys;
  const bool has_hashes = table.entry_bytes == 3 * kPythonWord;
  const uint64_t first = (table.first_entry - keys) / kPythonWord;
  const uint64_t words = table.entry_bytes / kPythonWord;
  const uint64_t end = first + table.entries * words;
  if (table.bytes <= PythonLayout::kLargestSlot) {
    uint64_t skip = ~ObjectClass::words_from(first) | ObjectClass::words_from(end);
    for (uint64_t i = first; has_hashes && i < end; i += words) skip |= uint64_t{1} << i;
    return objects_.add_buffer(keys, skip);
  }
  if (has_hashes) add_hashed(keys, static_cast<uint32_t>(first), 3, 0);
  objects_.left_over.push_back({keys, 0, first * kPythonWord});
  objects_.left_over.push_back({keys, end * kPythonWord});
}

void PythonGraph::add_left_over(std::span<const AddressRange> words) {
  objects_.unused.insert(objects_.unused.end(), words.begin(), words.end());
  for (const AddressRange& range : words)
    objects_.left_over.push_back({range.begin, 0, range.size()});
}

void PythonGraph::add_locals(const PythonFrames& frames, const std::string& module) {
  for (const PythonLocal& local : frames.locals()) {
    objects_.variables.push_back(
        {local.word, local.name, module, RootKind::kLocal, local.tid, local.function});
  }
  add_left_over(frames.free_words());
}

}  // namespace heapsnap
