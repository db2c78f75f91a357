// A command of the CLI: `heapsnap NAME ARGUMENTS...`.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace heapsnap {

struct Command {
  const char* name;
  const char* summary;  // one line of `heapsnap --help`
  // Gives the exit code (see ErrorKind); throws Error.
  int (*run)(const std::vector<std::string>& arguments);
  // Whether it reads memory of other processes, for which somebody has to watch it.
  bool reads_processes = false;
  // Whether it deals with SIGINT, SIGTERM and SIGHUP itself.
  bool takes_signals = false;
};

// In the order of --help.
std::span<const Command> commands();

// Each in NAME_command.cpp.
int run_attach(const std::vector<std::string>& arguments);
int run_core(const std::vector<std::string>& arguments);
int run_leaks(const std::vector<std::string>& arguments);
int run_owners(const std::vector<std::string>& arguments);
int run_types(const std::vector<std::string>& arguments);
int run_objects(const std::vector<std::string>& arguments);
int run_diff(const std::vector<std::string>& arguments);
int run_why(const std::vector<std::string>& arguments);
int run_report(const std::vector<std::string>& arguments);
int run_inject(const std::vector<std::string>& arguments);
int run_eject(const std::vector<std::string>& arguments);
int run_run(const std::vector<std::string>& arguments);
int run_stacks(const std::vector<std::string>& arguments);
int run_watch(const std::vector<std::string>& arguments);
int run_render(const std::vector<std::string>& arguments);
int run_view(const std::vector<std::string>& arguments);
int run_export(const std::vector<std::string>& arguments);
int run_top(const std::vector<std::string>& arguments);
int run_share(const std::vector<std::string>& arguments);
int run_trim(const std::vector<std::string>& arguments);
int run_doctor(const std::vector<std::string>& arguments);
int run_collect(const std::vector<std::string>& arguments);
int run_prune(const std::vector<std::string>& arguments);
int run_push(const std::vector<std::string>& arguments);
int run_history(const std::vector<std::string>& arguments);
int run_completions(const std::vector<std::string>& arguments);

// Exit code of a command that did its work and found what it was asked to look for.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFound = 1;

}  // namespace heapsnap
