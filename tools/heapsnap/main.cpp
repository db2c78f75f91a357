#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "report/terminal_text.h"
#include "tools/capture/version.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace {

void print_help() {
  fmt::print(
      "heapsnap: where did this process's memory go?\n\n"
      "Usage: heapsnap COMMAND [ARGUMENTS]\n\nCommands:\n");
  for (const Command& command : commands())
    fmt::print("  {:<12} {}\n", command.name, command.summary);
  fmt::print(
      "\nStart here:\n"
      "  heapsnap attach PID            freeze for milliseconds, write a snapshot, say what is in "
      "it\n"
      "  heapsnap report FILE.hsnap     everything that the snapshot knows\n"
      "  heapsnap run -- COMMAND        start it so that each block knows who allocated it\n"
      "  heapsnap stacks PID            the call stacks that its memory came from\n"
      "  heapsnap doctor PID            what bars an attach, and what to do about it\n"
      "\n`heapsnap COMMAND --help` explains a command. Exit codes: 0 done, 1 done and something\n"
      "found, 2 usage, 3 no such process, 4 not permitted, 5 target not supported, 6 bad input\n"
      "file, 7 output not written.\n");
}

void print_error(const Error& error) {
  const bool color = use_color(ColorChoice::kAuto, STDERR_FILENO);
  // Names that come from a target must not reach the terminal as they are.
  fmt::print(stderr, "{}heapsnap: {}{}\n  why: {}\n", color ? "\033[1;31m" : "",
             printable(error.subject()), color ? "\033[0m" : "", printable(error.why()));
  if (!error.remedy().empty()) fmt::print(stderr, "  do:  {}\n", printable(error.remedy()));
}

int run(const std::vector<std::string>& arguments) {
  const std::string_view name = arguments.empty() ? "--help" : std::string_view(arguments.front());
  if (name == "--help" || name == "-h" || name == "help") {
    print_help();
    return arguments.empty() ? static_cast<int>(ErrorKind::kUsage) : kExitDone;
  }
  if (name == "--version" || name == "-V") {
    fmt::print("{}\n", kWriterName);
    return kExitDone;
  }
  for (const Command& command : commands()) {
    if (name == command.name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  throw Error(ErrorKind::kUsage, fmt::format("command \"{}\"", name), "there is no such command",
              "list them with: heapsnap --help");
}

}  // namespace

}  // namespace heapsnap

int main(int argc, char** argv) {
  using namespace heapsnap;
  // A reader that goes away (`| head`) is an error of write(2), with a message, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    print_error(error);
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    print_error(Error(ErrorKind::kInternal, "out of memory",
                      "heapsnap could not get memory for itself",
                      "free some memory on this machine and try again"));
  } catch (const std::exception& error) {
    print_error(Error(ErrorKind::kInternal, "internal error", error.what(),
                      "please report it with the command line that you used"));
  }
  return static_cast<int>(ErrorKind::kInternal);
}
