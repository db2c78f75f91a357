#include "tracking/symbolizer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "tracking/function_name.h"
#include "tracking/module_symbols.h"

namespace heapsnap {

namespace {

struct Wanted {
  int32_t module = -1;
  Address return_address;
  uint32_t node = 0;

  auto key() const { return std::tie(module, return_address); }
};

// The file of a module, if it is the one that was loaded.
std::optional<ElfImage> open_image(const TrackedModule& module, const OpenModule& open_module) {
  auto file = open_module(module);
  if (!file) return std::nullopt;
  try {
    ElfImage image = ElfImage::from_file(std::move(*file), module.path);
    if (!module.build_id.empty() && image.build_id() != module.build_id) return std::nullopt;
    return image;
  } catch (const Error&) {
    return std::nullopt;  // not an ELF file, or not of a machine that we know
  }
}

class Symbolizing {
 public:
  Symbolizing(CallStacks& stacks, const std::vector<TrackedModule>& modules,
              const DebugFileSearch& debug_files, const OpenModule& open_module)
      : stacks_(stacks),
        modules_(modules),
        labels_(module_labels(modules)),
        debug_files_(debug_files),
        open_module_(open_module) {}

  // Module by module, so that the files of one are open at a time. Signal frames come first: what
  // is outside of one is in a module of its own.
  SourceFrames run() {
    list_wanted();
    is_interrupted_.resize(stacks_.nodes.size());
    each_module(
        [this](ElfImage image, const TrackedModule& module, std::span<const Wanted> wanted) {
          for (const Wanted& one : wanted) {
            if (!is_signal_return(image, one.return_address.value() - module.bias)) continue;
            is_interrupted_[stacks_.nodes[one.node].parent] = true;
          }
        });
    each_module(
        [this](ElfImage image, const TrackedModule& module, std::span<const Wanted> wanted) {
          resolve(std::move(image), module, wanted);
        });
    // Those of a snapshot have their names.
    if (!stacks_.functions.empty()) name_interpreted_frames(stacks_, symbols_);
    symbols_.sort();
    return std::move(symbols_);
  }

 private:
  void list_wanted() {
    for (size_t i = tracker::kFirstNode; i < stacks_.nodes.size(); ++i) {
      const CallNode& node = stacks_.nodes[i];
      if (node.module < 0 || static_cast<size_t>(node.module) >= modules_.size()) continue;
      wanted_.push_back({node.module, node.return_address, static_cast<uint32_t>(i)});
    }
    std::sort(wanted_.begin(), wanted_.end(),
              [](const Wanted& a, const Wanted& b) { return a.key() < b.key(); });
  }

  template <typename Visit>
  void each_module(Visit visit) {
    for (size_t begin = 0; begin < wanted_.size();) {
      size_t end = begin;
      const int32_t index = wanted_[begin].module;
      while (end < wanted_.size() && wanted_[end].module == index) ++end;
      const TrackedModule& module = modules_[static_cast<size_t>(index)];
      if (auto image = open_image(module, open_module_)) {
        visit(std::move(*image), module, std::span(wanted_).subspan(begin, end - begin));
      }
      begin = end;
    }
  }

  void resolve(ElfImage image, const TrackedModule& module, std::span<const Wanted> wanted) {
    std::vector<bool> returns_from_handler;
    for (const Wanted& one : wanted) {
      returns_from_handler.push_back(
          is_signal_return(image, one.return_address.value() - module.bias));
    }
    auto debug_file = debug_files_.find(image, module.path);
    ModuleSymbols symbols(std::move(image), std::move(debug_file),
                          labels_[static_cast<size_t>(wanted.front().module)]);
    std::vector<SourceFrame> frames;
    for (size_t i = 0; i < wanted.size();) {
      const Wanted& one = wanted[i];
      const bool is_handler_return = returns_from_handler[i];
      bool is_exact = is_handler_return;
      const size_t first = i;
      for (; i < wanted.size() && wanted[i].key() == one.key(); ++i) {
        is_exact |= is_interrupted_[wanted[i].node];
      }
      // A return address may be the first byte of the next function: the call is before it.
      const uint64_t address = one.return_address.value() - module.bias - (is_exact ? 0 : 1);
      correct_ends(wanted.subspan(first, i - first), symbols, address);
      frames.clear();
      for (const CodeFrame& frame : symbols.frames_at(address)) {
        frames.push_back({symbols_.intern(frame.function), symbols_.intern(frame.file), frame.line,
                          frame.is_inlined ? 0 : frame.offset + (is_exact ? 0 : 1),
                          frame.is_inlined, FrameLanguage::kNative});
      }
      if (is_handler_return) {
        frames.assign(1, SourceFrame{symbols_.intern("<signal handler called>")});
      }
      symbols_.add(one.module, one.return_address, frames);
    }
  }

  // Of nodes that share an address of the module.
  void correct_ends(std::span<const Wanted> nodes, ModuleSymbols& symbols, uint64_t address) {
    std::optional<bool> is_outermost;
    for (const Wanted& one : nodes) {
      uint32_t& parent = stacks_.nodes[one.node].parent;
      if (parent != tracker::kRootNoUnwindInfo && parent != tracker::kRootBadFrame) continue;
      if (!is_outermost) is_outermost = symbols.is_outermost(address);
      if (*is_outermost) parent = tracker::kRootComplete;
    }
  }

  CallStacks& stacks_;
  const std::vector<TrackedModule>& modules_;
  const std::vector<std::string> labels_;  // of modules_
  const DebugFileSearch& debug_files_;
  const OpenModule& open_module_;
  std::vector<Wanted> wanted_;        // by module and address
  std::vector<bool> is_interrupted_;  // by node: a signal came in there
  SourceFrames symbols_;
};

}  // namespace

SourceFrames symbolize(CallStacks& stacks, const std::vector<TrackedModule>& modules,
                       const DebugFileSearch& debug_files, const OpenModule& open_module) {
  return Symbolizing(stacks, modules, debug_files, open_module).run();
}

}  // namespace heapsnap
