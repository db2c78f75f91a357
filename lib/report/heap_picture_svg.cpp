#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/heap_picture.h"
#include "report/utf8.h"

namespace heapsnap {

namespace {

constexpr unsigned kBaseline = 12;  // below the upper edge of a line

// Text for XML, which has no place for most control characters, however they are written.
std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char letter : valid_utf8(text)) {
    switch (letter) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default:
        escaped += static_cast<unsigned char>(letter) < 0x20 && letter != '\n' ? '?' : letter;
    }
  }
  return escaped;
}

}  // namespace

void HeapPicture::write_svg(Writer& out) {
  std::string account;
  for (const std::string& line : words_.account) account += line + "\n";
  out.write(fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" aria-labelledby=\"title account\" "
      "font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"14.5\">\n"
      "<title id=\"title\">{2}</title>\n<desc id=\"account\">{3}</desc>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"{4}\"/>\n",
      frame_.width, words_.height, xml_text(words_.title), xml_text(account), paint_code(kPaper)));
  for (size_t panel = 0; panel < frame_.panels.size(); ++panel) {
    const HeapMap::Squares& squares = frame_.map.panels()[panel];
    // Squares of one colour are one shape. Each square is a dot.
    std::vector<std::string> shapes(classes_);
    for (uint64_t i = 0; i < squares.count;) {
      const uint64_t row = i / frame_.columns;
      const uint64_t row_end = std::min((row + 1) * frame_.columns, squares.count);
      const auto class_of = [&](uint64_t square) {
        return class_of_dot(bytes_in(squares.first + square),
                            static_cast<unsigned>(square % frame_.columns),
                            static_cast<unsigned>(row % 8));
      };
      const std::optional<size_t> kind = class_of(i);
      uint64_t end = i + 1;
      while (end < row_end && class_of(end) == kind) ++end;
      if (kind) {
        shapes[*kind] +=
            fmt::format("M{} {}h{}v{}h-{}z", frame_.map_left + i % frame_.columns * frame_.square,
                        frame_.panels[panel].map_top + row * frame_.square,
                        (end - i) * frame_.square, frame_.square, (end - i) * frame_.square);
      }
      i = end;
    }
    out.write(fmt::format("<g shape-rendering=\"crispEdges\"><title>{}</title>\n",
                          xml_text(words_.panel_hints[panel])));
    for (size_t kind = 0; kind < shapes.size(); ++kind) {
      if (shapes[kind].empty()) continue;
      out.write(fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", paint_code(palette_.of_class(kind)),
                            shapes[kind]));
    }
    out.write("</g>\n");
  }
  for (const PictureBox& box : words_.boxes) {
    out.write(fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                          box.x, box.y, box.width, box.height, paint_code(box.paint)));
  }
  for (const PictureText& text : words_.texts) {
    const std::string hint = text.hint.empty() ? "" : "<title>" + xml_text(text.hint) + "</title>";
    out.write(
        fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\"{} xml:space=\"preserve\">{}{}</text>\n",
                    text.x, text.y + kBaseline, paint_code(text.ink),
                    text.is_bold ? " font-weight=\"bold\"" : "", hint, xml_text(text.text)));
  }
  out.write("</svg>\n");
}

}  // namespace heapsnap
