#include "runtime/ruby/ruby_closures.h"

#include <algorithm>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

constexpr uint64_t kValueBytes = 8;

ObjectClass make_class(const char* name, uint64_t skip, uint64_t object_at) {
  ObjectClass made;
  made.name = name;
  made.skip = skip;
  made.object_at = static_cast<uint32_t>(object_at);
  made.is_exact = true;
  return made;
}

}  // namespace

std::optional<RubyEnvironment> RubyEnvironment::of_slot(std::span<const std::byte> slot) {
  constexpr uint64_t kEp = 16;
  constexpr uint64_t kValues = 24;
  constexpr uint64_t kWords = 32;
  constexpr uint64_t kMostWords = 1 << 20;
  const StructBytes env(slot, kValueBytes);
  const uint64_t flags = env.word_at(0);
  if (RubyValue::type_of(flags) != RubyType::kImemo ||
      RubyValue::imemo_kind(flags) != RubyValue::kImemoEnv) {
    return std::nullopt;
  }
  const RubyEnvironment found{Address(env.word_at(kEp)), Address(env.word_at(kValues)),
                              env.int_at(kWords)};
  if (!RubyValue::is_object(found.values.value()) || found.words <= kDataWords ||
      found.words > kMostWords || found.ep != found.values + (found.words - 2) * kValueBytes) {
    return std::nullopt;
  }
  return found;
}

void RubyClosures::add_environment(std::span<const std::byte> slot) {
  constexpr size_t kMostLarge = 1 << 22;
  const auto env = RubyEnvironment::of_slot(slot);
  if (!env) return;
  const uint64_t words = env->words;
  const uint64_t flags = env->ep - env->values;
  const bool has_bits = words < 64;
  objects_.add_block(env->values, environments_[std::min(words, kMostWords + 1)], [&] {
    const uint64_t skip =
        has_bits ? ObjectClass::word_bit(flags) | ObjectClass::words_from(words) : 0;
    return make_class("Captured variables", skip, words <= kMostWords ? flags : 0);
  });
  // What no bit of the class stands for.
  if (has_bits || objects_.left_over.size() >= kMostLarge) return;
  objects_.left_over.push_back({env->values, flags, flags + kValueBytes});
  objects_.left_over.push_back({env->values, words * kValueBytes});
}

void RubyClosures::add_data(const std::string& type, Address data) {
  // rb_block: self, ep, code, and which kind of block it is. Of another kind the words behind the
  // first one are 0.
  constexpr uint64_t kBehindBlock = 3;
  constexpr uint64_t kPath = 32;  // rb_binding_t: what is behind it
  if (type == "proc") {
    objects_.add_block(data, proc_, [] {
      return make_class("Proc data", ObjectClass::words_from(kBehindBlock), 0);
    });
  } else if (type == "binding") {
    objects_.add_block(data, binding_, [] {
      const uint64_t skip = ObjectClass::words_from(kBehindBlock) & ~ObjectClass::word_bit(kPath);
      return make_class("Binding data", skip, 0);
    });
  }
}

}  // namespace heapsnap
