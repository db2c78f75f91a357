#include "report/json_writer.h"

#include <fmt/format.h>

#include <optional>

#include "report/terminal_text.h"
#include "report/utf8.h"

namespace heapsnap {
namespace {

// As RFC 8259 has it: two surrogates for what is past U+FFFF.
void append_escape(std::string& out, char32_t character) {
  const auto code = static_cast<uint32_t>(character);
  if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", code);
  } else {
    out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10),
                       0xdc00 + (code & 0x3ff));
  }
}

}  // namespace

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
    } else if (is_invisible(*character)) {
      append_escape(out, *character);
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
