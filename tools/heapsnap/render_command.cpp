#include <fmt/format.h>
#include <unistd.h>

#include "analysis/heap_map.h"
#include "base/count_text.h"
#include "base/error.h"
#include "report/heap_picture.h"
#include "snapshot/snapshot_reader.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/option_parser.h"
#include "tools/heapsnap/result_file.h"

namespace heapsnap {

namespace {

constexpr uint64_t kLargestSide = 8192;

constexpr const char* kRenderDescription =
    "Draws the heap as a picture (PNG): all arenas and mmapped chunks in ascending order of\n"
    "address, every pixel the same number of bytes. Red is used, grey is free and in memory, "
    "white\n"
    "was never touched or given back, blue is in swap, black is no heap.";

unsigned picture_side(const char* option, uint64_t pixels) {
  if (pixels >= 16 && pixels <= kLargestSide) return static_cast<unsigned>(pixels);
  throw Error(ErrorKind::kUsage, fmt::format("--{} {}", option, pixels),
              fmt::format("not between 16 and {}", kLargestSide));
}

}  // namespace

int run_render(const std::vector<std::string>& arguments) {
  std::string path;
  std::string output;
  uint64_t width = 1024;
  uint64_t height = 1024;
  bool force = false;
  OptionParser parser("render [options] SNAPSHOT -o FILE", kRenderDescription);
  parser.text("output,o", output, "FILE", "the picture; - for standard output");
  parser.flag("force,f", force, "replace FILE if it exists");
  parser.number("width", width, "PIXELS", "width of the picture (default: 1024)");
  parser.number("height", height, "PIXELS", "maximum height (default: 1024)");
  parser.positional("SNAPSHOT", path);
  parser.example("heapsnap render a.hsnap -o a.png", "see fragmentation at a glance");
  if (!parser.parse(arguments)) return kExitDone;
  if (path.empty() || output.empty()) {
    throw Error(ErrorKind::kUsage, "render", "it needs a snapshot and -o FILE",
                "for example: heapsnap render a.hsnap -o a.png");
  }
  const unsigned columns = picture_side("width", width);
  const unsigned rows = picture_side("height", height);
  const SnapshotReader snapshot = SnapshotReader::open(path);
  const HeapMap map = map_heap(streams_of(snapshot), columns, rows);
  if (map.height == 0) {
    throw Error(ErrorKind::kUnsupported, "cannot draw " + path, "the heap in it has no chunks");
  }
  ResultFile result(output, force);
  write_heap_picture(map, result.writer());
  result.commit();
  if (output != "-") {
    fmt::print("{}: {} x {} pixels of {}, {}\n", output, map.width, map.height,
               count_text(map.bytes_per_pixel, "byte", "bytes"),
               count_text(map.regions.size(), "region", "regions"));
  }
  return kExitDone;
}

}  // namespace heapsnap
