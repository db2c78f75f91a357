#include <unistd.h>

#include <algorithm>

#include "analysis/object_census.h"
#include "analysis/object_counts.h"
#include "analysis/reference_streams.h"
#include "analysis/snapshot_streams.h"
#include "analysis/type_census.h"
#include "base/error.h"
#include "report/object_counts_json.h"
#include "report/object_report.h"
#include "report/shell_word.h"
#include "tools/heapsnap/any_snapshot.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/step_line.h"

namespace heapsnap {

namespace {

constexpr const char* kObjectsDescription =
    "Lists the objects of a Python interpreter (CPython 3.9 to 3.14) or a Ruby interpreter (CRuby\n"
    "2.7 to 3.4) in the process, by class: how many, how many bytes they take themselves, and "
    "with\n"
    "the buffers of their own (items of lists, tables of dicts); and what is free in the\n"
    "interpreter's pages. Of a PostgreSQL server (13 to 17), the memory contexts of the process:\n"
    "how much each has, and what of that is free.\n"
    "Reads a snapshot, a core, or a running process, of which heapsnap takes a temporary snapshot\n"
    "(a pause of milliseconds). No code of the interpreter or the server runs.";

ObjectCensus::Order parse_column(const std::string& text) {
  check_choice("--sort", text, {"bytes", "count", "own"});
  if (text == "count") return ObjectCensus::Order::kCount;
  return text == "own" ? ObjectCensus::Order::kOwn : ObjectCensus::Order::kBytes;
}

// Why there is nothing to list.
void require_objects(const SnapshotMetadata& metadata, const std::string& what,
                     const std::string& core_path) {
  const RuntimeModel& model = metadata.runtimes;
  if (model.runtimes.empty()) {
    throw Error(
        ErrorKind::kUnsupported, what + " has no objects of a language runtime",
        "none of its modules is a Python or Ruby interpreter or a PostgreSQL server that heapsnap "
        "knew when the snapshot was taken",
        "to see what its blocks are: heapsnap types " + shell_word(what, "SNAPSHOT"));
  }
  const auto is_read = [](const Runtime& runtime) { return runtime.why_not.empty(); };
  if (std::any_of(model.runtimes.begin(), model.runtimes.end(), is_read)) return;
  const Runtime& runtime = model.runtimes.front();
  const bool is_choice =
      runtime.why_not == kRuntimeWouldHold || runtime.why_not == kRuntimeNotAsked;
  const bool is_core = metadata.freeze.method == FreezeMethod::kCore;
  const std::string source = is_core ? shell_word(core_path, "CORE") : pid_word(metadata.process);
  std::string remedy = "to see what its blocks are: heapsnap types " + shell_word(what, "SNAPSHOT");
  if (is_choice) {
    remedy = (is_core ? "take it again from the core: heapsnap core --runtimes yes "
                      : "while the process runs: heapsnap attach --runtimes yes ") +
             source;
  } else if (metadata.heap.foreign_answers_malloc) {
    // It has no blocks that heapsnap knows.
    remedy = (is_core ? "to see what its memory is: heapsnap core "
                      : "to see what its memory is: heapsnap attach ") +
             source;
  }
  throw Error(ErrorKind::kUnsupported,
              what + " has no objects of " + name_of(runtime.kind) +
                  (runtime.version.empty() ? "" : " " + runtime.version),
              runtime.why_not, remedy);
}

// "Shop,Order" are two. Throws Error if there is none.
std::vector<std::string> split_namespaces(const std::vector<std::string>& given) {
  std::vector<std::string> namespaces;
  for (const std::string& words : given) {
    for (size_t begin = 0; begin <= words.size();) {
      const size_t end = std::min(words.find(',', begin), words.size());
      if (end != begin) namespaces.push_back(words.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  if (namespaces.empty() && !given.empty()) {
    throw Error(ErrorKind::kUsage, "--count-objects " + given.front(), "it names no class",
                "for example: heapsnap objects --count-objects Shop,Order PID");
  }
  return namespaces;
}

void print_counts(Writer& out, const RuntimeModel& model, const std::string& what,
                  const std::vector<std::string>& namespaces) {
  const auto ruby = std::find_if(
      model.runtimes.begin(), model.runtimes.end(),
      [](const Runtime& one) { return one.kind == RuntimeKind::kRuby && one.why_not.empty(); });
  if (ruby == model.runtimes.end()) {
    throw Error(ErrorKind::kUnsupported, what + " has no objects of Ruby",
                "--count-objects counts those of a Ruby interpreter",
                "to list objects by class: heapsnap objects " + shell_word(what, "SNAPSHOT"));
  }
  const auto number = static_cast<uint32_t>(ruby - model.runtimes.begin());
  print_object_counts(out, count_objects(model, number, namespaces));
}

}  // namespace

int run_objects(const std::vector<std::string>& words) {
  SnapshotSource source;
  std::string sort = "bytes";
  uint64_t limit = 20;
  ReportStyle style;
  OptionParser parser("objects [options] SNAPSHOT|CORE|PID|NAME|container:ID|pod:UID",
                      kObjectsDescription);
  parser.text("sort", sort, "COLUMN", "bytes (default), count or own: the largest first");
  parser.number("limit", limit, "N", "list N classes (default: 20; 0: all)");
  std::vector<std::string> given;
  parser.texts(
      "count-objects", given, "NAMESPACE",
      "of Ruby: print as JSON how many objects of each built-in type there are, and of the "
      "classes that are called that or NAMESPACE::...; as HeapDump.count_objects of the "
      "gem heap_dump (repeatable, or several with commas between)");
  add_source_options(parser, source);
  add_report_options(parser, style, "print one JSON object, with all classes");
  parser.positional("SNAPSHOT", source.what);
  parser.example("heapsnap objects 4242", "what most of PID 4242's Python objects are");
  parser.example("heapsnap objects 5432", "the memory contexts of a PostgreSQL backend");
  parser.example("heapsnap objects a.hsnap --sort count --limit 0",
                 "all classes, by number of objects");
  parser.example("heapsnap objects --count-objects Shop,Order 4242",
                 "counts of PID 4242's Ruby objects, for what reads those of heap_dump");
  if (!parser.parse(words)) return kExitDone;
  const ObjectCensus::Order order = parse_column(sort);
  const std::vector<std::string> namespaces = split_namespaces(given);
  const TextStyle text = text_style(style);
  StepLine working("adding up objects");
  const AnySnapshot snapshot("objects", source, WantedPasses::kRuntimes);
  const SnapshotMetadata& metadata = snapshot.reader().metadata();
  require_objects(metadata, source.what, snapshot.core());
  if (!namespaces.empty()) {
    working.end();
    Writer out(STDOUT_FILENO, "standard output");
    print_counts(out, metadata.runtimes, source.what, namespaces);
    out.flush();
    return kExitDone;
  }
  ObjectCensus census = take_object_census(metadata.runtimes, order);
  if (snapshot.reader().has_references()) {
    const ReferenceStreams references = references_of(snapshot.reader());
    add_retained(take_type_census(streams_of(snapshot.reader()), references), references.types,
                 census);
  }
  const ObjectReportInput input{metadata, census, snapshot.path(), snapshot.core()};
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  style.json ? print_json_objects(out, input) : print_objects(out, input, limit, text);
  out.flush();
  return kExitDone;
}

}  // namespace heapsnap
