#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "base/count_text.h"
#include "base/error.h"
#include "redaction/shared_snapshot.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/terminal_text.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/progress_line.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/terminal.h"

namespace heapsnap {

namespace {

constexpr const char* kShareDescription =
    "Writes a snapshot reduced to what may leave the house, to attach it to a bug report: sizes,\n"
    "states and order of all chunks, pages, references, call stacks and types stay, so that\n"
    "report, owners, leaks, types and stacks of it give the same sums.\n"
    "\n"
    "Cut are the name of the host, folders of all paths, names of files but those of programs,\n"
    "libraries and sources, arguments, users, names of threads and of memory, process ids, notes\n"
    "and kept contents of memory. Addresses are replaced by others, all in the same way.\n"
    "\n"
    "Kept are names of functions, variables and types, file names of programs, libraries and\n"
    "sources, and build ids, which a bug report needs: --no-names replaces or cuts these, too. Of\n"
    "the process also the time of the snapshot and the numbers of its allocator are kept.";

struct ShareArguments {
  std::string path;
  std::string output;
  bool force = false;
  bool no_names = false;
};

std::string counted(size_t count, const char* one, const char* many) {
  return count_text(count, one, many);
}

class ShareText {
 public:
  explicit ShareText(unsigned width) : width_(width) {}

  void add(const char* title, const std::string& text) const {
    std::string front = fmt::format("  {:<9}  ", title);
    for (const std::string& line : wrapped(text, width_ - front.size())) {
      fmt::print("{}{}\n", front, line);
      front.assign(front.size(), ' ');
    }
  }

 private:
  unsigned width_;
};

void print_shared(const ShareArguments& arguments, const SharedSnapshot& shared) {
  const ShareText text(terminal_width(STDOUT_FILENO));
  fmt::print("{}: {}, to be shared\n", printable(arguments.output), size_text(shared.bytes));
  text.add("kept",
           "sizes, states and order of all chunks; states of pages; mappings and their sizes; "
           "references; call stacks and types; allocator's counters; time of the snapshot");
  const std::string names = "functions, variables, types, programs, libraries and source files";
  if (arguments.no_names) {
    text.add("replaced", fmt::format("names of {} by numbers ({})", names,
                                     counted(shared.names, "name", "names")));
  } else {
    text.add("kept", "names of " + names + "; build ids");
  }
  std::string cut =
      fmt::format("host; user; process and thread ids; boot; {}; {}; {}; {}",
                  counted(shared.folders, "folder of paths", "folders of paths"),
                  counted(shared.files, "name of another file", "names of other files"),
                  counted(shared.thread_names, "name of a thread", "names of threads"),
                  counted(shared.notes, "note", "notes"));
  if (shared.had_arguments) cut += "; arguments";
  if (shared.had_contents) cut += "; contents of memory";
  if (arguments.no_names) cut += "; build ids and lines of the source";
  text.add("cut", cut);
  text.add("addresses", fmt::format("rebased: {} moved, each with all that is in it",
                                    counted(shared.pieces, "piece", "pieces")));
  const std::string file = shell_word(arguments.output, "FILE");
  fmt::print("\nWhat next\n");
  const char* const step =
      arguments.no_names ? "To see what it says before it is sent:"
                         : "To see what it says before it is sent, also the names that were kept:";
  for (const std::string& line : wrapped(step, terminal_width(STDOUT_FILENO) - 2)) {
    fmt::print("  {}\n", line);
  }
  fmt::print("    heapsnap report {}\n    heapsnap owners {}\n", file, file);
}

}  // namespace

int run_share(const std::vector<std::string>& words) {
  ShareArguments arguments;
  OptionParser parser("share [options] SNAPSHOT -o FILE", kShareDescription);
  parser.text("output,o", arguments.output, "FILE", "the reduced snapshot; - for standard output");
  parser.flag("force,f", arguments.force, "replace FILE if it exists");
  parser.flag("no-names", arguments.no_names,
              "replace names of functions, variables, types, programs, libraries and sources by "
              "numbers, and leave out build ids");
  parser.positional("SNAPSHOT", arguments.path);
  parser.example("heapsnap share server.hsnap -o bug.hsnap", "to attach to a bug report");
  parser.example("heapsnap share server.hsnap --no-names -o bug.hsnap",
                 "where not even names of functions may be told");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.path.empty() || arguments.output.empty()) {
    throw Error(ErrorKind::kUsage, "share", "it needs a snapshot and -o FILE",
                "for example: heapsnap share server.hsnap -o bug.hsnap");
  }
  refuse_to_replace_input(arguments.output, {arguments.path});
  const SnapshotReader snapshot = open_snapshot(arguments.path, "share");
  std::optional<ProgressLine> progress(std::in_place, "reducing the snapshot:", false);
  const SharedSnapshot shared =
      share_snapshot(snapshot, {arguments.output, arguments.force}, !arguments.no_names,
                     [&](uint64_t done, uint64_t total) { progress->show(done, total); });
  progress.reset();
  if (arguments.output != "-") print_shared(arguments, shared);
  return kExitDone;
}

}  // namespace heapsnap
