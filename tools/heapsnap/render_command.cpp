#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "analysis/heap_regions.h"
#include "analysis/map_classes.h"
#include "analysis/map_painter.h"
#include "analysis/reference_streams.h"
#include "base/byte_size.h"
#include "base/count_text.h"
#include "base/error.h"
#include "report/heap_picture.h"
#include "report/map_labels.h"
#include "report/number_text.h"
#include "report/shell_word.h"
#include "report/stack_labels.h"
#include "report/terminal_text.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/explained_snapshot.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/pass_over_options.h"
#include "tools/heapsnap/region_choice.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/snapshot_series.h"
#include "tools/heapsnap/stack_names.h"
#include "tools/heapsnap/step_line.h"
#include "tools/heapsnap/tracked_stacks.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestSide = 8192;
constexpr unsigned kSvgSquare = 4;  // a square of an SVG takes many more bytes than one of a PNG

constexpr const char* kRenderDescription =
    "Draws the heap as a picture: the segments of all arenas, and the mmapped chunks, each under "
    "a\n"
    "title, with addresses and a legend. It always fits one screen: a square of the picture is as\n"
    "many bytes as it takes, a power of two. --region and --scale show a part of it in detail.";

unsigned picture_side(const char* option, uint64_t pixels) {
  if (pixels >= PictureFrame::kLeastHeight && pixels <= kLargestSide) {
    return static_cast<unsigned>(pixels);
  }
  throw Error(
      ErrorKind::kUsage, fmt::format("--{} {}", option, pixels),
      fmt::format("not between {} and {}", PictureFrame::kLeastHeight, kLargestSide),
      fmt::format("leave it out, or give a number of pixels, for example: --{} 1024", option));
}

uint64_t parse_scale(const std::string& text) {
  if (text.empty()) return 0;
  const uint64_t scale = parse_byte_size("--scale", text);
  if (scale >= HeapMap::kFinestScale && std::has_single_bit(scale)) return scale;
  throw Error(ErrorKind::kUsage, "--scale " + text,
              fmt::format("not a power of two from {} bytes on", HeapMap::kFinestScale),
              fmt::format("for example: --scale {}",
                          std::max(HeapMap::kFinestScale, std::bit_floor(scale))));
}

bool is_svg(const std::string& format, const std::string& output) {
  if (format.empty()) return output.ends_with(".svg");
  check_choice("--format", format, {"png", "svg"});
  return format == "svg";
}

// The classes of a picture, with what to call them.
struct ColorKey {
  MapClasses classes;
  std::vector<std::string> labels;
};

ColorKey key_by_stack(const SnapshotReader& snapshot, const std::string& path) {
  const RecordedStacks recorded =
      read_tracked_stacks(snapshot, {path}, stack_debug_files("", false), "");
  ColorKey key{MapClasses::by_stack(streams_of(snapshot), recorded.stacks.sites.size()), {}};
  const StackCensus no_census;
  StackReportInput input{
      snapshot.metadata(), recorded, no_census, StackOrder::kLiveBytes, {}, {}, {}};
  for (const MapClass& each : key.classes.list()) {
    if (each.kind == MapClass::Kind::kStack) input.ranked.push_back(each.number);
  }
  input.passed = passed_frames({});
  key.labels = map_labels(key.classes.list(), {}, stack_labels(input, kMapLabelWidth));
  return key;
}

// When the snapshots were taken, to the second; the names of their files where that tells no two
// apart.
std::vector<std::string> moments_of(std::span<const SnapshotReader> snapshots,
                                    std::span<const std::string> paths) {
  std::vector<std::string> moments;
  for (const SnapshotReader& each : snapshots) {
    moments.push_back(time_text(each.metadata().process.taken_at_ns, 1).substr(0, 19) + "Z");
  }
  if (std::adjacent_find(moments.begin(), moments.end()) == moments.end()) return moments;
  std::transform(paths.begin(), paths.end(), moments.begin(), [](const std::string& path) {
    return printable(std::filesystem::path(path).filename().string());
  });
  return moments;
}

ColorKey key_by_age(std::span<const SnapshotReader> snapshots, std::span<const std::string> paths) {
  std::vector<SnapshotStreams> streams;
  for (const SnapshotReader& each : snapshots) streams.push_back(streams_of(each));
  const std::vector<std::string> moments = moments_of(snapshots, paths);
  std::vector<std::string> ages;
  for (const std::string& moment : moments) {
    ages.push_back(cut_name((ages.empty() ? "there by " : "first seen ") + moment, kMapLabelWidth));
  }
  MapClasses classes = MapClasses::by_age(streams);
  std::vector<std::string> labels = map_labels(classes.list(), {}, ages);
  return {std::move(classes), std::move(labels)};
}

ColorKey color_key(const SnapshotReader& snapshot, const std::string& path,
                   const std::string& color_by) {
  const SnapshotStreams streams = streams_of(snapshot);
  const auto plain = [](MapClasses classes) {
    std::vector<std::string> labels = map_labels(classes.list(), {}, {});
    return ColorKey{std::move(classes), std::move(labels)};
  };
  if (color_by == "stack") return key_by_stack(snapshot, path);
  if (color_by == "residency") return plain(MapClasses::by_residency());
  if (color_by == "size") return plain(MapClasses::by_size());
  if (color_by == "state") return plain(MapClasses::by_state());
  require_references(snapshot, path);
  const ReferenceStreams references = references_of(snapshot);
  if (color_by == "leak") return plain(MapClasses::by_leak(streams, references));
  MapClasses classes = MapClasses::by_type(streams, references);
  std::vector<std::string> labels = map_labels(classes.list(), references.types, {});
  return {std::move(classes), std::move(labels)};
}

// How many snapshots a picture by these colours is made of.
void check_color_by(const std::string& color_by, const std::vector<std::string>& paths) {
  check_choice("--color-by", color_by,
               {"state", "residency", "size", "type", "stack", "leak", "age"});
  if (color_by != "age" && paths.size() > 1) {
    throw Error(ErrorKind::kUsage, fmt::format("{} snapshots", paths.size()),
                fmt::format("by {}, a picture is of one snapshot", color_by),
                "add --color-by age to see what is older than the first of them and what is newer");
  }
  if (color_by == "age" && paths.size() < 2) {
    throw Error(ErrorKind::kUsage, "--color-by age",
                "no snapshot records when a block was allocated: it takes an older one of the same "
                "process to tell",
                fmt::format("heapsnap render OLDER.hsnap {} --color-by age -o FILE",
                            shell_word(paths.front(), "FILE")));
  }
  if (paths.size() > MapClasses::kMostAges) {
    throw Error(ErrorKind::kUsage, fmt::format("{} snapshots", paths.size()),
                fmt::format("a picture tells {} of them apart at most", MapClasses::kMostAges),
                "leave some out: the first, the last and those between them that matter");
  }
}

}  // namespace

int run_render(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  std::string output;
  std::string color_by = "state";
  std::string region;
  std::string scale;
  std::string format;
  uint64_t width = 1280;
  uint64_t height = 800;
  bool force = false;
  OptionParser parser("render [options] [OLDER...] SNAPSHOT -o FILE", kRenderDescription);
  parser.text("output,o", output, "FILE", "the picture; - for standard output");
  parser.flag("force,f", force, "replace FILE if it exists");
  parser.text("color-by", color_by, "COLOURS",
              "state (default), residency, size, type, stack, leak, or age as older "
              "snapshots of the process tell it");
  parser.text("region", region, "PART",
              "'arena N', mmapped, an address in it, a range of addresses, or a mapping's name");
  parser.text("scale", scale, "BYTES",
              "bytes a square: 16 or another power of two (default: the least that fits the size)");
  parser.text("format", format, "PICTURE", "png or svg (default: by FILE's name, else png)");
  parser.number("width", width, "PIXELS", "width of the picture (default: 1280)");
  parser.number("height", height, "PIXELS",
                "maximum height (default: 800); with --scale, it may be higher");
  parser.positionals("SNAPSHOT", paths);
  parser.example("heapsnap render a.hsnap -o a.png", "see fragmentation at a glance");
  parser.example("heapsnap render a.hsnap -o a.png --region 'arena 1' --scale 16",
                 "see every chunk of an arena");
  parser.example("heapsnap render a.hsnap -o a.svg --color-by type",
                 "where objects of which type lie, for a document");
  parser.example("heapsnap render monday.hsnap friday.hsnap -o a.png --color-by age",
                 "what has been there since Monday, and between what the new lies");
  if (!parser.parse(arguments)) return kExitDone;
  if (paths.empty() || output.empty()) {
    throw Error(ErrorKind::kUsage, "render", "it needs a snapshot and -o FILE",
                "for example: heapsnap render a.hsnap -o a.png");
  }
  check_color_by(color_by, paths);
  const bool as_svg = is_svg(format, output);
  PictureSize size{picture_side("width", width), picture_side("height", height), parse_scale(scale),
                   as_svg ? kSvgSquare : 1};
  if (as_svg && size.scale != 0) {
    throw Error(ErrorKind::kUsage, "--scale " + scale, "an SVG is an overview",
                "leave --scale out, or make a PNG");
  }
  refuse_to_replace_input(output, paths);
  const std::vector<SnapshotReader> snapshots = open_series(paths, "render");
  const SnapshotReader& snapshot = snapshots.back();
  const std::string& path = paths.back();
  const SnapshotStreams streams = streams_of(snapshot);
  std::vector<HeapRegion> all = heap_regions(streams);
  if (all.empty()) {
    throw Error(ErrorKind::kUnsupported, "cannot draw " + path, "the heap in it has no chunks",
                "see what it has: heapsnap report " + shell_word(path, "FILE"));
  }
  const ChosenRegions chosen = choose_regions(snapshot.metadata(), std::move(all), region);
  const bool needs_references = color_by == "type" || color_by == "leak";
  StepLine working(needs_references ? "reading the references" : "reading the heap", 2);
  PictureFrame frame = plan_picture(snapshot.metadata().heap, chosen.regions, size);
  const ColorKey key =
      color_by == "age" ? key_by_age(snapshots, paths) : color_key(snapshot, path, color_by);
  HeapPicture picture(std::move(frame), key.classes,
                      {snapshot.metadata(), "by " + color_by, chosen.name, key.labels}, size.height,
                      [&](const HeapMap& map, MapBand& band) {
                        return paint_band(streams, key.classes, map, band);
                      });
  working.step("drawing");
  ResultFile result(output, force);
  as_svg ? picture.write_svg(result.writer()) : picture.write_png(result.writer());
  result.commit();
  working.end();
  if (output != "-") {
    fmt::print("{}: {} x {} pixels, a square is {}, {}\n", printable(output), size.width,
               picture.height(), count_text(picture.frame().map.scale(), "byte", "bytes"),
               count_text(chosen.regions.size(), "region", "regions"));
  }
  return kExitDone;
}

}  // namespace heapsnap
