// The options of one command: the values they set, their text in --help, and errors in their use.
//
//   OptionParser parser("attach [options] PID", "Freezes a process ...");
//   parser.flag("json,j", json, "print JSON");
//   parser.text("output,o", output, "FILE", "where to write");
//   parser.positional("PID", target);
//   if (!parser.parse(arguments)) return kExitDone;  // --help was printed
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heapsnap {

// What a command accepts, for those who have to know it without running it (completions).
struct OptionDescription {
  std::string name;         // "output"
  std::string letter;       // "o"; empty when it has none
  std::string placeholder;  // "FILE"; empty for a flag
  std::string help;
};
struct UsageDescription {
  std::vector<OptionDescription> options;
  std::vector<std::string> positional;  // their placeholders, in order
};

class OptionParser {
 public:
  // `usage` follows "Usage: heapsnap "; `description` is the text of --help above the options.
  OptionParser(std::string usage, std::string description);
  ~OptionParser();

  // `name` is "long" or "long,s". The referenced values keep what they hold when the option is not
  // given, and must outlive parse().
  void flag(const char* name, bool& value, const char* help);
  void text(const char* name, std::string& value, const char* placeholder, const char* help);
  void texts(const char* name, std::vector<std::string>& values, const char* placeholder,
             const char* help);
  void number(const char* name, uint64_t& value, const char* placeholder, const char* help);
  // A word without dashes; taken in the order of these calls.
  void positional(const char* placeholder, std::string& value);
  // All words without dashes; last of these calls.
  void positionals(const char* placeholder, std::vector<std::string>& values);
  // A command line of another program, which begins at "--" or else at the first word that is no
  // option; --help does not show it, the usage line does. Without "--", a word in it that could be
  // an option of this command is an error that shows how to write either.
  void command_line(std::vector<std::string>& words);

  // Examples, printed last by --help: command lines with what they are for.
  void example(std::string command_line, std::string purpose);

  // False when --help was asked for, and printed. Throws Error{kUsage}.
  bool parse(const std::vector<std::string>& arguments);

  // Runs a command only up to its parse(), which notes what it would accept and gives false.
  static UsageDescription describe(int (*run)(const std::vector<std::string>& arguments));

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Throws Error{kUsage} when the value of an option ("--sort") is none of these.
void check_choice(const std::string& option, const std::string& text,
                  std::initializer_list<std::string_view> choices);

}  // namespace heapsnap
