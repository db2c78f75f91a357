#include "report/view_page.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace heapsnap {

namespace {

void print_script(Writer& out, std::string_view type, const std::string& name,
                  std::string_view text) {
  out.write("<script type=\"");
  out.write(type);
  out.write("\" id=\"");
  out.write(name);
  out.write("\">");
  out.write(text);
  out.write("</script>\n");
}

}  // namespace

std::string script_json(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {  // JSON has it in strings only
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string base64_text(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t group = 0;
    for (size_t i = 0; i < 3; ++i) {
      group = group << 8U | (i < count ? static_cast<uint8_t>(bytes[at + i]) : 0U);
    }
    for (size_t i = 0; i < 4; ++i) {
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return text;
}

void print_view_page(Writer& out, std::string_view page_template, const ViewPage& page) {
  const size_t marker = page_template.find(kViewMarker);
  if (marker == std::string_view::npos) {
    throw Error(ErrorKind::kInternal, "the viewer's page", "there is no place in it for the data");
  }
  out.write(page_template.substr(0, marker));
  for (const ViewPage::Part& part : page.documents) {
    print_script(out, "application/json", part.name, script_json(part.bytes));
  }
  for (const ViewPage::Part& part : page.binaries) {
    print_script(out, "text/plain", part.name, base64_text(part.bytes));
  }
  out.write(page_template.substr(marker + kViewMarker.size()));
}

}  // namespace heapsnap
