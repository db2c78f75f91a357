// Completion scripts for shells, generated from the options that the commands declare.
#pragma once

#include <string>
#include <vector>

#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

struct CompletedCommand {
  std::string name;
  std::string summary;
  UsageDescription usage;
};

// What can stand where a placeholder stands in --help ("FILE", "PID", "WHEN").
struct CompletedValue {
  enum class Kind { kAnything, kWords, kFile, kFolder, kProcess };
  Kind kind = Kind::kAnything;
  std::vector<std::string> words;  // of kWords
};
CompletedValue completed_value(const std::string& placeholder);

// Each gives a whole script, to be sourced or put where the shell looks for it.
std::string bash_completions(const std::vector<CompletedCommand>& commands);
std::string zsh_completions(const std::vector<CompletedCommand>& commands);
std::string fish_completions(const std::vector<CompletedCommand>& commands);

}  // namespace heapsnap
