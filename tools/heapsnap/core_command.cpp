#include "base/error.h"
#include "core/core_target.h"
#include "tools/heapsnap/capture_options.h"
#include "tools/heapsnap/command.h"
#include "tools/heapsnap/result_file.h"
#include "tools/heapsnap/typed_address.h"

namespace heapsnap {

namespace {

constexpr const char* kCoreDescription =
    "Writes the same snapshot as attach, from a core file (by the kernel or gcore, also "
    "compressed\n"
    "with zstd) or from raw memory images, and accounts for its memory. A core does not record\n"
    "which pages were resident, so sizes are of address space.";

// "0x7f0000000000:heap.bin"
CoreOptions::Image parse_image(const std::string& text) {
  const size_t colon = text.find(':');
  const auto base = parse_address(text.substr(0, colon));
  if (colon == std::string::npos || colon + 1 == text.size() || !base) {
    throw Error(ErrorKind::kUsage, "--image " + text,
                "not BASE:FILE with BASE a hexadecimal address",
                "for example: --image 0x7f2a00000000:heap.bin");
  }
  return {*base, text.substr(colon + 1)};
}

}  // namespace

int run_core(const std::vector<std::string>& arguments) {
  CaptureArguments capture;
  CoreOptions core;
  std::vector<std::string> images;
  OptionParser parser("core [options] [CORE]", kCoreDescription);
  parser.text("exe", core.exe, "PATH",
              "the executable, if it is not at the path that the core names");
  parser.text("sysroot", core.sysroot, "DIR", "directory that holds the target's files");
  parser.texts("image", images, "BASE:FILE", "raw memory whose first byte is at BASE (repeatable)");
  add_capture_options(parser, capture);
  parser.positional("CORE", core.core_path);
  parser.example("heapsnap core core.4242", "the memory of the process when it crashed");
  parser.example("heapsnap core core.4242.zst --sysroot /srv/rootfs",
                 "from another machine, whose files are under /srv/rootfs");
  if (!parser.parse(arguments)) return kExitDone;
  for (const std::string& image : images) core.images.push_back(parse_image(image));
  if (core.core_path.empty() && core.images.empty()) {
    throw Error(ErrorKind::kUsage, "core", "it needs a core file or --image",
                "for example: heapsnap core core.4242");
  }

  std::vector<std::string> notes;
  const std::unique_ptr<Target> target = open_core(core, notes);
  const Process& process = target->process();
  CaptureOptions options = to_capture_options(capture, process, process.taken_at_ns, core.sysroot);
  std::vector<std::string> inputs = {core.core_path, core.exe};
  for (const auto& image : core.images) inputs.push_back(image.path);
  refuse_to_replace_input(options.output.path, inputs);
  CaptureResult result;
  {
    const CaptureProgress progress(options, capture.quiet);
    const std::string source = core.core_path.empty() ? "memory images" : core.core_path;
    result = capture_core(*target, source, notes, options);
  }
  return announce_capture(result, options, capture);
}

}  // namespace heapsnap
