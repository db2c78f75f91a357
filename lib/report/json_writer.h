// JSON (RFC 8259), written in order, with commas and escapes taken care of.
//
//   JsonWriter json(out);
//   json.begin_object();
//   json.member("pid", 42);
//   json.key("rows"); json.begin_array(); json.value("a"); json.end_array();
//   json.end_object();
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"
#include "report/writer.h"

namespace heapsnap {

// Appends `text` as a JSON string with its quotes. Bytes that are no UTF-8 become U+FFFD; what a
// terminal would obey and what a reader would not see (is_invisible()) is escaped.
void append_json_string(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(Writer& out) : out_(&out) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(Address address);  // a string "0x..."
  void value(bool truth);
  void value(double number);  // finite
  void null();
  template <std::integral T>
  void value(T number) {
    separate();
    out_->write(std::to_string(number));
  }

  template <typename T>
  void member(std::string_view name, const T& what) {
    key(name);
    value(what);
  }

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();  // a comma unless this is the first element

  Writer* out_;
  bool needs_comma_ = false;
  std::string scratch_;
};

}  // namespace heapsnap
