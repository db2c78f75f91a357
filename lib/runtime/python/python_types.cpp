#include "runtime/python/python_types.h"

#include <algorithm>
#include <utility>

#include "heap/struct_bytes.h"
#include "runtime/python/python_table.h"
#include "runtime/python/python_text.h"

namespace heapsnap {

namespace {

// object.h, the same since 3.9.
constexpr uint64_t kHeapType = 1 << 9;
constexpr uint64_t kReady = 1 << 12;
constexpr uint64_t kHasCollector = 1 << 14;
constexpr uint64_t kLongSubclass = 1 << 24;
constexpr uint64_t kListSubclass = 1 << 25;
constexpr uint64_t kTextSubclass = 1 << 28;
constexpr uint64_t kDictSubclass = 1 << 29;
constexpr uint64_t kTypeSubclass = 1ULL << 31;

constexpr unsigned kDeepest = 64;  // metatypes of metatypes, bases of bases

// What these are called before 3.12, and since.
bool is_weak(std::string_view name) {
  return name == "weakref" || name == "weakproxy" || name == "weakcallableproxy" ||
         name.starts_with("weakref.");
}

// Types that Python has itself, as they are called without a module.
bool is_builtin_name(std::string_view name) {
  static constexpr std::string_view kNames[] = {"async_generator",
                                                "bool",
                                                "builtin_function_or_method",
                                                "bytearray",
                                                "bytes",
                                                "cell",
                                                "classmethod",
                                                "code",
                                                "complex",
                                                "coroutine",
                                                "dict",
                                                "dict_items",
                                                "dict_keys",
                                                "dict_values",
                                                "enumerate",
                                                "filter",
                                                "float",
                                                "frame",
                                                "frozenset",
                                                "function",
                                                "generator",
                                                "getset_descriptor",
                                                "int",
                                                "iterator",
                                                "list",
                                                "map",
                                                "mappingproxy",
                                                "member_descriptor",
                                                "memoryview",
                                                "method",
                                                "method-wrapper",
                                                "module",
                                                "object",
                                                "property",
                                                "range",
                                                "reversed",
                                                "set",
                                                "slice",
                                                "staticmethod",
                                                "str",
                                                "super",
                                                "traceback",
                                                "tuple",
                                                "type",
                                                "weakref",
                                                "weakproxy",
                                                "zip"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

PythonType::Keeps keeps_by(std::string_view name) {
  using Keeps = PythonType::Keeps;
  if (name == "array.array") return Keeps::kNumbers;
  if (name == "collections.deque") return Keeps::kDeque;
  if (name == "collections.OrderedDict") return Keeps::kOrder;
  if (name == "_ctypes._CData") return Keeps::kForeign;
  if (name == "_io.StringIO") return Keeps::kCharacters;
  if (name == "_io.BufferedReader" || name == "_io.BufferedWriter" ||
      name == "_io.BufferedRandom") {
    return Keeps::kFile;
  }
  return Keeps::kNothing;
}

}  // namespace

PythonTypes::PythonTypes(Target& target, const PythonLayout& layout, std::vector<AddressRange> own)
    : space_(target.address_space()),
      own_(std::move(own)),
      layout_(layout),
      cache_(target.memory()) {}

bool PythonTypes::search_arenas(Address at) {
  const auto after = std::upper_bound(
      arenas_.begin(), arenas_.end(), at,
      [](Address place, const AddressRange& arena) { return place < arena.begin; });
  if (after == arenas_.begin() || !std::prev(after)->contains(at)) return false;
  last_arena_ = *std::prev(after);
  return true;
}

const PythonType* PythonTypes::look_up(uint64_t word) {
  if (word % 8 != 0 || word < 4096) return nullptr;
  const auto known = known_.find(word);
  if (known != known_.end()) return known->second;
  const Mapping* const mapping = space_.find(Address(word));
  const PythonType* type = nullptr;
  if (mapping != nullptr && mapping->readable) type = read(Address(word));
  // Words that are no types are remembered to save time only.
  if (known_.size() - all_.size() > kMostOthers) {
    std::erase_if(known_, [](const auto& entry) { return entry.second == nullptr; });
  }
  known_[word] = type;
  return type;
}

std::optional<std::string> PythonTypes::read_name(Address at) {
  constexpr size_t kLongest = 512;
  std::array<char, kLongest> text;
  const size_t got = cache_.read(at, std::as_writable_bytes(std::span(text)));
  const auto end = std::find(text.begin(), text.begin() + got, '\0');
  if (end == text.begin() + got || end == text.begin()) return std::nullopt;
  std::string name(text.begin(), end);
  if (!is_python_name(name)) return std::nullopt;
  return name;
}

// The class `name` of a program, which does not say there of which module it is.
std::string PythonTypes::full_name(Address at, std::string name) {
  // PyHeapTypeObject: ht_qualname, ht_cached_keys; the same since 3.9.
  const auto qualified = cache_.word(at + layout_.heap_type_keys - 8, 8);
  auto text = qualified ? read_text(Address(*qualified)) : std::nullopt;
  if (text) name = std::move(*text);
  const auto module = module_of(at);
  // A program's class that is called like one of Python's is another one.
  const bool is_left_out =
      !module || *module == "builtins" || (*module == "__main__" && !is_builtin_name(name));
  return is_left_out ? name : *module + "." + name;
}

std::optional<Address> PythonTypes::first_tuple(MemoryReader& memory) {
  constexpr uint64_t kMostData = 256 << 20;
  for (const AddressRange& range : own_) {
    std::vector<std::byte> data(std::min(range.size(), kMostData));
    data.resize(memory.read(range.begin, data));
    const StructBytes words(data, 8);
    for (size_t offset = 0; offset + layout_.type_size <= data.size(); offset += 8) {
      const Address at = range.begin + offset;
      if (words.word_at(offset + 8) != at.value() || !is_metatype(at)) continue;
      // PyTypeObject: tp_mro, the eleventh word behind tp_base.
      return Address(words.word_at(offset + layout_.type_base + 11 * sizeof(uint64_t)));
    }
  }
  return std::nullopt;
}

std::optional<std::string> PythonTypes::module_of(Address at) {
  // PyTypeObject: tp_base, tp_dict.
  const auto dict = cache_.word(at + layout_.type_base + 8, 8);
  if (!dict || *dict == 0) return std::nullopt;
  const auto keys = cache_.word(Address(*dict) + layout_.dict_keys, 8);
  const auto table = keys ? python_table(cache_, layout_, Address(*keys)) : std::nullopt;
  if (!table) return std::nullopt;
  // A class statement enters it first, type() last.
  for (uint64_t i = 0; i < table->entries && entries_left_ != 0; ++i) {
    --entries_left_;
    const auto key = cache_.word(table->key_at(i), 8);
    if (!key) return std::nullopt;
    if (read_text(Address(*key)) != "__module__") continue;
    const auto value = cache_.word(table->key_at(i) + 8, 8);
    return value ? read_text(Address(*value)) : std::nullopt;
  }
  return std::nullopt;
}

// Of a str that can be a name.
std::optional<std::string> PythonTypes::read_text(Address at) {
  constexpr size_t kLongest = 512;
  const auto type = at.is_null() ? std::nullopt : cache_.word(at + 8, 8);
  const auto flags = type ? cache_.word(Address(*type) + layout_.type_flags, 8) : std::nullopt;
  if (!flags || (*flags & kTextSubclass) == 0) return std::nullopt;
  return python_name(cache_, layout_, at, kLongest);
}

bool PythonTypes::is_metatype(Address at) {
  constexpr size_t kMostKnown = 1 << 16;
  const auto known = metatypes_.find(at.value());
  if (known != metatypes_.end()) return known->second;
  if (metatypes_.size() >= kMostKnown) metatypes_.clear();
  return metatypes_[at.value()] = leads_to_type(at);
}

bool PythonTypes::leads_to_type(Address at) {
  std::vector<std::byte> bytes(layout_.type_size);
  for (unsigned depth = 0; depth < kDeepest; ++depth) {
    if (!at.is_aligned(8) || cache_.read(at, bytes) != bytes.size()) return false;
    const StructBytes type(bytes, 8);
    const uint64_t flags = type.word_at(layout_.type_flags);
    if ((flags & kTypeSubclass) == 0 || (flags & kReady) == 0) return false;
    const Address above(type.word_at(8));
    if (above == at) return read_name(Address(type.word_at(layout_.type_name))) == "type";
    at = above;
  }
  return false;
}

PythonType::Family PythonTypes::family_of(Address at, uint64_t flags) {
  using Family = PythonType::Family;
  if ((flags & kListSubclass) != 0) return Family::kList;
  if ((flags & kDictSubclass) != 0) return Family::kDict;
  if ((flags & kTextSubclass) != 0) return Family::kText;
  std::vector<std::byte> bytes(layout_.type_size);
  Family family = Family::kOther;
  for (unsigned depth = 0; depth < kDeepest && !at.is_null(); ++depth) {
    if (cache_.read(at, bytes) != bytes.size()) break;
    const StructBytes type(bytes, 8);
    if (type.word_at(layout_.type_item_size) != 0) family = Family::kSized;
    const auto name = read_name(Address(type.word_at(layout_.type_name)));
    if (!name) break;
    // A class of the program's may be called so, too.
    if ((type.word_at(layout_.type_flags) & kHeapType) == 0) {
      if (*name == "set" || *name == "frozenset") return Family::kSet;
      if (*name == "bytearray") return Family::kByteArray;
      if (*name == "frame" || *name == "generator" || *name == "coroutine" ||
          *name == "async_generator") {
        return Family::kHidden;
      }
      if (*name == "module") return Family::kModule;
      if (*name == "numpy.ndarray") return Family::kArray;
      if (is_weak(*name)) return Family::kWeak;
    }
    at = Address(type.word_at(layout_.type_base));
  }
  return family;
}

// These names have a dot in them: a class statement makes none, and says the module elsewhere.
PythonType::Keeps PythonTypes::keeps_of(Address at) {
  for (unsigned depth = 0; depth < kDeepest && !at.is_null(); ++depth) {
    const auto name_at = cache_.word(at + layout_.type_name, 8);
    const auto base = cache_.word(at + layout_.type_base, 8);
    const auto name = name_at ? read_name(Address(*name_at)) : std::nullopt;
    if (!name || !base) break;
    const PythonType::Keeps keeps = keeps_by(*name);
    if (keeps != PythonType::Keeps::kNothing) return keeps;
    at = Address(*base);
  }
  return PythonType::Keeps::kNothing;
}

// By a name without a dot, too: extensions say of which module a type is.
bool PythonTypes::is_program(Address at) {
  for (unsigned depth = 0; depth < kDeepest; ++depth) {
    const auto flags = cache_.word(at + layout_.type_flags, 8);
    const auto name_at = cache_.word(at + layout_.type_name, 8);
    const auto base = cache_.word(at + layout_.type_base, 8);
    const auto name = name_at ? read_name(Address(*name_at)) : std::nullopt;
    if (!flags || !base || !name) return false;
    if (*base == 0) return depth != 0 && *name == "object";
    if ((*flags & kHeapType) == 0 || name->find('.') != std::string::npos) return false;
    at = Address(*base);
  }
  return false;
}

const PythonType* PythonTypes::read(Address at) {
  constexpr uint64_t kLargest = 1 << 20;
  if (all_.size() == kMostTypes) return nullptr;
  std::vector<std::byte> bytes(layout_.type_size);
  if (cache_.read(at, bytes) != bytes.size()) return nullptr;
  const StructBytes type(bytes, 8);
  const uint64_t flags = type.word_at(layout_.type_flags);
  const uint64_t basic_size = type.word_at(layout_.type_basic_size);
  const uint64_t item_size = type.word_at(layout_.type_item_size);
  const auto references = static_cast<int64_t>(type.word_at(0));
  if ((flags & kReady) == 0 || references <= 0) return nullptr;
  if (basic_size < 16 || basic_size > kLargest || item_size > kLargest) return nullptr;
  if (!is_metatype(Address(type.word_at(8)))) return nullptr;
  auto name = read_name(Address(type.word_at(layout_.type_name)));
  if (!name) return nullptr;
  if (type.word_at(layout_.type_base) == 0 && *name != "object") return nullptr;

  auto found = std::make_unique<PythonType>();
  found->name = std::move(*name);
  found->is_tuple = found->name == "tuple" && (flags & kHeapType) == 0;
  found->number = static_cast<uint32_t>(all_.size());
  found->is_collected = (flags & kHasCollector) != 0;
  const bool has_header = (flags & layout_.header_flags) != 0;
  found->header = static_cast<uint32_t>((found->is_collected ? PythonLayout::kCollectorHeader : 0) +
                                        (has_header ? PythonLayout::kManagedDictHeader : 0));
  found->basic_size = basic_size;
  // PyTypeObject: tp_weaklistoffset, the fifth word behind tp_flags; below 0: in front of it.
  const auto list = static_cast<int64_t>(type.word_at(layout_.type_flags + 5 * sizeof(uint64_t)));
  const bool has_list = list != 0 && list >= -int64_t{found->header} &&
                        list <= static_cast<int64_t>(basic_size) - int64_t{sizeof(uint64_t)};
  if (has_list) found->weak_list = static_cast<uint32_t>(int64_t{found->header} + list);
  found->is_long = (flags & kLongSubclass) != 0;
  found->is_metatype = (flags & kTypeSubclass) != 0;
  found->is_static = (flags & kHeapType) == 0;
  found->is_own = std::any_of(own_.begin(), own_.end(),
                              [at](const AddressRange& range) { return range.contains(at); });
  found->item_size = found->is_long ? 4 : item_size;
  found->family = family_of(at, flags);
  found->keeps = keeps_of(at);
  found->is_program = is_program(at);
  found->has_inline_values = (flags & layout_.inline_flag) != 0;
  const bool may_have_values =
      layout_.values == PythonLayout::Values::kInline ? found->has_inline_values : has_header;
  if (may_have_values && (flags & kHeapType) != 0) {
    const auto keys = cache_.word(at + layout_.heap_type_keys, 8);
    std::vector<std::byte> header(layout_.keys_header);
    if (keys && *keys != 0 && cache_.read(Address(*keys), header) == header.size()) {
      const StructBytes shared(header, 8);
      const uint64_t count =
          shared.word_at(layout_.keys_usable) + shared.word_at(layout_.keys_entries);
      if (count <= PythonType::kMostValues) {
        found->values_entries = shared.word_at(layout_.keys_entries);
        found->values_bytes = found->has_inline_values ? PythonType::inline_bytes(count)
                                                       : PythonType::array_bytes(count);
      }
    }
  }
  const bool says_module = found->is_static || found->name.find('.') != std::string::npos;
  if (!says_module) found->name = full_name(at, std::move(found->name));
  all_.push_back(std::move(found));
  return all_.back().get();
}

}  // namespace heapsnap
