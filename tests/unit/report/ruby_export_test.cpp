#include <doctest/doctest.h>
#include <simdjson.h>

#include <set>
#include <string>

#include "report/heap_dump_export.h"
#include "report/ruby_dump_export.h"
#include "tests/unit/analysis/handmade_ruby.h"

using namespace heapsnap;
using namespace heapsnap::test;

namespace {

template <typename Export>
std::string exported_by(Export write) {
  HandmadeRuby ruby;
  RubyObjects objects(ruby.streams, ruby.heap.streams);
  std::string text;
  Writer out(text);
  write(ruby, objects, out);
  out.flush();
  return text;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("objects of Ruby are written as ObjectSpace.dump_all does") {
  const std::string text = exported_by([](HandmadeRuby& ruby, RubyObjects& objects, Writer& out) {
    export_ruby_dump(ruby.heap.snapshot.metadata, objects, out);
  });
  CHECK(text.starts_with(R"({"type":"ROOT", "root":"ORDERS", "references":["0x7f000000c000"]})"
                         "\n"));
  CHECK(has_line(text, R"({"address":"0x7f000000c000", "type":"ARRAY", "class":"0x7f0000008000", )"
                       R"("slot_size":40, "references":["0x7f0000010000", "0x7f0000014000"], )"
                       R"("memsize":160})"));
  CHECK(has_line(
      text,
      R"({"address":"0x7f0000004000", "type":"CLASS", "class":"0x7f0000000000", )"
      R"("slot_size":160, "name":"Order", "references":["0x7f0000004000", "0x7f0000018000"], )"
      R"("memsize":160})"));
  CHECK(has_line(text,
                 R"({"address":"0x7f0000018000", "type":"STRING", "slot_size":40, "memsize":40})"));
  CHECK(has_line(text,
                 R"({"address":"0x7f000001c000", "type":"IMEMO", "slot_size":40, )"
                 R"("imemo_type":"constcache", "references":["0x7f0000004000"], "memsize":40})"));
}

TEST_CASE("objects of Ruby are written as the gem heap_dump does") {
  const std::string text = exported_by(
      [](HandmadeRuby&, RubyObjects& objects, Writer& out) { export_heap_dump(objects, out); });
  simdjson::dom::parser parser;
  CHECK(parser.parse(text).get_array().value().size() == 10);
  CHECK(text.starts_with(
      R"([{"id":"_ROOTS_","registers":[139637976809472],"stack":[139637976809472],)"
      R"("globals":[],"classes":{)"));
  CHECK(text.find(R"("Order":139637976743936)") != std::string::npos);
  CHECK(text.find(R"({"name":"$details","ref":139637976825856})") != std::string::npos);
  CHECK(text.ends_with("}\n]\n"));
  CHECK(has_line(text,
                 R"(,{"id":139637976776704,"bt":"T_ARRAY","class":139637976760320,)"
                 R"("class_name":"Array","size":160,"refs":[139637976793088,139637976809472]})"));
  CHECK(has_line(text, R"(,{"id":139637976825856,"bt":"T_STRING","class":null,)"
                       R"("class_name":"String","size":40,"refs":[]})"));
}

TEST_CASE("a line of very many references goes on in the next one") {
  const std::string text = exported_by(
      [](HandmadeRuby&, RubyObjects& objects, Writer& out) { export_heap_dump(objects, out, 1); });
  CHECK(has_line(text, R"(,{"id":139637976776704,"bt":"T_ARRAY","class":139637976760320,)"
                       R"("class_name":"Array","size":160,"refs":[139637976793088]})"));
  CHECK(has_line(text,
                 R"(,{"id":"139637976776704:1","of":139637976776704,"refs":[139637976809472]})"));
  CHECK(text.find(R"(,{"id":"_ROOTS_:1","of":"_ROOTS_",")") != std::string::npos);
  simdjson::dom::parser parser;
  std::set<std::string> ids;
  size_t lines = 0;
  const simdjson::dom::array all = parser.parse(text).get_array().value();
  for (const simdjson::dom::element each : all) {
    ++lines;
    ids.insert(simdjson::to_string(each["id"].value()));
  }
  CHECK(ids.size() == lines);
}
