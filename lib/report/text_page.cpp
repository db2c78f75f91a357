#include "report/text_page.h"

namespace heapsnap {

namespace {

constexpr size_t kLabelWidth = 13;  // with the indentation

}  // namespace

void TextPage::heading(std::string_view title) {
  out.write("\n" + ink.bold(title) + "\n");
}

void TextPage::field(std::string_view label, std::string_view text) {
  std::string front = "  " + std::string(label);
  front.resize(std::max(kLabelWidth, front.size() + 1), ' ');
  for (const std::string& line : wrapped(text, width - kLabelWidth)) {
    out.write(ink.dim(front) + line + "\n");
    front.assign(kLabelWidth, ' ');
  }
}

void TextPage::sentence(std::string_view text) {
  for (const std::string& line : wrapped(text, width - 2)) out.write("  " + line + "\n");
}

}  // namespace heapsnap
