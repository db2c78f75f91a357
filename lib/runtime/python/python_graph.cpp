#include "runtime/python/python_graph.h"

#include <utility>

namespace heapsnap {

namespace {

using Family = PythonType::Family;

constexpr uint64_t kPythonWord = 8;
// PyModuleObject, PyWeakReference: the same since 3.9.
constexpr uint64_t kModuleDict = 16;
constexpr uint64_t kModuleName = 48;
constexpr uint64_t kWeakObject = 16;
constexpr uint64_t kWeakPrevious = 40;
constexpr uint64_t kWeakNext = 48;

// Of the interpreter's own types without references: numbers and bytes.
bool is_plain(const PythonType& type) {
  if (type.header != 0) return false;
  if (type.is_long || (type.family == Family::kSized && type.item_size == 1)) return true;
  return type.is_static && (type.name == "float" || type.name == "complex");
}

}  // namespace

PythonGraph::PythonGraph(Target& target, const PythonLayout& layout, RuntimeObjects& objects)
    : layout_(layout),
      objects_(objects),
      cache_(target.memory()),
      list_items_(objects.add_buffer_kind("list items")),
      dict_keys_(objects.add_buffer_kind("dict keys")),
      dict_values_(objects.add_buffer_kind("dict values")),
      set_table_(objects.add_buffer_kind("set table")),
      instance_values_(objects.add_buffer_kind("instance attributes")),
      bytes_(objects.add_buffer_kind("bytearray bytes")),
      characters_(objects.add_buffer_kind("str characters")),
      array_data_(objects.add_buffer_kind("ndarray data")),
      array_shape_(objects.add_buffer_kind("ndarray shape")) {}

uint32_t PythonGraph::class_of(const PythonObject& object, std::span<const std::byte> bytes) {
  const PythonType& type = *object.type;
  unsigned kind = 0;
  if (type.family == Family::kText) {
    // unicodeobject.h: see PythonObjects.
    const uint64_t state = python_word(bytes, type.header + layout_.text_state);
    const bool is_compact = (state >> 5 & 1) != 0;
    const bool is_ascii = (state >> 6 & 1) != 0;
    kind = !is_compact ? 2 : is_ascii ? 0 : 1;
  }
  const size_t index = size_t{type.number} * kTexts + kind;
  if (index >= classes_.size()) classes_.resize(index + kTexts);
  uint32_t& known = classes_[index];
  if (known == 0) {
    known = objects_.slots.add_class(type.family == Family::kText ? make_text_class(type, kind)
                                                                  : make_class(type));
  }
  return known;
}

ObjectClass PythonGraph::make_class(const PythonType& type) {
  ObjectClass made;
  made.name = type.name;
  made.object_at = type.header;
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
  switch (type.family) {
    case Family::kList: buffer(at + layout_.list_allocated - kPythonWord, list_items_); break;
    case Family::kDict:
      buffer(at + layout_.dict_keys, dict_keys_);
      buffer(at + layout_.dict_values, dict_values_);
      break;
    case Family::kSet: buffer(at + layout_.set_table, set_table_); break;
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
  return made;
}

void PythonGraph::see(const PythonObject& object, std::span<const std::byte> bytes) {
  constexpr size_t kMostModules = 1 << 16;
  if (object.type->family != Family::kModule || modules_.size() == kMostModules) return;
  const uint64_t at = object.type->header;
  modules_.push_back({Address(python_word(bytes, at + kModuleDict)),
                      Address(python_word(bytes, at + kModuleName))});
}

void PythonGraph::add_variables(const std::string& module) {
  for (const Module& one : modules_) add_variables_of(one, module);
}

// A str of ASCII characters, as names are.
std::optional<std::string> PythonGraph::text_at(Address at) {
  constexpr uint64_t kLongest = 200;
  std::vector<std::byte> head(layout_.text_ascii_size);
  if (at.is_null() || !at.is_aligned(kPythonWord) || cache_.read(at, head) != head.size()) {
    return std::nullopt;
  }
  const uint64_t state = python_word(head, layout_.text_state);
  const uint64_t length = python_word(head, layout_.text_length);
  const bool is_ascii = (state >> 5 & 3) == 3;
  if (!is_ascii || length == 0 || length > kLongest) return std::nullopt;
  std::string text(length, '\0');
  if (cache_.read(at + layout_.text_ascii_size, std::as_writable_bytes(std::span(text))) !=
      length) {
    return std::nullopt;
  }
  for (const char c : text) {
    if (c <= 0x20 || c == 0x7f) return std::nullopt;
  }
  return text;
}

void PythonGraph::add_variables_of(const Module& module, const std::string& path) {
  constexpr size_t kMostVariables = 1 << 20;
  const auto name = text_at(module.name);
  const auto keys = cache_.word(module.dict + layout_.dict_keys, kPythonWord);
  if (!name || module.dict.is_null() || !keys) return;
  const auto table = python_table(cache_, layout_, Address(*keys));
  if (!table) return;
  for (uint64_t i = 0; i < table->entries; ++i) {
    const Address entry = table->first_entry + i * table->entry_bytes;
    const Address key = entry + table->entry_bytes - 2 * kPythonWord;
    const auto key_word = cache_.word(key, kPythonWord);
    if (!key_word) return;
    const auto variable = text_at(Address(*key_word));
    if (!variable || variable->starts_with("__")) continue;
    if (objects_.variables.size() == kMostVariables) return;
    objects_.variables.push_back({key + kPythonWord, *name + "." + *variable, path});
  }
}

}  // namespace heapsnap
