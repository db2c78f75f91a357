#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "analysis/stack_census.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "report/number_text.h"
#include "report/pprof_export.h"
#include "report/terminal_text.h"
#include "snapshot/snapshot_reader.h"
#include "tools/capture/version.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/injection_text.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/temporary_snapshot.h"
#include "tools/heapsnap/tracked_stacks.h"
#include "tools/push/delivery.h"
#include "tools/push/header_lines.h"
#include "tools/push/profile_address.h"

namespace heapsnap {

namespace {

constexpr const char* kPushDescription =
    "Sends the call stacks that hold memory in a tracked process to Pyroscope (or Grafana Alloy), "
    "as\n"
    "a pprof profile: from a snapshot, or from a running process, of which heapsnap takes a\n"
    "temporary snapshot (a pause of milliseconds).\n"
    "\n"
    "The profile has inuse_objects and inuse_space, and the time of the snapshot. It is called "
    "like\n"
    "the target of heapsnap collect, else like the process, and has the labels host, pid and\n"
    "build_id. A connection that fails, and the answers 429 and 5xx, are tried again after half a\n"
    "second, a second, two, and so on, or after the server's Retry-After.\n"
    "\n"
    "Credentials do not belong on the command line, where every user sees them: heapsnap reads\n"
    "headers from --header-file or from HEAPSNAP_PUSH_HEADERS. Certificates are verified.\n"
    "\n"
    "Exit code: 0 when the server has taken the profile, 7 when it has not.";

struct PushArguments {
  std::string what;
  std::string to;
  std::string name;
  std::vector<std::string> labels;
  std::string header_file;
  std::string ca_file;
  std::string timeout = "30s";
  uint64_t retries = 5;
  bool quiet = false;
};

std::vector<std::string> request_headers(const std::string& header_file) {
  std::vector<std::string> headers = {"Content-Type: application/octet-stream",
                                      std::string("User-Agent: ") + kUserAgent};
  if (const char* const lines = std::getenv(kHeadersVariable); lines != nullptr) {
    for (std::string& header : parse_header_lines(lines, kHeadersVariable)) {
      headers.push_back(std::move(header));
    }
  }
  if (!header_file.empty()) {
    for (std::string& header : read_header_file(header_file)) headers.push_back(std::move(header));
  }
  return headers;
}

ProfileLabels parse_labels(const std::vector<std::string>& texts) {
  ProfileLabels labels;
  for (const std::string& text : texts) labels.push_back(parse_label(text));
  return labels;
}

}  // namespace

int run_push(const std::vector<std::string>& words) {
  PushArguments arguments;
  OptionParser parser("push [options] --to URL SNAPSHOT|PID|NAME|container:ID|pod:UID",
                      kPushDescription);
  parser.text("to", arguments.to, "URL", "address of the server: http://HOST:4040");
  parser.text("name", arguments.name, "SERVICE",
              "what the profile is called (default: the target of collect, or the process)");
  parser.texts("label", arguments.labels, "KEY=VALUE", "a label more; may be repeated");
  parser.text("header-file", arguments.header_file, "FILE",
              "read headers of the request from FILE, one per line (Authorization, X-Scope-OrgID)");
  parser.text("ca-file", arguments.ca_file, "FILE",
              "certificates to trust instead of the system's (PEM)");
  parser.text("timeout", arguments.timeout, "TIME",
              "give up an attempt after so long (default: 30s)");
  parser.number("retries", arguments.retries, "N",
                "attempts after the first one that failed (default: 5)");
  parser.flag("quiet,q", arguments.quiet, "print only errors");
  parser.positional("SNAPSHOT", arguments.what);
  parser.example("heapsnap push --to http://localhost:4040 a.hsnap",
                 "the stacks of a snapshot, to a server on this machine");
  parser.example(
      "heapsnap push --to https://pyroscope.example --header-file /etc/heapsnap/push 4242",
      "those of a running process, with credentials from a file");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.what.empty() || arguments.to.empty()) {
    throw Error(ErrorKind::kUsage, "push", "it needs a snapshot or a process, and --to",
                "for example: heapsnap push --to http://localhost:4040 a.hsnap");
  }
  // What is wrong with the arguments is said before a process is paused.
  const ProfileLabels labels = parse_labels(arguments.labels);
  ingest_url(arguments.to, {}, 0);
  HttpRequest request;
  request.headers = request_headers(arguments.header_file);
  request.ca_file = arguments.ca_file;
  request.timeout_ms = parse_duration_ms("--timeout", arguments.timeout);

  const DebugFileSearch debug_files = stack_debug_files({}, false);
  std::optional<TemporarySnapshot> own;
  const SnapshotArgument source =
      resolve_snapshot(arguments.what, "heapsnap push --to " + arguments.to);
  print_notes(source.notes);
  const std::string path =
      source.is_file ? source.path : own.emplace(source.pid, debug_files).path();
  const SnapshotReader snapshot = SnapshotReader::open(path);
  const SnapshotMetadata& metadata = snapshot.metadata();
  const RecordedStacks recorded =
      read_tracked_stacks(snapshot, {arguments.what, own.has_value()}, debug_files, {});
  const StackCensus census = take_stack_census(streams_of(snapshot), recorded.stacks);
  Writer body(request.body);
  export_pprof(metadata, recorded, census, PprofValues::kInUse, body);
  body.flush();
  const ProfileName name = profile_name(metadata, arguments.name, labels);
  request.url = ingest_url(arguments.to, name, metadata.process.taken_at_ns);
  deliver(request, arguments.retries, arguments.quiet);
  if (!arguments.quiet) {
    fmt::print("pushed {} of live blocks as {} ({})\n",
               size_text(static_cast<uint64_t>(census.live_bytes)), printable(to_text(name)),
               size_text(request.body.size()));
  }
  return kExitDone;
}

}  // namespace heapsnap
