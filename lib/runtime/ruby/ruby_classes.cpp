#include "runtime/ruby/ruby_classes.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

constexpr unsigned kMostAncestors = 1 << 10;  // classes of classes, ancestors of ancestors
constexpr unsigned kDeepestName = 4;          // singleton classes of singleton classes
constexpr size_t kLongestName = 512;

// "0x00007f0a0f3b1c58", as Ruby writes addresses.
std::string address_text(uint64_t at) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%016lx", at);
  return text.data();
}

}  // namespace

bool RubyClasses::has_no_controls(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f;
  });
}

RubyClasses::RubyClasses(Target& target, const RubyLayout& layout, const RubyShapes& shapes)
    : layout_(layout), shapes_(shapes), cache_(target.memory()) {}

std::string RubyClasses::check(const RubyPlace& place) {
  constexpr uint64_t kNextId = 1 << 4;  // ID_SCOPE_SHIFT: the name that Ruby made next
  const auto object = cache_.word(place.object_class, 8);
  const auto kernel = cache_.word(place.kernel_module, 8);
  const auto string = cache_.word(place.string_class, 8);
  if (!object || !kernel || !string) return "its rb_cObject cannot be read";
  if (layout_.class_path == RubyLayout::kNone) {
    each_variable(*object, [&](uint64_t key, uint64_t value, Address) {
      if (text_of(value, kLongestName) == "Object") path_key_ = key;
    });
    if (path_key_ == 0) return "none of its rb_cObject's variables is its name";
    draft_key_ = path_key_ + kNextId;
  }
  const std::pair<uint64_t, const char*> names[] = {
      {*object, "Object"}, {*kernel, "Kernel"}, {*string, "String"}};
  for (const auto& [at, name] : names) {
    const auto found = path_of(at);
    if (found != name) {
      return std::string("its class ") + name + " seems to be called " +
             (found ? '"' + *found + '"' : "nothing");
    }
  }
  return {};
}

std::optional<RubyClasses::Slot> RubyClasses::read_class(uint64_t at) {
  if (!RubyValue::is_object(at)) return std::nullopt;
  const auto flags = cache_.word(Address(at), 8);
  if (!flags) return std::nullopt;
  const RubyType type = RubyValue::type_of(*flags);
  if (type != RubyType::kClass && type != RubyType::kModule && type != RubyType::kIclass) {
    return std::nullopt;
  }
  const auto own_class = cache_.word(Address(at) + RubyValue::kClass, 8);
  const auto super = cache_.word(Address(at) + layout_.class_super, 8);
  if (!own_class || !super) return std::nullopt;
  return Slot{*flags, *own_class, *super, type};
}

uint64_t RubyClasses::real_class(uint64_t at) {
  for (unsigned depth = 0; depth < kMostAncestors; ++depth) {
    const auto slot = read_class(at);
    if (!slot) return 0;
    if (slot->type == RubyType::kClass && (slot->flags & layout_.flag_singleton) == 0) return at;
    at = slot->super;
  }
  return 0;
}

const RubyClass* RubyClasses::look_up(uint64_t word) {
  if (word == 0) return nullptr;
  const auto known = known_.find(word);
  if (known != known_.end()) return known->second;
  const uint64_t at = real_class(word);
  const RubyClass* found = nullptr;
  if (at != 0) {
    const auto real = known_.find(at);
    if (real != known_.end()) found = real->second;
    if (found == nullptr && all_.size() < kMostClasses) {
      all_.push_back(std::make_unique<RubyClass>());
      all_.back()->at = at;
      all_.back()->number = static_cast<uint32_t>(all_.size() - 1);
      all_.back()->name = name_of(at);
      found = all_.back().get();
      known_[at] = found;
    }
  }
  // Words that lead to known ones are remembered to save time only: each singleton class is one.
  if (known_.size() - all_.size() > kMostOthers) {
    std::erase_if(known_, [](const auto& entry) {
      return entry.second == nullptr || entry.second->at != entry.first;
    });
  }
  known_[word] = found;
  return found;
}

std::optional<std::string> RubyClasses::text_of(uint64_t value, size_t longest) {
  constexpr uint64_t kNotEmbedded = RubyValue::user_flag(1);
  constexpr uint64_t kShortLength = 12 + 2;  // FL_USER2 to 6, up to 3.1
  if (!RubyValue::is_object(value)) return std::nullopt;
  const auto flags = cache_.word(Address(value), 8);
  if (!flags || RubyValue::type_of(*flags) != RubyType::kString) return std::nullopt;
  uint64_t length = 0;
  Address at;
  if ((*flags & kNotEmbedded) == 0 && !layout_.has_wide_slots()) {
    length = *flags >> kShortLength & 0x1f;
    at = Address(value) + 16;
  } else {
    const auto word = cache_.word(Address(value) + 16, 8);
    if (!word) return std::nullopt;
    length = *word;
    at = Address(value) + 24;
    if ((*flags & kNotEmbedded) != 0) {
      const auto place = cache_.word(at, 8);
      if (!place) return std::nullopt;
      at = Address(*place);
    }
  }
  std::string text(std::min<uint64_t>(length, longest), '\0');
  if (cache_.read(at, std::as_writable_bytes(std::span(text))) != text.size()) return std::nullopt;
  return text;
}

std::optional<std::string> RubyClasses::path_of(uint64_t at) {
  uint64_t path = 0;
  if (layout_.class_path != RubyLayout::kNone) {
    path = cache_.word(Address(at) + layout_.class_path, 8).value_or(0);
  } else {
    each_variable(at, [&](uint64_t key, uint64_t value, Address) {
      if (key == path_key_ || (key == draft_key_ && path == 0)) path = value;
    });
  }
  auto name = text_of(path, kLongestName);
  if (!name || name->empty() || !has_no_controls(*name)) return std::nullopt;
  return name;
}

uint64_t RubyClasses::attached_to(uint64_t at) {
  if (layout_.class_attached != RubyLayout::kNone) {
    return cache_.word(Address(at) + layout_.class_attached, 8).value_or(0);
  }
  // The variable that leads to an object of this class: __attached__.
  uint64_t found = 0;
  each_variable(at, [&](uint64_t, uint64_t value, Address) {
    if (!RubyValue::is_object(value)) return;
    if (cache_.word(Address(value) + RubyValue::kClass, 8) == at) found = value;
  });
  return found;
}

std::string RubyClasses::singleton_name(uint64_t at, unsigned depth) {
  const uint64_t attached = attached_to(at);
  if (attached == 0) return "#<Class:" + address_text(at) + ">";
  const auto slot = read_class(attached);
  if (slot && slot->type != RubyType::kIclass) {
    return "#<Class:" + name_at(attached, depth + 1) + ">";
  }
  const uint64_t real = real_class(at);
  const std::string name = real == 0 ? "Object" : name_at(real, depth + 1);
  return "#<Class:#<" + name + ":" + address_text(attached) + ">>";
}

std::string RubyClasses::name_at(uint64_t at, unsigned depth) {
  const auto slot = read_class(at);
  if (!slot) return "#<Class:" + address_text(at) + ">";
  const bool is_singleton =
      slot->type == RubyType::kClass && (slot->flags & layout_.flag_singleton) != 0;
  if (is_singleton && depth < kDeepestName) return singleton_name(at, depth);
  if (const auto path = path_of(at)) return *path;
  const char* const kind = slot->type == RubyType::kModule ? "Module" : "Class";
  return std::string("#<") + kind + ":" + address_text(at) + ">";
}

}  // namespace heapsnap
