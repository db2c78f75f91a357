#include "runtime/ruby/ruby_layout.h"

namespace heapsnap {

namespace {

constexpr RubyLayout kRubyLayouts[] = {
#include "runtime/ruby/ruby_layouts.inc"
};

}  // namespace

std::string RubyLayout::version() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::vector<const RubyLayout*> ruby_layouts(unsigned major, unsigned minor) {
  std::vector<const RubyLayout*> found;
  for (const RubyLayout& layout : kRubyLayouts) {
    if (layout.major == major && layout.minor == minor) found.push_back(&layout);
  }
  return found;
}

std::string known_ruby_versions() {
  std::string text;
  for (const RubyLayout& layout : kRubyLayouts) {
    if (!text.empty()) text += ", ";
    text += layout.version();
  }
  return text;
}

}  // namespace heapsnap
