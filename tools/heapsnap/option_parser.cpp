#include "tools/heapsnap/option_parser.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>
#include <utility>

#include <boost/program_options.hpp>

#include "base/error.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace po = boost::program_options;

namespace {

// Where the next parse() notes what it would accept; null: it parses.
UsageDescription* wanted_description = nullptr;

}  // namespace

struct OptionParser::State {
  std::string usage;
  std::string description;
  po::options_description options;
  po::options_description hidden;  // positional words, which --help shows in the usage line
  po::positional_options_description positional;
  std::vector<std::pair<std::string, std::string>> examples;

  State(std::string usage_line, std::string text, unsigned width)
      : usage(std::move(usage_line)), description(std::move(text)), options("Options", width) {}

  [[noreturn]] void fail(const std::string& why) const {
    const std::string command = usage.substr(0, usage.find(' '));
    throw Error(ErrorKind::kUsage, command, why, "see: heapsnap " + command + " --help");
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

  void print_help() const {
    std::ostringstream table;
    table << options;
    fmt::print("Usage: heapsnap {}\n\n{}\n\n{}", usage, description, table.str());
    if (!examples.empty()) fmt::print("\nExamples:\n");
    for (const auto& [command_line, purpose] : examples) {
      fmt::print("  {}\n      {}\n", command_line, purpose);
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
  state_->options.add_options()(name, po::value(&value)->value_name(placeholder), help);
}

void OptionParser::positional(const char* placeholder, std::string& value) {
  state_->hidden.add_options()(placeholder, po::value(&value));
  state_->positional.add(placeholder, 1);
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
  try {
    po::options_description all;
    all.add(state_->options).add(state_->hidden);
    po::variables_map values;
    // Guessing turns a typing error into another option.
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments)
                  .options(all)
                  .positional(state_->positional)
                  .style(style)
                  .run(),
              values);
    po::notify(values);
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

}  // namespace heapsnap
