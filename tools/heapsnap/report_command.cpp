#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "analysis/old_blocks.h"
#include "analysis/stack_groups.h"
#include "base/byte_size.h"
#include "base/error.h"
#include "report/chunk_report.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/stack_labels.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/error_output.h"
#include "tools/heapsnap/pass_over_options.h"
#include "tools/heapsnap/report_output.h"
#include "tools/heapsnap/snapshot_argument.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/typed_address.h"

namespace heapsnap {

namespace {

struct ReportArguments {
  std::string path;
  std::string at;
  std::string bytes = "4KiB";
  PassOverOptions pass_over;
  ReportStyle style;
};

// What lies at an address where no chunk is.
[[noreturn]] void refuse_address(const SnapshotMetadata& metadata, const ReportArguments& arguments,
                                 Address at) {
  const auto mapping =
      std::find_if(metadata.mappings.begin(), metadata.mappings.end(),
                   [at](const Mapping& candidate) { return candidate.range.contains(at); });
  std::string why = "no memory was mapped there";
  if (mapping != metadata.mappings.end()) {
    why = "the address is in " + (mapping->path.empty() ? "anonymous memory" : mapping->path) +
          ", where malloc has no chunk";
  }
  throw Error(ErrorKind::kUsage, "no chunk at " + address_text(at), why,
              fmt::format("list the addresses of all chunks: heapsnap export {} --format ndjson",
                          shell_word(arguments.path, "SNAPSHOT")));
}

// How a snapshot with contents is taken of the same target.
std::string contents_remedy(const SnapshotMetadata& metadata) {
  if (metadata.freeze.method == FreezeMethod::kCore) {
    return "take it again from the core: heapsnap core CORE --contents -o FILE";
  }
  return fmt::format("while the process runs, take one with them: heapsnap attach {} --contents",
                     pid_word(metadata.process));
}

// Of a block without a stack; the same function that the report names.
std::string probable_owner(const SnapshotReader& snapshot, const RecordedStacks& recorded,
                           const FoundChunk& chunk, const PassedFrames& passed) {
  if (chunk.stack != 0 || !is_live(chunk.state) || chunk.is_thread_cache) return {};
  const SnapshotStreams streams = streams_of(snapshot);
  const StackCensus census = take_stack_census(streams, recorded.stacks);
  StackReportInput stacks{
      snapshot.metadata(), recorded, census, StackOrder::kLiveBytes, {}, {}, {}, passed, {}};
  pass_over_unnamed(census, recorded, *snapshot.metadata().tracker, stacks.passed);
  for (const OldBlocks& old : attribute_old_blocks(streams, recorded, stacks.passed, SIZE_MAX)) {
    if (old.size == chunk.size) return charged_function(stacks, old.stack);
  }
  return {};
}

void print_chunk_at(const SnapshotReader& snapshot, const ReportArguments& arguments,
                    const PassedFrames& passed) {
  const auto at = parse_address(arguments.at);
  if (!at) {
    throw Error(ErrorKind::kUsage, "--at " + arguments.at, "not a hexadecimal address",
                "for example: --at 0x55d0c8a00050");
  }
  StepLine working("looking for the address");
  const SnapshotMetadata& metadata = snapshot.metadata();
  const auto chunk = find_chunk(streams_of(snapshot), *at);
  if (!chunk) refuse_address(metadata, arguments, *at);
  RecordedStacks recorded;
  if (metadata.tracker) {
    recorded = snapshot.read_call_stacks();
    add_missing_names(metadata, recorded, stack_debug_files({}, false), {});
  }
  ChunkReportInput input{metadata, recorded,       *chunk,
                         *at,      arguments.path, parse_byte_size("--bytes", arguments.bytes),
                         {}};
  if (snapshot.has_contents()) {
    input.read_contents = [&snapshot](const AddressRange& range, const ReceiveContents& receive) {
      snapshot.read_contents(range, receive);
    };
  }
  if (metadata.tracker) input.probable_owner = probable_owner(snapshot, recorded, *chunk, passed);
  working.end();
  Writer out(STDOUT_FILENO, "standard output");
  arguments.style.json ? print_json_chunk(out, input)
                       : print_chunk(out, input, text_style(arguments.style));
  out.flush();
  if (!input.read_contents) {
    print_notice(fmt::format("note: no contents: the snapshot was taken without --contents; {}\n",
                             contents_remedy(metadata)));
  }
}

}  // namespace

int run_report(const std::vector<std::string>& words) {
  ReportArguments arguments;
  OptionParser parser(
      "report [options] SNAPSHOT",
      "Prints everything in a snapshot: a table that accounts for the whole\n"
      "resident set, blocks in use by size and by who allocated them, what to do\n"
      "next, arenas, size classes, the largest chunks, what malloc_trim(0) would\n"
      "give back, and corruption that was found.\n"
      "\n"
      "With --at, prints one chunk instead: its size, state and arena, the call stack\n"
      "that allocated it if that was tracked, and, if the snapshot was taken with\n"
      "--contents, its bytes, as hexdump -C prints them.");
  parser.text("at", arguments.at, "ADDR",
              "print the chunk that contains this (hexadecimal) address");
  parser.text(
      "bytes", arguments.bytes, "BYTES",
      "with --at, print at most this many bytes of the block: from its start, or from ADDR if "
      "that is further on (default: 4KiB)");
  add_pass_over_options(parser, arguments.pass_over);
  add_report_options(parser, arguments.style);
  parser.positional("SNAPSHOT", arguments.path);
  parser.example("heapsnap report a.hsnap | less -R", "read it page by page");
  parser.example("heapsnap report -j a.hsnap | jq .rss", "one part of it, for scripts");
  parser.example("heapsnap report a.hsnap --at 0x55d0c8a00050",
                 "what is in one block, byte by byte");
  if (!parser.parse(words)) return kExitDone;
  if (arguments.path.empty()) {
    throw Error(ErrorKind::kUsage, "report", "it needs a snapshot",
                "make one with: heapsnap attach PID");
  }
  const PassedFrames passed = passed_frames(arguments.pass_over);
  const SnapshotReader snapshot = open_snapshot(arguments.path, "report");
  if (arguments.at.empty()) {
    print_snapshot_report(snapshot, arguments.path, ReportDepth::kWhole, arguments.style, passed);
  } else {
    print_chunk_at(snapshot, arguments, passed);
  }
  return kExitDone;
}

}  // namespace heapsnap
