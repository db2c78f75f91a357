#include "report/json_writer.h"

#include <fmt/format.h>

#include <optional>

#include "report/utf8.h"

namespace heapsnap {

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::string_view before = text;
    const std::optional<char32_t> character = take_utf8(text);
    if (!character) {
      out += "\xef\xbf\xbd";
    } else if (*character == '"' || *character == '\\') {
      out += '\\';
      out += static_cast<char>(*character);
    } else if (*character == '\n') {
      out += "\\n";
    } else if (*character < 0x20 || (*character >= 0x7f && *character <= 0x9f)) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(*character));
    } else {
      out += before.substr(0, before.size() - text.size());
    }
  }
  out += '"';
}

void JsonWriter::separate() {
  if (needs_comma_) out_->write(",");
  needs_comma_ = true;
}

void JsonWriter::open(char bracket) {
  separate();
  out_->write(std::string_view(&bracket, 1));
  needs_comma_ = false;
}

void JsonWriter::close(char bracket) {
  out_->write(std::string_view(&bracket, 1));
  needs_comma_ = true;
}

void JsonWriter::key(std::string_view name) {
  value(name);
  out_->write(":");
  needs_comma_ = false;
}

void JsonWriter::value(std::string_view text) {
  separate();
  scratch_.clear();
  append_json_string(scratch_, text);
  out_->write(scratch_);
}

void JsonWriter::value(Address address) {
  value(fmt::format("{:#x}", address.value()));
}

void JsonWriter::value(bool truth) {
  separate();
  out_->write(truth ? "true" : "false");
}

void JsonWriter::null() {
  separate();
  out_->write("null");
}

void JsonWriter::value(double number) {
  separate();
  out_->write(fmt::format("{:.6f}", number));
}

}  // namespace heapsnap
