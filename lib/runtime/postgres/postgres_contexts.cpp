#include "runtime/postgres/postgres_contexts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/alteration.h"
#include "heap/corruption_log.h"
#include "heap/struct_bytes.h"

namespace heapsnap {

namespace {

class ContextTree {
 public:
  ContextTree(Target& target, const PostgresPlace& place, const RuntimeOptions& options)
      : target_(target),
        place_(place),
        layout_(*place.layout),
        options_(options),
        blocks_(target, layout_) {}

  PostgresContexts read();

 private:
  struct Link {
    Address to;
    int32_t parent = -1;
    Address parent_at;
    Address previous;  // sibling
    uint32_t level = 0;
  };

  PageCache& cache() { return blocks_.cache(); }
  // Adds the context that `link` leads to, and puts what it leads to itself into links_.
  // Gives what does not fit.
  const char* add(const Link& link);
  ContextKind kind_of(uint32_t tag) const;
  bool has_methods(ContextKind kind, Address methods);
  bool is_method_table(Address table);
  std::string text_at(Address at, size_t longest);
  // A context's name, which is a constant: never what the process has made itself.
  std::string name_at(Address at);
  bool is_constant(Address at) const;
  std::string check_all();

  Target& target_;
  const PostgresPlace& place_;
  const PostgresLayout& layout_;
  const RuntimeOptions& options_;
  PostgresBlocks blocks_;
  std::vector<Link> links_;
  std::array<Address, 5> methods_;  // by kind
  std::unordered_map<uint64_t, std::string> names_;
  PostgresContexts found_;
};

ContextKind ContextTree::kind_of(uint32_t tag) const {
  if (tag == 0) return ContextKind::kUnknown;
  if (tag == layout_.set_tag) return ContextKind::kAllocSet;
  if (tag == layout_.generation_tag) return ContextKind::kGeneration;
  if (tag == layout_.slab_tag) return ContextKind::kSlab;
  if (tag == layout_.bump_tag) return ContextKind::kBump;
  return ContextKind::kUnknown;
}

bool ContextTree::is_method_table(Address table) {
  const auto holds = [](const std::vector<AddressRange>& ranges, Address at, uint64_t bytes) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const AddressRange& range) { return range.contains(at, bytes); });
  };
  if (!holds(place_.data, table, layout_.methods_size)) return false;
  for (uint64_t offset = 0; offset < layout_.methods_size; offset += 8) {
    const auto method = cache().word(table + offset, 8);
    if (!method || !holds(place_.code, Address(*method), 1)) return false;
  }
  return true;
}

bool ContextTree::has_methods(ContextKind kind, Address methods) {
  Address& known = methods_[static_cast<size_t>(kind)];
  if (known.is_null() && is_method_table(methods)) known = methods;
  return !known.is_null() && methods == known;
}

bool is_plain_text(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char character) {
    return character >= ' ' && character <= '~';
  });
}

std::string ContextTree::text_at(Address at, size_t longest) {
  std::string text(longest, '\0');
  text.resize(cache().read(at, std::as_writable_bytes(std::span(text))));
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

bool ContextTree::is_constant(Address at) const {
  const Mapping* const mapping = target_.address_space().find(at);
  return mapping != nullptr && mapping->readable && !mapping->writable && !mapping->path.empty();
}

std::string ContextTree::name_at(Address at) {
  constexpr size_t kLongest = 128;
  const auto [found, is_new] = names_.try_emplace(at.value());
  if (!is_new) return found->second;
  std::string& name = found->second;
  if (is_constant(at)) name = text_at(at, kLongest);
  if (!is_plain_text(name)) name = "(no name)";
  return name;
}

const char* ContextTree::add(const Link& link) {
  constexpr size_t kLongestIdent = 1023;  // MEMORY_CONTEXT_IDENT_DISPLAY_SIZE - 1
  constexpr size_t kLongestTable = 64;
  std::array<std::byte, 256> bytes{};
  const auto known = std::span(bytes).first(std::min<size_t>(layout_.context_size, bytes.size()));
  if (!link.to.is_aligned(8) || cache().read(link.to, known) != known.size()) {
    return "cannot be read";
  }
  const StructBytes words(known, 8);
  RuntimeContext context;
  context.at = link.to;
  context.parent = link.parent;
  context.level = link.level;
  context.kind = kind_of(words.int_at(0));
  if (context.kind == ContextKind::kUnknown) return "is no memory context of this version";
  if (!has_methods(context.kind, Address(words.word_at(layout_.context_methods)))) {
    return "has other functions than those of its kind";
  }
  if (Address(words.word_at(layout_.context_parent)) != link.parent_at) {
    return "has another parent";
  }
  if (Address(words.word_at(layout_.context_previous)) != link.previous) {
    return "has another one in front";
  }
  const Address ident(words.word_at(layout_.context_ident));
  context.name = name_at(Address(words.word_at(layout_.context_name)));
  const bool is_table = context.name == "dynahash";
  if (!ident.is_null() && is_table) {
    // What the code calls the hash table, as in pg_backend_memory_contexts.
    std::string table = text_at(ident, kLongestTable);
    if (is_plain_text(table)) context.name = std::move(table);
  } else if (!ident.is_null() && options_.keep_texts) {
    context.ident = text_at(ident, kLongestIdent);
  }
  const auto number = static_cast<int32_t>(found_.all.size());
  blocks_.read(context, static_cast<uint32_t>(number), words.word_at(layout_.context_allocated));
  found_.all.push_back(std::move(context));

  const Address child(words.word_at(layout_.context_first_child));
  const Address next(words.word_at(layout_.context_next));
  // The top has no siblings.
  if (!next.is_null() && !link.parent_at.is_null()) {
    links_.push_back({next, link.parent, link.parent_at, link.to, link.level});
  }
  if (!child.is_null()) links_.push_back({child, number, link.to, Address(), link.level + 1});
  return nullptr;
}

// Whether most contexts fit: a build that lays them out otherwise fits in none.
std::string ContextTree::check_all() {
  size_t damaged = 0;
  const RuntimeContext* first = nullptr;
  for (const RuntimeContext& context : found_.all) {
    if (context.problem.empty()) continue;
    if (first == nullptr) first = &context;
    ++damaged;
  }
  if (damaged * 2 <= found_.all.size()) return {};
  return std::to_string(damaged) + " of its " + std::to_string(found_.all.size()) +
         " memory contexts do not fit, so that it may be built with other options "
         "(--enable-cassert); of " +
         first->name + ", " + first->problem;
}

PostgresContexts ContextTree::read() {
  const auto top = cache().word(place_.top, 8);
  if (!top) {
    found_.why_not = "its TopMemoryContext cannot be read";
    return std::move(found_);
  }
  if (*top == 0) {
    found_.why_not = "it has no memory contexts yet";
    return std::move(found_);
  }
  links_.push_back({Address(*top), -1, Address(), Address(), 0});
  while (!links_.empty()) {
    check_end();
    if (options_.check) options_.check();
    const Link link = links_.back();
    links_.pop_back();
    const bool is_full = found_.all.size() >= PostgresContexts::kMost;
    const char* const what = is_full ? "is one more than heapsnap reads" : add(link);
    if (what == nullptr) continue;
    if (found_.all.empty()) {
      found_.why_not = "what its TopMemoryContext points to " + std::string(what);
      return std::move(found_);
    }
    RuntimeContext& parent = found_.all[static_cast<size_t>(link.parent)];
    if (parent.problem.empty()) {
      parent.problem = "its child at " + hex(link.to) + " " + what;
    }
    if (is_full) break;
  }
  found_.why_not = found_.all[0].name == "TopMemoryContext"
                       ? check_all()
                       : "its first memory context is called " + found_.all[0].name;
  found_.set_methods = methods_[static_cast<size_t>(ContextKind::kAllocSet)];
  found_.blocks = blocks_.all();
  std::sort(found_.blocks.begin(), found_.blocks.end(),
            [](const PostgresBlock& a, const PostgresBlock& b) { return a.at < b.at; });
  for (size_t i = 1; i < found_.blocks.size() && found_.why_not.empty(); ++i) {
    const PostgresBlock& before = found_.blocks[i - 1];
    if (found_.blocks[i].at - before.at < before.bytes) {
      found_.why_not = "two blocks of its memory contexts overlap at " + hex(found_.blocks[i].at);
    }
  }
  if (!found_.why_not.empty()) {
    found_.all.clear();
    found_.blocks.clear();
  }
  return std::move(found_);
}

}  // namespace

PostgresContexts read_postgres_contexts(Target& target, const PostgresPlace& place,
                                        const RuntimeOptions& options) {
  return ContextTree(target, place, options).read();
}

}  // namespace heapsnap
