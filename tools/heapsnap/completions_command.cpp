#include <unistd.h>

#include "base/error.h"
#include "report/writer.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/completion_scripts.h"
#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

namespace {

constexpr const char* kCompletionsDescription =
    "Prints a script that completes commands, options and their values, for bash, zsh or fish.";

std::vector<CompletedCommand> completed_commands() {
  std::vector<CompletedCommand> completed;
  for (const Command& command : commands()) {
    completed.push_back({command.name, command.summary, OptionParser::describe(command.run)});
  }
  return completed;
}

std::string script_for(const std::string& shell) {
  if (shell == "bash") return bash_completions(completed_commands());
  if (shell == "zsh") return zsh_completions(completed_commands());
  if (shell == "fish") return fish_completions(completed_commands());
  throw Error(ErrorKind::kUsage, "completions",
              shell.empty() ? "it needs the name of a shell" : "unsupported shell: " + shell,
              "heapsnap completions bash, zsh or fish");
}

}  // namespace

int run_completions(const std::vector<std::string>& arguments) {
  std::string shell;
  OptionParser parser("completions bash|zsh|fish", kCompletionsDescription);
  parser.positional("SHELL", shell);
  parser.example("source <(heapsnap completions bash)", "for this shell; in ~/.bashrc, for all");
  parser.example("heapsnap completions zsh > ~/.zfunc/_heapsnap",
                 "with fpath+=~/.zfunc before compinit in ~/.zshrc");
  parser.example("heapsnap completions fish > ~/.config/fish/completions/heapsnap.fish",
                 "for all shells");
  if (!parser.parse(arguments)) return kExitDone;
  const std::string script = script_for(shell);
  Writer out(STDOUT_FILENO, "standard output");
  out.write(script);
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
