#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/resource_limit.h"
#include "platform/linux/self/ending_signals.h"
#include "platform/linux/self/oom_preference.h"
#include "platform/linux/self/watched_work.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "report/writer.h"
#include "tools/capture/version.h"
#include "tools/doctor/attach_obstacles.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/descriptor_room.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/nearest_word.h"
#include "tools/heapsnap/stack_room.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace {

void print_help() {
  fmt::print(
      "heapsnap: where did this process's memory go?\n\n"
      "Usage: heapsnap COMMAND [ARGUMENTS]\n\nCommands:\n");
  const unsigned width = terminal_width(STDOUT_FILENO);
  constexpr unsigned kIndent = 15;
  for (const Command& command : commands()) {
    std::string front = fmt::format("  {:<12} ", command.name);
    for (const std::string& line : wrapped(command.summary, width - kIndent)) {
      fmt::print("{}{}\n", front, line);
      front.assign(kIndent, ' ');
    }
  }
  fmt::print(
      "\nStart here:\n"
      "  heapsnap attach PID            pause it for milliseconds, write and summarize a snapshot\n"
      "  heapsnap report FILE.hsnap     print everything in the snapshot\n"
      "  heapsnap run -- COMMAND        start it so that every block has its call stack\n"
      "  heapsnap stacks PID            list the call stacks that allocated its memory\n"
      "  heapsnap doctor PID            show what would prevent attaching\n"
      "\n`heapsnap COMMAND --help` explains a command. Exit codes: 0 done, 1 done and something\n"
      "found, 2 usage, 3 no such process, 4 not permitted, 5 target not supported, 6 bad input\n"
      "file, 7 output not written, 70 out of memory or a bug in heapsnap.\n");
}

std::string nearest_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return nearest_word(name, names);
}

// What a word in the place of a command is likely to mean: a process, a snapshot, or a verb that
// other tools have. Empty where nothing is.
std::string meant_command_line(const std::string& word) {
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  if (!word.empty() && is_number) return "attach " + word;
  if (word.ends_with(".hsnap")) return "report " + shell_word(word, "FILE.hsnap");
  if (word == "snapshot" || word == "dump") return "attach PID";
  if (word == "compare") return "diff OLD.hsnap NEW.hsnap";
  return {};
}

// What was said must have come out; what was written by a Writer has, or has thrown.
template <typename Work>
int do_and_flush(const Work& work) {
  int code = 0;
  try {
    code = work();
  } catch (const std::system_error& error) {
    // From fmt::print(), where the buffer is full before the end.
    if (std::ferror(stdout) == 0) throw;
    throw_unwritten("standard output", error.code().value());
  }
  if (std::fflush(stdout) != 0) throw_unwritten("standard output", errno);
  return code;
}

int run_and_flush(const Command& command, const std::vector<std::string>& arguments) {
  return do_and_flush([&] { return command.run(arguments); });
}

int run(const Command& command, const std::vector<std::string>& arguments) {
  if (command.takes_signals) return run_and_flush(command, arguments);
  return do_until_asked_to_end([&] { return run_and_flush(command, arguments); });
}

int run(const std::vector<std::string>& arguments) {
  const std::string_view name = arguments.empty() ? "--help" : std::string_view(arguments.front());
  if (name == "help" && arguments.size() > 1) return run({arguments[1], "--help"});
  if (name == "--help" || name == "-h" || name == "help") {
    return do_and_flush([&] {
      print_help();
      return arguments.empty() ? static_cast<int>(ErrorKind::kUsage) : kExitDone;
    });
  }
  if (name == "--version" || name == "-V") {
    return do_and_flush([] {
      fmt::print("{}\n", kWriterName);
      return kExitDone;
    });
  }
  for (const Command& command : commands()) {
    if (name != command.name) continue;
    require_descriptor_room();
    const auto work = [&] { return run(command, {arguments.begin() + 1, arguments.end()}); };
    return command.reads_processes ? do_watched(work) : work();
  }
  if (const std::string instead = meant_command_line(arguments.front()); !instead.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("command \"{}\"", name), "there is no such command",
                "did you mean this: heapsnap " + instead);
  }
  const std::string meant = nearest_command(name);
  throw Error(ErrorKind::kUsage, fmt::format("command \"{}\"", name), "there is no such command",
              meant.empty() ? std::string("list them with: heapsnap --help")
                            : fmt::format("did you mean this: heapsnap {} --help", meant));
}

Error out_of_memory() {
  for (const int resource : {RLIMIT_AS, RLIMIT_DATA}) {
    const auto limit = resource_limit(resource);
    if (!limit) continue;
    return {ErrorKind::kInternal, "out of memory",
            fmt::format("heapsnap may have {} KiB of {} (ulimit {})", *limit >> 10,
                        resource == RLIMIT_AS ? "addresses" : "data", option_of_ulimit(resource)),
            how_to_raise_limit(resource)};
  }
  return {ErrorKind::kInternal, "out of memory", "heapsnap could not get memory for itself",
          "free some memory on this machine and try again"};
}

// With each error told, and the exit code that it has.
int run_and_tell(const std::vector<std::string>& arguments) {
  try {
    return run(arguments);
  } catch (const ReaderGone&) {
    // Then heapsnap ends as its shell expects it: by the signal, in silence.
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  } catch (const Error& error) {
    const Error told = explained(error);
    print_error(told);
    return told.exit_code();
  } catch (const std::bad_alloc&) {
    print_error(out_of_memory());
  } catch (const std::exception& error) {
    print_error(Error(ErrorKind::kInternal, "internal error", error.what(),
                      "please report it with the command line that you used"));
  }
  return static_cast<int>(ErrorKind::kInternal);
}

}  // namespace

}  // namespace heapsnap

int main(int argc, char** argv) {
  using namespace heapsnap;
  // `run` stands beside its program, and has nothing that could be freed.
  if (argc < 2 || std::string_view(argv[1]) != "run") be_first_oom_victim();
  // An arena of another thread reserves 64 MiB of addresses.
  if (resource_limit(RLIMIT_AS)) ::mallopt(M_ARENA_MAX, 1);
  take_standard_descriptors();
  // A reader that goes away (`| head`) is an error of write(2), so that all is put back first.
  std::signal(SIGPIPE, SIG_IGN);
  // The same for a file that reaches `ulimit -f`.
  std::signal(SIGXFSZ, SIG_IGN);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  exit_with([&] { return run_and_tell(arguments); });
}
