#include "tools/heapsnap/option_parser.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <utility>

#include <boost/program_options.hpp>

#include "base/error.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "tools/heapsnap/nearest_word.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace po = boost::program_options;

namespace {

// Where the next parse() notes what it would accept; null: it parses.
UsageDescription* wanted_description = nullptr;

// `word` as a shell reads it; a name with dashes is an option, and no file.
std::string argument_text(const std::string& word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (word.empty()) return "''";
  if (dashes == word.size()) return word;
  return word.substr(0, dashes) + shell_word(word.substr(dashes), "WORD");
}

// An item of a list: "  NAME  what it means", the meaning in lines right of the name, or below it
// where that leaves too little room.
std::string list_item(const std::string& line, size_t indent, size_t width) {
  constexpr size_t kLeastRoom = 28;
  constexpr size_t kBelow = 6;
  std::string result;
  std::string front = line.substr(0, indent);
  if (indent > kBelow && indent + kLeastRoom > width) {
    result = front.substr(0, front.find_last_not_of(' ') + 1) + "\n";
    front.assign(kBelow, ' ');
  }
  for (const std::string& part : wrapped(line.substr(indent), width - front.size())) {
    result += front + part + "\n";
    front.assign(front.size(), ' ');
  }
  return result;
}

// Paragraphs and lists, broken into lines of `width` columns anew. A line that begins with blanks
// is an item, or goes on with the one before it; one that begins with more blanks than an item is
// an example, and stays as it is.
std::string refilled(const std::string& text, unsigned width) {
  constexpr size_t kExampleIndent = 4;
  std::string result;
  std::string pending;  // a paragraph, or an item
  size_t indent = 0;    // of the item's meaning; 0: a paragraph
  const auto flush = [&] {
    if (!pending.empty()) result += list_item(pending, indent, width);
    pending.clear();
    indent = 0;
  };
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) {
      flush();
      result += "\n";
    } else if (!pending.empty() && begin == indent) {
      pending += " " + line.substr(begin);
    } else if (begin >= kExampleIndent) {
      flush();
      result += line + "\n";
    } else {
      flush();
      pending = line;
      const size_t gap = begin == 0 ? std::string::npos : line.find("  ", begin);
      indent = gap == std::string::npos ? begin : line.find_first_not_of(' ', gap);
    }
  }
  flush();
  return result;
}

}  // namespace

struct OptionParser::State {
  std::string usage;
  std::string description;
  po::options_description options;
  po::options_description hidden;  // positional words, which --help shows in the usage line
  po::positional_options_description positional;
  std::vector<std::string>* command_line = nullptr;
  std::vector<std::pair<std::string, std::string>> examples;

  State(std::string usage_line, std::string text, unsigned width)
      : usage(std::move(usage_line)), description(std::move(text)), options("Options", width) {}

  // Of the command whose options these are.
  std::string name() const { return usage.substr(0, usage.find(' ')); }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kUsage, name(), why, "see: heapsnap " + name() + " --help");
  }

  [[noreturn]] void fail_of_unknown(const std::string& option) const {
    std::vector<std::string> known;
    for (const auto& each : options.options()) known.push_back("--" + each->long_name());
    const std::string meant = nearest_word(option, known);
    fail("there is no option " + argument_text(option) +
         (meant.empty() ? "" : "; did you mean " + meant + "?"));
  }

  UsageDescription describe() const {
    UsageDescription usage_description;
    for (const auto& option : options.options()) {
      // A letter comes with its dash; an option without a letter gives its name there, too.
      const std::string letter =
          option->canonical_display_name(po::command_line_style::allow_dash_for_short);
      const bool takes_value = option->semantic()->max_tokens() > 0;
      usage_description.options.push_back(
          {.name = option->long_name(),
           .letter = letter.size() == 2 ? letter.substr(1) : std::string(),
           .placeholder = takes_value ? option->format_parameter() : std::string(),
           .help = option->description()});
    }
    for (const auto& word : hidden.options()) {
      usage_description.positional.push_back(word->long_name());
    }
    return usage_description;
  }

  // The option that `word` gives, with its value or without; null where it gives none.
  const po::option_description* option_of(std::string_view word) const {
    const bool is_long = word.starts_with("--");
    if (!is_long && (word.size() != 2 || word.front() != '-')) return nullptr;
    const std::string_view spelling = is_long ? word.substr(2, word.find('=') - 2) : word;
    if (spelling.empty()) return nullptr;
    return options.find_nothrow(std::string(spelling), false);
  }

  // Whether the word after `word` is the value of the option that `word` gives.
  bool takes_next_word(std::string_view word) const {
    const po::option_description* const option = option_of(word);
    if (option == nullptr || option->semantic()->max_tokens() == 0) return false;
    return word.find('=') == std::string_view::npos;
  }

  // Moves the command line of the other program from `words` to where it is wanted.
  void split_command_line(std::vector<std::string>& words) const {
    auto begin = words.begin();
    while (begin != words.end() && begin->size() > 1 && begin->front() == '-' && *begin != "--") {
      begin += takes_next_word(*begin) && words.end() - begin > 1 ? 2 : 1;
    }
    const bool has_dashes = begin != words.end() && *begin == "--";
    command_line->assign(begin + (has_dashes ? 1 : 0), words.end());
    words.erase(begin, words.end());
    if (!has_dashes) refuse_ambiguous(words);
  }

  // Throws when a word of the command line could be an option of this command, too.
  void refuse_ambiguous(const std::vector<std::string>& own) const {
    const auto option =
        std::find_if(command_line->begin(), command_line->end(),
                     [this](const std::string& word) { return option_of(word) != nullptr; });
    if (option == command_line->end()) return;
    const bool takes_next = takes_next_word(*option);
    const bool lacks_value = takes_next && command_line->end() - option == 1;
    const auto rest = option + (takes_next && !lacks_value ? 2 : 1);
    const auto words_of = [](auto begin, auto end) {
      std::string text;
      for (; begin != end; ++begin) text += " " + argument_text(*begin);
      return text;
    };
    const std::string start = "heapsnap " + name() + words_of(own.begin(), own.end());
    const std::string theirs = start + " --" + words_of(command_line->begin(), command_line->end());
    const std::string value = lacks_value ? " " + option_of(*option)->format_parameter() : "";
    const std::string ours = start + words_of(option, rest) + value + " --" +
                             words_of(command_line->begin(), option) +
                             words_of(rest, command_line->end());
    throw Error(
        ErrorKind::kUsage, name(),
        fmt::format("{} may be meant for heapsnap or for {}", *option, command_line->front()),
        fmt::format("for the program: {}; for heapsnap: {}", theirs, ours));
  }

  void print_help() const {
    std::ostringstream table;
    table << options;
    const unsigned width = terminal_width(STDOUT_FILENO);
    fmt::print("Usage: heapsnap {}\n\n{}\n{}", usage, refilled(description, width), table.str());
    if (!examples.empty()) fmt::print("\nExamples:\n");
    for (const auto& [command_line, purpose] : examples) {
      fmt::print("  {}\n", command_line);  // never broken: it is there to be copied
      for (const std::string& line : wrapped(purpose, width - 6)) fmt::print("      {}\n", line);
    }
  }
};

OptionParser::OptionParser(std::string usage, std::string description)
    : state_(std::make_unique<State>(std::move(usage), std::move(description),
                                     terminal_width(STDOUT_FILENO))) {}

OptionParser::~OptionParser() = default;

void OptionParser::flag(const char* name, bool& value, const char* help) {
  state_->options.add_options()(name, po::bool_switch(&value), help);
}

void OptionParser::text(const char* name, std::string& value, const char* placeholder,
                        const char* help) {
  state_->options.add_options()(name, po::value(&value)->value_name(placeholder), help);
}

void OptionParser::texts(const char* name, std::vector<std::string>& values,
                         const char* placeholder, const char* help) {
  state_->options.add_options()(name, po::value(&values)->value_name(placeholder)->composing(),
                                help);
}

void OptionParser::number(const char* name, uint64_t& value, const char* placeholder,
                          const char* help) {
  // Not as a number of Boost's, which takes -1 for a very large one.
  const auto read = [this, &value, placeholder,
                     option = std::string(name, std::strcspn(name, ","))](const std::string& text) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && rest == text.data() + text.size()) return;
    state_->fail(
        fmt::format("--{} takes a whole number ({}), not '{}'", option, placeholder, text));
  };
  state_->options.add_options()(
      name, po::value<std::string>()->value_name(placeholder)->notifier(read), help);
}

void OptionParser::positional(const char* placeholder, std::string& value) {
  state_->hidden.add_options()(placeholder, po::value(&value));
  state_->positional.add(placeholder, 1);
}

void OptionParser::positionals(const char* placeholder, std::vector<std::string>& values) {
  state_->hidden.add_options()(placeholder, po::value(&values)->composing());
  state_->positional.add(placeholder, -1);
}

void OptionParser::command_line(std::vector<std::string>& words) {
  state_->command_line = &words;
}

void OptionParser::example(std::string command_line, std::string purpose) {
  state_->examples.emplace_back(std::move(command_line), std::move(purpose));
}

bool OptionParser::parse(const std::vector<std::string>& arguments) {
  bool help = false;
  flag("help,h", help, "print this help");
  if (wanted_description != nullptr) {
    *wanted_description = state_->describe();
    return false;
  }
  std::vector<std::string> words = arguments;
  if (state_->command_line != nullptr) state_->split_command_line(words);
  try {
    po::options_description all;
    all.add(state_->options).add(state_->hidden);
    po::variables_map values;
    // Guessing turns a typing error into another option.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(words)
                  .options(all)
                  .positional(state_->positional)
                  .style(style)
                  .run(),
              values);
    po::notify(values);
  } catch (const po::too_many_positional_options_error&) {
    const size_t most = state_->positional.max_total_count();
    state_->fail(most == 0 ? "it takes options only, and was given something else"
                 : most == 1
                     ? fmt::format("it takes one {}, and was given more",
                                   state_->positional.name_for_position(0))
                     : fmt::format("it takes {} words besides options, and was given more", most));
  } catch (const po::unknown_option& error) {
    state_->fail_of_unknown(error.get_option_name());
  } catch (const po::error& error) {
    state_->fail(error.what());
  }
  if (help) state_->print_help();
  return !help;
}

UsageDescription OptionParser::describe(int (*run)(const std::vector<std::string>&)) {
  UsageDescription description;
  wanted_description = &description;
  try {
    run({});
  } catch (...) {
    wanted_description = nullptr;
    throw;
  }
  wanted_description = nullptr;
  return description;
}

void check_choice(const std::string& option, const std::string& text,
                  std::initializer_list<std::string_view> choices) {
  std::string list;
  for (const std::string_view choice : choices) {
    if (text == choice) return;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  throw Error(ErrorKind::kUsage, option + " " + text, "not one of " + list,
              "for example: " + option + " " + std::string(*choices.begin()));
}

}  // namespace heapsnap
