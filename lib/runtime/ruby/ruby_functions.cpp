#include "runtime/ruby/ruby_functions.h"

#include <algorithm>
#include <utility>

#include "base/file_name.h"
#include "tracking/ruby_lines.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestLabel = 200;

// What a program calls a local variable: no operator, and nothing that Ruby has made up.
bool is_local_name(std::string_view name) {
  if (name.empty()) return false;
  const auto first = static_cast<unsigned char>(name.front());
  return (first >= 'a' && first <= 'z') || first == '_' || first >= 0x80;
}

}  // namespace

const RubyFunction* RubyFunctions::find(uint64_t iseq) {
  const auto known = known_.find(iseq);
  if (known != known_.end()) return known->second.get();
  if (known_.size() >= kMostFunctions) return nullptr;
  auto function = read(iseq);
  auto& kept = known_[iseq];
  if (function) kept = std::make_unique<RubyFunction>(std::move(*function));
  return kept.get();
}

std::optional<RubyFunction> RubyFunctions::read(uint64_t iseq) {
  constexpr uint64_t kMostLocals = 1 << 12;
  constexpr uint64_t kMostWords = 1 << 28;
  if (!RubyValue::is_object(iseq)) return std::nullopt;
  const auto flags = cache_.word(Address(iseq), 8);
  if (!flags || RubyValue::type_of(*flags) != RubyType::kImemo ||
      RubyValue::imemo_kind(*flags) != RubyValue::kImemoIseq) {
    return std::nullopt;
  }
  const auto body = cache_.word(Address(iseq) + layout_.iseq_body, 8);
  if (!body || !RubyValue::is_object(*body)) return std::nullopt;
  const auto word = [&](uint32_t offset, unsigned bytes = 8) {
    return cache_.word(Address(*body) + offset, bytes).value_or(0);
  };
  RubyFunction function;
  const auto label = classes_.text_of(word(layout_.code_label), kLongestLabel);
  if (!label || label->empty() || !RubyClasses::has_no_controls(*label)) return std::nullopt;
  // "<main>", "<class:Order>" are no calls.
  function.name = label->back() == '>' ? *label : *label + "()";
  function.file = file_of(word(layout_.code_path)).value_or("");
  function.code = Address(word(layout_.code_begin));
  function.code_words = std::min(word(layout_.code_size, 4), kMostWords);
  function.lines = Address(word(layout_.code_lines));
  function.line_count = std::min(word(layout_.code_line_count, 4), function.code_words);
  function.line_index = Address(word(layout_.code_line_index));
  const uint64_t locals = word(layout_.code_local_count, 4);
  const Address table(word(layout_.code_locals));
  if (locals > kMostLocals || (locals != 0 && table.is_null())) return std::nullopt;
  for (uint64_t i = 0; i < locals; ++i) {
    const auto id = cache_.word(table + i * 8, 8);
    if (!id) return std::nullopt;
    function.locals.push_back(local_of(*id));
  }
  return function;
}

std::optional<std::string> RubyFunctions::file_of(uint64_t path) {
  constexpr size_t kLongestPath = 4096;
  auto text = classes_.text_of(path, kLongestPath);
  // Or an array of the path as it was asked for, and the real one.
  if (!text) {
    const auto first = constants_.element(path, 0);
    if (first) text = classes_.text_of(*first, kLongestPath);
  }
  if (!text || !RubyClasses::has_no_controls(*text)) return std::nullopt;
  return std::string(file_name_of(*text));
}

std::string RubyFunctions::local_of(uint64_t id) {
  auto name = constants_.name_of(id >> RubyConstants::kScopeBits);
  if (!name || !is_local_name(*name) || !RubyClasses::has_no_controls(*name)) return {};
  if (name->size() > name_bytes_) return {};
  name_bytes_ -= name->size();
  return std::move(*name);
}

uint32_t RubyFunctions::line(const RubyFunction& function, uint64_t pc) {
  if (function.code.is_null() || function.lines.is_null()) return 0;
  const uint64_t begin = function.code.value();
  if (pc < begin) return 0;
  const auto word = [this](Address table) {
    return [this, table](uint64_t offset, unsigned bytes) {
      return table.is_null() ? std::nullopt : cache_.word(table + offset, bytes);
    };
  };
  const RubyLineTable table{function.code_words,       function.line_count,
                            layout_.line_bytes,        layout_.line_number,
                            layout_.line_index_blocks, layout_.line_index_block_bytes};
  return ruby_line(table, pc - begin, word(function.line_index), word(function.lines));
}

}  // namespace heapsnap
