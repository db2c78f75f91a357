#include "runtime/ruby/ruby_closures.h"

#include <algorithm>
#include <utility>

#include "heap/struct_bytes.h"
#include "runtime/ruby/ruby_value.h"

namespace heapsnap {

namespace {

constexpr uint64_t kValueBytes = 8;

uint32_t add_class(RuntimeObjects& objects, const char* name, uint64_t skip, uint64_t object_at) {
  ObjectClass made;
  made.name = name;
  made.skip = skip;
  made.object_at = static_cast<uint32_t>(object_at);
  made.is_exact = true;
  return objects.slots.add_class(std::move(made));
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

void RubyClosures::add(Address at, uint32_t of_class) {
  if (objects_.blocks.size() < kMostBlocks) objects_.blocks.push_back({at, of_class});
}

uint32_t RubyClosures::environment_class(uint64_t words) {
  uint32_t& known = environments_[std::min(words, kMostWords + 1)];
  if (known == SlotMap::kBuffers) {
    const uint64_t flags = (words - 2) * kValueBytes;
    const bool has_bits = words < 64;
    const uint64_t skip =
        has_bits ? ObjectClass::word_bit(flags) | ObjectClass::words_from(words) : 0;
    known = add_class(objects_, "Captured variables", skip, words <= kMostWords ? flags : 0);
  }
  return known;
}

void RubyClosures::add_environment(std::span<const std::byte> slot) {
  constexpr size_t kMostLarge = 1 << 22;
  const auto env = RubyEnvironment::of_slot(slot);
  if (!env) return;
  add(env->values, environment_class(env->words));
  // What no bit of the class stands for.
  if (env->words < 64 || objects_.left_over.size() >= kMostLarge) return;
  const uint64_t flags = env->ep - env->values;
  objects_.left_over.push_back({env->values, flags, flags + kValueBytes});
  objects_.left_over.push_back({env->values, env->words * kValueBytes});
}

void RubyClosures::add_data(const std::string& type, Address data) {
  // rb_block: self, ep, code, and which kind of block it is. Of another kind the words behind the
  // first one are 0.
  constexpr uint64_t kBehindBlock = 3;
  constexpr uint64_t kPath = 32;  // rb_binding_t: what is behind it
  if (type == "proc") {
    if (proc_ == SlotMap::kBuffers) {
      proc_ = add_class(objects_, "Proc data", ObjectClass::words_from(kBehindBlock), 0);
    }
    add(data, proc_);
  } else if (type == "binding") {
    if (binding_ == SlotMap::kBuffers) {
      const uint64_t skip = ObjectClass::words_from(kBehindBlock) & ~ObjectClass::word_bit(kPath);
      binding_ = add_class(objects_, "Binding data", skip, 0);
    }
    add(data, binding_);
  }
}

}  // namespace heapsnap
