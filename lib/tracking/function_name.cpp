#include "tracking/function_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

namespace heapsnap {

namespace {

// Longest first.
constexpr std::string_view kOperators[] = {
    "<=>", "->*", "<<=", ">>=", "()", "[]", "->", "++", "--", "<<", ">>", "<=", ">=",
    "==",  "!=",  "&&",  "||",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "+",
    "-",   "*",   "/",   "%",   "^",  "&",  "|",  "~",  "!",  "=",  "<",  ">",  ","};
constexpr std::string_view kAnonymous = "(anonymous namespace)";
constexpr std::string_view kOperator = "operator";

bool is_identifier(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '$' ||
         static_cast<unsigned char>(letter) >= 0x80;
}

// Where the bracket at `open` is closed: behind its partner, or the end of the text.
size_t behind_partner(std::string_view text, size_t open) {
  const char opening = text[open];
  const char closing = opening == '<' ? '>' : opening == '(' ? ')' : opening == '{' ? '}' : ']';
  size_t depth = 0;
  size_t parentheses = 0;  // inside of which < and > compare
  for (size_t i = open; i < text.size(); ++i) {
    const char letter = text[i];
    if (opening == '<') {
      if (letter == '(') ++parentheses;
      if (letter == ')' && parentheses > 0) --parentheses;
      if (parentheses > 0 || (letter == '>' && text[i - 1] == '-')) continue;
    }
    if (letter == opening) ++depth;
    if (letter == closing && --depth == 0) return i + 1;
  }
  return text.size();
}

class NameParser {
 public:
  explicit NameParser(std::string_view name) : name_(name) {}

  NameParts parse() {
    while (at_ < name_.size() && step()) {
    }
    end_text();
    NameParts parts;
    parts.type = trimmed(name_.substr(0, path_begin_));
    parts.suffix = trimmed(name_.substr(at_));
    parts.path = std::move(path_);
    return parts;
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
  }

  void end_text() {
    if (at_ > text_begin_) {
      path_.push_back({NamePiece::Kind::kText, name_.substr(text_begin_, at_ - text_begin_)});
    }
    text_begin_ = at_;
  }
  void add_group(NamePiece::Kind kind) {
    end_text();
    at_ = behind_partner(name_, at_);
    path_.push_back({kind, name_.substr(text_begin_, at_ - text_begin_)});
    text_begin_ = at_;
  }
  // All up to here was no path.
  void restart() {
    path_.clear();
    has_parameters_ = is_conversion_ = false;
    path_begin_ = text_begin_ = at_;
  }
  // Nothing of a part between two "::" has come yet.
  bool is_component_begin() const {
    return at_ == path_begin_ || (at_ > text_begin_ && name_[at_ - 1] == ':');
  }
  bool stands_here(std::string_view text) const { return name_.substr(at_).starts_with(text); }

  // Takes something. False: the rest is a suffix.
  bool step() {
    const char letter = name_[at_];
    if (letter == ' ') return take_blank();
    if (letter == '[') {
      if (at_ == path_begin_) return ++at_, true;
      end_text();
      text_begin_ = at_ = behind_partner(name_, at_);  // [abi:cxx11]
      return true;
    }
    if (letter == '<') {
      if (is_component_begin()) {  // <A as B>::f, <lambda()>
        at_ = behind_partner(name_, at_);
      } else {
        add_group(NamePiece::Kind::kTemplateArguments);
      }
      return true;
    }
    if (letter == '{') return at_ = behind_partner(name_, at_), true;
    if (letter == '(') return take_parenthesis();
    const bool is_word_begin = at_ == 0 || !is_identifier(name_[at_ - 1]);
    if (is_word_begin && stands_here(kOperator)) return take_operator();
    ++at_;
    return true;
  }

  bool take_blank() {
    if (is_conversion_ && !has_parameters_) return ++at_, true;
    if (has_parameters_) return false;
    ++at_;
    restart();
    return true;
  }

  bool take_parenthesis() {
    if (stands_here(kAnonymous)) return at_ += kAnonymous.size(), true;
    // What a function returns that is given by an expression or is a pointer to a function.
    const bool is_type =
        at_ == path_begin_ || name_.substr(path_begin_, at_ - path_begin_) == "decltype";
    if (is_type) {
      at_ = behind_partner(name_, at_);
      return true;
    }
    add_group(NamePiece::Kind::kParameters);
    has_parameters_ = !stands_here("::");
    return true;
  }

  bool take_operator() {
    at_ += kOperator.size();
    if (at_ == name_.size() || is_identifier(name_[at_])) return true;
    for (const std::string_view word :
         {" new[]", " new", " delete[]", " delete", "\"\" ", "\"\""}) {
      if (stands_here(word)) return at_ += word.size(), true;
    }
    for (const std::string_view sign : kOperators) {
      if (stands_here(sign)) {
        at_ += sign.size();
        // "operator< <int>"
        if (stands_here(" <")) {
          end_text();
          text_begin_ = ++at_;
          add_group(NamePiece::Kind::kTemplateArguments);
        }
        return true;
      }
    }
    is_conversion_ = name_[at_] == ' ';
    return true;
  }

  std::string_view name_;
  size_t at_ = 0;
  size_t path_begin_ = 0;
  size_t text_begin_ = 0;  // of the text that is not yet in path_
  bool has_parameters_ = false;
  bool is_conversion_ = false;  // "operator unsigned long"
  std::vector<NamePiece> path_;
};

// Text of a path in which < and { are no template arguments ("<A<int> as B>", "{lambda(int)#1}"):
// keeps these brackets, and drops template arguments and parameters inside of them.
void append_plain(std::string_view text, std::string& to, int depth) {
  constexpr int kDeepest = 4;
  for (size_t i = 0; i < text.size();) {
    const bool is_group =
        (text[i] == '<' || text[i] == '{') && depth < kDeepest && behind_partner(text, i) > i + 2;
    if (!is_group) {
      to += text[i++];
      continue;
    }
    const size_t end = behind_partner(text, i);
    to += text[i];
    // "A<int> as B<int>": two names.
    std::string_view inner = text.substr(i + 1, end - i - 2);
    constexpr std::string_view kAs = " as ";
    for (size_t begin = 0; begin <= inner.size();) {
      size_t stop = begin;
      while (stop < inner.size() && !inner.substr(stop).starts_with(kAs)) {
        const bool is_bracket =
            std::string_view("<({[").find(inner[stop]) != std::string_view::npos;
        stop = is_bracket ? behind_partner(inner, stop) : stop + 1;
      }
      const NameParts parts = parts_of_name(inner.substr(begin, stop - begin));
      if (!parts.type.empty()) to += std::string(parts.type) + " ";
      for (const NamePiece& piece : parts.path) {
        if (piece.kind == NamePiece::Kind::kText) append_plain(piece.text, to, depth + 1);
      }
      if (stop < inner.size()) to += kAs;
      begin = stop == inner.size() ? stop + 1 : stop + kAs.size();
    }
    to += text[end - 1];
    i = end;
  }
}

// Where the suffix that a compiler or linker appended to the name of a C function starts.
size_t clone_suffix(std::string_view name) {
  constexpr std::array<std::string_view, 8> kSuffixes = {
      ".part.", ".isra.", ".constprop.", ".cold", ".lto_priv.", ".llvm.", ".localalias", "@"};
  size_t end = name.size();
  for (const std::string_view suffix : kSuffixes) end = std::min(end, name.find(suffix));
  return end;
}

std::string_view last_parts(std::string_view path, size_t parts) {
  size_t begin = path.size();
  for (; parts > 0; --parts) {
    if (begin == 0) return path;
    begin = path.rfind('/', begin - 1);
    if (begin == std::string_view::npos) return path;
  }
  return path.substr(begin + 1);
}

}  // namespace

std::string name_of_start(std::string_view module_label, uint64_t begin) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), begin, 16).ptr;
  return std::string(module_label) + "+0x" + std::string(digits.data(), end) + "()";
}

bool is_name_of_start(std::string_view function) {
  constexpr std::string_view kEnd = "()";
  if (!function.ends_with(kEnd)) return false;
  function.remove_suffix(kEnd.size());
  const size_t sign = function.rfind("+0x");
  if (sign == std::string_view::npos || sign == 0) return false;
  const std::string_view digits = function.substr(sign + 3);
  return !digits.empty() && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string> module_labels(const std::vector<TrackedModule>& modules) {
  constexpr size_t kMostParts = 4;
  std::vector<std::string> labels(modules.size(), "program");
  std::vector<size_t> open;  // that have no label of their own yet
  for (size_t i = 0; i < modules.size(); ++i) {
    if (!modules[i].path.empty()) open.push_back(i);
  }
  for (size_t parts = 1; !open.empty(); ++parts) {
    std::unordered_map<std::string_view, std::string_view> path_of;  // by label; empty: of several
    for (const size_t i : open) {
      const std::string_view path = modules[i].path;
      const auto [known, is_new] = path_of.try_emplace(last_parts(path, parts), path);
      if (known->second != path) known->second = {};
    }
    std::vector<size_t> still_open;
    for (const size_t i : open) {
      const std::string_view label = last_parts(modules[i].path, parts);
      const bool is_clear = !path_of[label].empty() || label == modules[i].path;
      if (parts < kMostParts && !is_clear) {
        still_open.push_back(i);
      } else {
        labels[i] = is_clear ? std::string(label) : modules[i].path;
      }
    }
    open = std::move(still_open);
  }
  return labels;
}

NameParts parts_of_name(std::string_view function) {
  return NameParser(function).parse();
}

std::string plain_name(std::string_view function) {
  std::string plain;
  for (const NamePiece& piece : parts_of_name(function).path) {
    if (piece.kind == NamePiece::Kind::kText) append_plain(piece.text, plain, 0);
  }
  const std::string scope = std::string(kAnonymous) + "::";
  for (size_t at = 0; (at = plain.find(scope, at)) != std::string::npos;)
    plain.erase(at, scope.size());
  plain.resize(clone_suffix(plain));
  return plain;
}

}  // namespace heapsnap
