#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/alteration.h"
#include "base/error.h"
#include "platform/linux/self/watched_work.h"
#include "tools/capture/version.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/descriptor_room.h"
#include "tools/heapsnap/ending_signals.h"
#include "tools/heapsnap/error_output.h"

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

int run(const Command& command, const std::vector<std::string>& arguments) {
  if (command.takes_signals) return command.run(arguments);
  const EndingSignals signals;
  try {
    const int code = command.run(arguments);
    if (!is_end_asked()) return code;
  } catch (...) {
    if (!is_end_asked()) throw;
  }
  signals.wait_for_end();
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
    if (name != command.name) continue;
    require_descriptor_room();
    const auto work = [&] { return run(command, {arguments.begin() + 1, arguments.end()}); };
    return command.reads_processes ? do_watched(work) : work();
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
  // The same for a file that reaches `ulimit -f`.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    return run({argv + 1, argv + argc});
  } catch (const Error& error) {
    const Error told = explained(error);
    print_error(told);
    return told.exit_code();
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
