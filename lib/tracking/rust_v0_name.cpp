#include "tracking/rust_v0_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "tracking/unicode_text.h"

namespace heapsnap {

namespace {

constexpr size_t kLongestResult = 8 << 10;
constexpr unsigned kMostNested = 128;
constexpr unsigned kMostSteps = 20'000;

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// Of types that are a letter, 'a' to 'z'; empty for the letters that are none.
constexpr std::array<std::string_view, 26> kBasicTypes = {
    "i8",   "bool", "char", "f64", "str", "f32", "",    "u8", "isize", "usize", "",    "i32", "u32",
    "i128", "u128", "_",    "",    "",    "i16", "u16", "()", "...",   "",      "i64", "u64", "!"};

// Each method reads one rule of the grammar and writes what it means. `failed_` ends everything.
class V0Demangler {
 public:
  explicit V0Demangler(std::string_view text) : text_(text) {}

  std::optional<std::string> run() {
    if (is_digit(peek())) return std::nullopt;  // of a version that is not known
    path();
    // The crate that made the instance of a generic function.
    if (!failed_ && at_ < text_.size() && peek() >= 'A' && peek() <= 'Z') {
      is_silent_ = true;
      path();
    }
    if (failed_ || (at_ < text_.size() && peek() != '.' && peek() != '$' && peek() != '@')) {
      return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  struct Identifier {
    uint64_t disambiguator = 0;
    std::string_view text;
    bool is_punycode = false;
  };
  // One level of what may hold itself.
  class Level {
   public:
    explicit Level(V0Demangler& of) : of_(of) {
      if (++of_.depth_ > kMostNested || ++of_.steps_ > kMostSteps) of_.failed_ = true;
    }
    ~Level() { --of_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    V0Demangler& of_;
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    if (at_ == text_.size()) {
      failed_ = true;
      return '\0';
    }
    return text_[at_++];
  }
  bool take(char letter) {
    if (failed_ || peek() != letter || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  void write(std::string_view text) {
    if (is_silent_ || failed_) return;
    if (text.size() > kLongestResult - out_.size()) {
      failed_ = true;
      return;
    }
    out_ += text;
  }
  void write_number(uint64_t number) { write(std::to_string(number)); }

  // "_" is 0, "0_" 1, "z_" 36, ...
  uint64_t base_62_number() {
    if (take('_')) return 0;
    uint64_t number = 0;
    while (!failed_) {
      const char letter = next();
      if (letter == '_') break;
      constexpr std::string_view kDigits =
          "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
      const uint64_t digit = kDigits.find(letter);
      if (digit >= kDigits.size()) {
        failed_ = true;
        break;
      }
      if (number > (UINT64_MAX - digit - 1) / 62) failed_ = true;
      number = number * 62 + digit;
    }
    return failed_ ? 0 : number + 1;
  }
  // A number behind a letter that says that it is there.
  uint64_t optional_number(char letter) {
    if (!take(letter)) return 0;
    const uint64_t number = base_62_number();
    return number == UINT64_MAX ? 0 : number + 1;
  }

  Identifier identifier() {
    Identifier result;
    result.disambiguator = optional_number('s');
    plain_identifier(result);
    return result;
  }
  void plain_identifier(Identifier& to) {
    to.is_punycode = take('u');
    if (!is_digit(peek())) {
      failed_ = true;
      return;
    }
    size_t length = 0;
    if (!take('0')) {
      while (is_digit(peek())) {
        length = length * 10 + static_cast<size_t>(next() - '0');
        if (length > text_.size()) break;
      }
    }
    take('_');
    if (length > text_.size() - at_) {
      failed_ = true;
      return;
    }
    to.text = text_.substr(at_, length);
    at_ += length;
  }
  void write_identifier(const Identifier& name) {
    if (!name.is_punycode) return write(name.text);
    write(decoded_punycode(name.text).value_or(std::string(name.text)));
  }

  // Goes on at an earlier place, and comes back.
  template <typename Read>
  void back_reference(Read read) {
    const size_t begin = at_ - 1;
    const uint64_t target = base_62_number();
    if (failed_ || target >= begin) {
      failed_ = true;
      return;
    }
    // What is not printed was seen to make sense where it stands.
    if (is_silent_) return;
    const size_t after = at_;
    at_ = static_cast<size_t>(target);
    read();
    at_ = after;
  }

  void path() {
    const Level level(*this);
    if (failed_) return;
    switch (next()) {
      case 'C': return write_identifier(identifier());
      case 'M':
        impl_path();
        write("<");
        type();
        return write(">");
      case 'X': impl_path(); [[fallthrough]];
      case 'Y':
        write("<");
        type();
        write(" as ");
        path();
        return write(">");
      case 'N': return nested_path();
      case 'I':
        path();
        write("<");
        list('E', [this] { generic_argument(); });
        return write(">");
      case 'B': return back_reference([this] { path(); });
      default: failed_ = true;
    }
  }
  void impl_path() {
    const bool was_silent = is_silent_;
    is_silent_ = true;
    optional_number('s');
    path();
    is_silent_ = was_silent;
  }
  void nested_path() {
    const char space = next();
    const bool is_special = space >= 'A' && space <= 'Z';
    if (!is_special && (space < 'a' || space > 'z')) failed_ = true;
    path();
    const Identifier name = identifier();
    if (!is_special) {
      if (name.text.empty()) return;
      write("::");
      return write_identifier(name);
    }
    write("::{");
    write(space == 'C' ? "closure" : space == 'S' ? "shim" : std::string_view(&space, 1));
    if (!name.text.empty()) {
      write(":");
      write_identifier(name);
    }
    write("#");
    write_number(name.disambiguator);
    write("}");
  }

  template <typename Read>
  size_t list(char end, Read read) {
    size_t count = 0;
    while (!failed_ && !take(end)) {
      if (count++ != 0) write(", ");
      read();
    }
    return count;
  }

  template <typename Read>
  void tuple(Read read) {
    write("(");
    const size_t count = list('E', read);
    write(count == 1 ? ",)" : ")");
  }

  void generic_argument() {
    if (take('L')) return lifetime(base_62_number());
    if (take('K')) return constant();
    type();
  }
  void lifetime(uint64_t index) {
    if (index == 0) return write("'_");
    if (index > lifetimes_) {
      failed_ = true;
      return;
    }
    write_lifetime(lifetimes_ - index);
  }
  void write_lifetime(uint64_t depth) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
    write("'");
    write(depth < kLetters.size() ? std::string(1, kLetters[depth]) : "_" + std::to_string(depth));
  }

  // for<'a, 'b> in front of what `read` reads.
  template <typename Read>
  void with_binder(Read read) {
    const uint64_t count = optional_number('G');
    constexpr uint64_t kMostLifetimes = 256;
    if (count > kMostLifetimes || lifetimes_ > kMostLifetimes) failed_ = true;
    if (failed_) return;
    if (count > 0) {
      write("for<");
      for (uint64_t i = 0; i < count; ++i) {
        if (i != 0) write(", ");
        write_lifetime(lifetimes_ + i);
      }
      write("> ");
    }
    lifetimes_ += count;
    read();
    lifetimes_ -= count;
  }

  void type() {
    const Level level(*this);
    if (failed_) return;
    const char letter = next();
    const bool is_basic = letter >= 'a' && letter <= 'z';
    if (is_basic && !kBasicTypes[static_cast<size_t>(letter - 'a')].empty()) {
      return write(kBasicTypes[static_cast<size_t>(letter - 'a')]);
    }
    switch (letter) {
      case 'A':
        write("[");
        type();
        write("; ");
        constant();
        return write("]");
      case 'S':
        write("[");
        type();
        return write("]");
      case 'T': return tuple([this] { type(); });
      case 'R':
      case 'Q':
        write("&");
        if (take('L')) {
          if (const uint64_t index = base_62_number(); index != 0) {
            lifetime(index);
            write(" ");
          }
        }
        if (letter == 'Q') write("mut ");
        return type();
      case 'P': write("*const "); return type();
      case 'O': write("*mut "); return type();
      case 'F': return with_binder([this] { function_signature(); });
      case 'D':
        write("dyn ");
        with_binder([this] { bounds(); });
        if (!take('L')) {
          failed_ = true;
          return;
        }
        if (const uint64_t index = base_62_number(); index != 0) {
          write(" + ");
          lifetime(index);
        }
        return;
      case 'B': return back_reference([this] { type(); });
      default: --at_; return path();
    }
  }

  void function_signature() {
    if (take('U')) write("unsafe ");
    if (take('K')) {
      write("extern \"");
      if (take('C')) {
        write("C");
      } else {
        Identifier abi;
        plain_identifier(abi);
        std::string name(abi.text);
        for (char& letter : name) letter = letter == '_' ? '-' : letter;
        write(name);
      }
      write("\" ");
    }
    write("fn(");
    list('E', [this] { type(); });
    write(")");
    if (take('u')) return;
    write(" -> ");
    type();
  }

  void bounds() {
    size_t count = 0;
    while (!failed_ && !take('E')) {
      if (count++ != 0) write(" + ");
      bool has_arguments = path_left_open();
      while (!failed_ && take('p')) {
        write(has_arguments ? ", " : "<");
        has_arguments = true;
        Identifier name;
        plain_identifier(name);
        write_identifier(name);
        write(" = ");
        type();
      }
      if (has_arguments) write(">");
    }
  }
  // A path, but for the bracket that closes its generic arguments. Whether there are any.
  bool path_left_open() {
    const Level level(*this);
    if (failed_) return false;
    if (take('B')) {
      bool is_open = false;
      back_reference([&] { is_open = path_left_open(); });
      return is_open;
    }
    if (take('I')) {
      path();
      write("<");
      list('E', [this] { generic_argument(); });
      return true;
    }
    path();
    return false;
  }

  // The digits of a constant, up to "_".
  std::string_view hex_number() {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_not_of("0123456789abcdef", at_), text_.size());
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (!take('_')) failed_ = true;
    return digits;
  }
  static std::optional<uint64_t> small_number(std::string_view digits) {
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
    if (digits.size() > 16) return std::nullopt;
    uint64_t number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
    return number;
  }

  void constant() {
    const Level level(*this);
    if (failed_) return;
    const char letter = next();
    constexpr std::string_view kSigned = "aslxni";
    constexpr std::string_view kUnsigned = "htmyoj";
    if (kSigned.find(letter) != std::string_view::npos) {
      if (take('n')) write("-");
      return number_constant();
    }
    if (kUnsigned.find(letter) != std::string_view::npos) return number_constant();
    switch (letter) {
      case 'p': return write("_");
      case 'B': return back_reference([this] { constant(); });
      case 'b': {
        const auto number = small_number(hex_number());
        if (!number || *number > 1) failed_ = true;
        return write(failed_ || *number == 0 ? "false" : "true");
      }
      case 'c': {
        const auto number = small_number(hex_number());
        if (failed_ || !number || *number > UINT32_MAX ||
            !is_scalar_value(static_cast<uint32_t>(*number))) {
          failed_ = true;
          return;
        }
        std::string text = "'";
        append_utf8(static_cast<uint32_t>(*number), text);
        return write(text + "'");
      }
      case 'e': return string_constant();
      case 'R':
      case 'Q':
        if (letter == 'R' && take('e')) return string_constant();
        write(letter == 'R' ? "&" : "&mut ");
        return constant();
      case 'A':
        write("[");
        list('E', [this] { constant(); });
        return write("]");
      case 'T': return tuple([this] { constant(); });
      case 'V': return variant();
      default: failed_ = true;
    }
  }
  void number_constant() {
    const std::string_view digits = hex_number();
    if (const auto number = small_number(digits)) return write_number(*number);
    write("0x");
    write(digits);
  }
  void string_constant() {
    const std::string_view digits = hex_number();
    if (digits.size() % 2 != 0) failed_ = true;
    write("\"");
    for (size_t i = 0; !failed_ && i < digits.size(); i += 2) {
      const char byte = static_cast<char>(*small_number(digits.substr(i, 2)));
      write({&byte, 1});
    }
    write("\"");
  }
  void variant() {
    path();
    switch (next()) {
      case 'U': return;
      case 'T':
        write("(");
        list('E', [this] { constant(); });
        return write(")");
      case 'S':
        write(" { ");
        list('E', [this] {
          write_identifier(identifier());
          write(": ");
          constant();
        });
        return write(" }");
      default: failed_ = true;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
  bool failed_ = false;
  bool is_silent_ = false;
  unsigned depth_ = 0;
  unsigned steps_ = 0;
  uint64_t lifetimes_ = 0;  // that binders around have introduced
};

}  // namespace

std::optional<std::string> rust_v0_name(std::string_view mangled) {
  return V0Demangler(mangled).run();
}

}  // namespace heapsnap
