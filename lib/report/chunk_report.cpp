#include "report/chunk_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/hex_dump.h"
#include "report/json_head.h"
#include "report/json_writer.h"
#include "report/number_text.h"
#include "report/reference_labels.h"
#include "report/shell_word.h"
#include "report/stack_frames.h"
#include "report/stack_lines.h"
#include "report/stack_report.h"
#include "tracker/table_layout.h"

namespace heapsnap {

namespace {

constexpr uint64_t kDumpLine = 16;

std::string state_text(const FoundChunk& chunk) {
  if (chunk.is_thread_cache) return "in use by malloc itself: a thread's cache (tcache)";
  switch (chunk.state) {
    case ChunkState::kUsed: return "in use";
    case ChunkState::kMmapped: return "in use, in a mapping of its own";
    case ChunkState::kTop: return "free: the top chunk";
    case ChunkState::kFence: return "closes a segment (fencepost)";
    case ChunkState::kUnknown: return "unknown: this stretch could not be walked";
    case ChunkState::kTcache: return "free, in a thread's cache (tcache)";
    case ChunkState::kFastbin: return "free, in a fastbin";
    case ChunkState::kUnsorted: return "free, in the unsorted bin";
    case ChunkState::kSmallbin: return "free, in a small bin";
    case ChunkState::kLargebin: return "free, in a large bin";
    default: return std::string("free (") + to_string(chunk.state) + ")";
  }
}

std::string place_text(const ChunkReportInput& input) {
  const Address pointer = input.chunk.pointer;
  if (input.at < pointer) return count_text(pointer - input.at, "byte", "bytes") + " before it";
  if (input.at == pointer) return "its first byte";
  return count_text(input.at - pointer, "byte", "bytes") + " into it";
}

std::string arena_text(const ChunkReportInput& input) {
  const int32_t arena = input.chunk.arena;
  if (arena < 0) return "none";
  const auto& arenas = input.metadata.heap.arenas;
  const bool is_main =
      static_cast<size_t>(arena) < arenas.size() && arenas[static_cast<size_t>(arena)].is_main;
  return fmt::format("{}{}", arena, is_main ? " (main)" : "");
}

// Whether a stack is known that allocated the block.
bool has_stack(const ChunkReportInput& input) {
  return input.metadata.tracker && is_live(input.chunk.state) && input.chunk.stack != 0 &&
         input.chunk.stack < input.recorded.stacks.sites.size();
}

bool knows_request(const ChunkReportInput& input) {
  return has_stack(input) && input.chunk.slack < tracker::kSlackUnknown &&
         input.chunk.slack <= input.chunk.usable;
}

void print_stack(Writer& out, const ChunkReportInput& input, const Ink& ink, size_t width) {
  if (!input.metadata.tracker || !is_live(input.chunk.state) || input.chunk.is_thread_cache) return;
  out.write("\n" + ink.bold("Allocated by") + "\n");
  if (!has_stack(input)) {
    const std::string why = input.chunk.stack == 0 ? untracked_text(input.metadata)
                                                   : "the tracker's tables are damaged";
    const std::string newer = input.probable_owner.empty()
                                  ? ""
                                  : "; all newer ones of its size in use were allocated by " +
                                        printable(input.probable_owner);
    for (const std::string& line : wrapped("no known stack: " + why + newer, width - 2)) {
      out.write("  " + line + "\n");
    }
    return;
  }
  const StackCensus census;
  const StackReportInput stacks{
      input.metadata, input.recorded, census, StackOrder::kLiveBytes, {input.chunk.stack}, {}, {}};
  print_frames(out, StackLines(stacks, width - 2), 0, "  ", ink);
}

void print_contents(Writer& out, const ChunkReportInput& input, const Ink& ink, size_t width) {
  const AddressRange shown = input.shown();
  const Address pointer = input.chunk.pointer;
  const bool is_cut = shown.size() < input.chunk.usable;
  out.write("\n" +
            ink.bold(is_cut ? fmt::format("Contents, {} of {}", size_text(shown.size()),
                                          size_text(input.chunk.usable))
                            : fmt::format("Contents, {}", size_text(shown.size()))) +
            "\n");
  HexDump dump(out, shown.begin - pointer, shown.end - pointer, width);
  input.read_contents(shown, [&](Address from, std::span<const std::byte> bytes) {
    dump.add(from - pointer, bytes);
  });
  dump.finish();
  if (!is_cut || input.snapshot_path.empty()) return;
  out.write(fmt::format("\nAll of it:\n  heapsnap report {} --at {} --bytes {}\n",
                        shell_word(input.snapshot_path, "SNAPSHOT"), address_text(pointer),
                        input.chunk.usable));
}

}  // namespace

AddressRange ChunkReportInput::shown() const {
  const uint64_t offset = at < chunk.pointer ? 0 : at - chunk.pointer;
  const uint64_t begin =
      offset < byte_limit || offset >= chunk.usable ? 0 : offset / kDumpLine * kDumpLine;
  const uint64_t size = std::min(byte_limit, chunk.usable - begin);
  return {chunk.pointer + begin, chunk.pointer + begin + size};
}

void print_chunk(Writer& out, const ChunkReportInput& input, const TextStyle& style) {
  const Ink ink(style.color);
  const size_t width = std::max(style.width, 60U);
  const Process& process = input.metadata.process;
  const FoundChunk& chunk = input.chunk;
  out.write(ink.bold(fmt::format("Process {}: {}", process.pid, printable(process.comm))) + "\n");
  const auto line = [&](std::string_view label, const std::string& text) {
    out.write(ink.dim(fmt::format("  {:<10} ", label)) + text + "\n");
  };
  line("block", fmt::format("{}, {} usable", address_text(chunk.pointer), size_text(chunk.usable)));
  line("address", fmt::format("{}, {}", address_text(input.at), place_text(input)));
  line("chunk", fmt::format("{} with its header", size_text(chunk.size)));
  line("state", state_text(chunk));
  line("arena", arena_text(input));
  if (knows_request(input)) line("asked for", size_text(chunk.usable - chunk.slack));
  print_stack(out, input, ink, width);
  if (input.read_contents) print_contents(out, input, ink, width);
  const auto& references = input.metadata.references;
  if (references && references->is_complete && is_live(chunk.state) && !chunk.is_thread_cache &&
      !input.snapshot_path.empty()) {
    print_next(out, "To see what keeps it alive, or that it is leaked:",
               fmt::format("heapsnap why {} {}", address_text(chunk.pointer),
                           shell_word(input.snapshot_path, "SNAPSHOT")),
               ink, width);
  }
}

void print_json_chunk(Writer& out, const ChunkReportInput& input) {
  const SnapshotMetadata& metadata = input.metadata;
  const FoundChunk& chunk = input.chunk;
  JsonWriter json(out);
  json.begin_object();
  write_json_head(json, "chunk-contents", metadata, input.snapshot_path);
  json.member("at", input.at);
  json.member("addr", chunk.pointer);
  json.member("size", chunk.size);
  json.member("usable", chunk.usable);
  json.member("state", to_string(chunk.state));
  json.member("arena", chunk.arena);
  json.member("thread_cache", chunk.is_thread_cache);
  if (!input.probable_owner.empty()) json.member("probable_owner", input.probable_owner);
  if (knows_request(input)) json.member("requested", chunk.usable - chunk.slack);
  if (has_stack(input)) {
    StackEnd end{};
    const auto frames = named_frames(input.recorded, *metadata.tracker,
                                     input.recorded.stacks.sites[chunk.stack].node, end);
    json.member("stack", chunk.stack);
    write_json_frames(json, frames, end);
  }
  if (input.read_contents) {
    const AddressRange shown = input.shown();
    json.member("shown", shown.size());
    json.key("contents");
    json.begin_array();
    std::string hex;
    input.read_contents(shown, [&](Address from, std::span<const std::byte> bytes) {
      hex.clear();
      for (const std::byte byte : bytes) {
        fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<unsigned>(byte));
      }
      json.begin_object();
      json.member("addr", from);
      json.member("hex", hex);
      json.end_object();
    });
    json.end_array();
  }
  json.end_object();
  out.write("\n");
}

}  // namespace heapsnap
