#include "report/json_writer.h"

#include <doctest/doctest.h>
#include <simdjson.h>

using namespace heapsnap;

namespace {

std::string json_of(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  return json;
}

}  // namespace

TEST_CASE("strings are escaped, and what is no UTF-8 is replaced") {
  CHECK(json_of("plain") == "\"plain\"");
  CHECK(json_of("a\"b\\c") == "\"a\\\"b\\\\c\"");
  CHECK(json_of("line\nbreak\x01") == "\"line\\nbreak\\u0001\"");
  CHECK(json_of(std::string_view("\0", 1)) == "\"\\u0000\"");
  CHECK(json_of("\xff\xc3") == "\"\uFFFD\uFFFD\"");
  CHECK(json_of("€😀") == "\"€😀\"");
}

TEST_CASE("no control character reaches a terminal, in UTF-8 neither") {
  CHECK(json_of("\x1b\x7f") == "\"\\u001b\\u007f\"");
  CHECK(json_of("\xc2\x80\xc2\x9b"
                "31m\xc2\x9f") == "\"\\u0080\\u009b31m\\u009f\"");
  CHECK(json_of("\xc2\xa0") == "\"\xc2\xa0\"");
}

TEST_CASE("what a reader would not see is escaped, with two surrogates past U+FFFF") {
  CHECK(json_of("a\u202eb\u200bc") == "\"a\\u202eb\\u200bc\"");
  CHECK(json_of("\U000e0041\U0010ffff") == "\"\\udb40\\udc41\\udbff\\udfff\"");
  simdjson::dom::parser parser;
  const std::string json = json_of("\U000e0041\u202e");
  CHECK(parser.parse(simdjson::padded_string(json)).get_string().value() == "\U000e0041\u202e");
}

TEST_CASE("every string of bytes gives JSON that parses") {
  simdjson::dom::parser parser;
  for (unsigned first = 0; first < 256; ++first) {
    for (unsigned second = 0; second < 256; ++second) {
      const std::string bytes = {'x', static_cast<char>(first), static_cast<char>(second), 'y'};
      std::string json = json_of(bytes);
      const auto parsed = parser.parse(simdjson::padded_string(json));
      REQUIRE(parsed.error() == simdjson::SUCCESS);
      const std::string_view back = parsed.get_string().value();
      // Well-formed text comes back as it was.
      if (simdjson::validate_utf8(bytes)) REQUIRE(back == bytes);
    }
  }
}

TEST_CASE("commas and nesting") {
  std::string text;
  Writer out(text);
  JsonWriter json(out);
  json.begin_object();
  json.member("a", 1);
  json.key("b");
  json.begin_array();
  json.value(uint64_t{18446744073709551615U});
  json.begin_object();
  json.end_object();
  json.value(true);
  json.value(0.5);
  json.begin_array();
  json.end_array();
  json.value("s");
  json.end_array();
  json.member("c", Address(0xabc));
  json.member("d", int64_t{-5});
  json.end_object();
  out.flush();
  CHECK(text == R"({"a":1,"b":[18446744073709551615,{},true,0.500000,[],"s"],"c":"0xabc","d":-5})");
}
